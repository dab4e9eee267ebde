"""Whether all copies of the map are right, and all clients work by the newest."""

from __future__ import annotations

from parkazoo.admin.spread import MapSpread
from tests.faults.load import Judgement


def judge_followers(found: MapSpread) -> Judgement:
    newest = found.cluster_map.epoch
    problems = [f"the copy on {name}: {copy.about}" for name, copy in found.copies.items() if copy.is_wrong]
    behind = [each for each in found.clients if each.map != newest]
    problems += [f"{each.client}, pid {each.pid}, works by map {each.map}" for each in behind]
    return Judgement(problems, {"map": newest, "clients": len(found.clients)})
