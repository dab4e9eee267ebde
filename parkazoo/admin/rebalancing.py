"""A rebalancing: what the ensembles have to do is measured, and directories move until that fits the weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from parkazoo.admin.advise import FOLLOW_S, find_advice
from parkazoo.admin.all_znodes import Pace, look_at_all
from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.clients import TIMEOUT_S, Auth
from parkazoo.admin.moving.copying import Progress
from parkazoo.admin.moving.immovable import verify_form, verify_rule
from parkazoo.admin.moving.znodes_below import count_below
from parkazoo.admin.read import read_map
from parkazoo.admin.rebalance_plan import WORTH, Branch, MayGo, RebalancePlan, branches_of, make_plan
from parkazoo.admin.rise import OnWait, Rise, Tell
from parkazoo.admin.several_moves import Clients, MovesInTurn, SeveralMoves, Targets
from parkazoo.admin.strays import SHOWN
from parkazoo.admin.write_counts import DirectoryWrites, directory_of, is_own
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import logical, shown

WRITES, ZNODES = "writes/s", "znodes"
FEW_WRITES = 100  # fewer say nothing
FEW_ZNODES = 1_000
MOST_COUNTED = 200  # branches of an ensemble
COUNTS_PER_SECOND = 20  # a server looks at all its znodes for each
LOOKS_PER_SECOND = 2_000  # at an ensemble that has little else to do
MOST_PAUSE_MS = 3_000.0  # clients call a longer one off


def rebalance(
    hosts: str,
    *,
    seconds: float = FOLLOW_S,
    most_pause_ms: float = MOST_PAUSE_MS,
    per_second: float = math.inf,
    dry_run: bool = False,
    strangers_gone: bool = False,
    on_plan: Callable[[RebalancePlan], None] = lambda plan: None,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    progress: Progress = lambda done, total: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> SeveralMoves:
    """Moves directories, one by one, so that each ensemble has the part of the writes that its weight says.

    Writes are counted as by `find_advice`; if there are too few, znodes count. The plan has the moves that bring
    the most for the fewest znodes. A directory that cannot move is left out. A call may be interrupted anywhere,
    and the next one makes a plan of its own. A move that a command has left in the map comes to its end first.

    :param seconds: how long writes are counted.
    :param most_pause_ms: directories whose move would probably have operations wait for longer stay.
    :param per_second: writes of a move, at most.
    :param on_plan: called before the first move.
    :param dry_run: writes nothing, and tries no move.
    :param strangers_gone: as for `move_directory`, like the others.
    :raises ClusterMapError: nothing could be measured, or nothing can move; or as `move_directory`.
    """
    if not per_second > 0 or not seconds > 0 or not most_pause_ms > 0:  # nor nan
        raise WrongArgumentError("seconds, most_pause_ms and per_second must be more than 0")
    common: dict[str, Any] = {"auth": auth, "timeout_s": timeout_s, **client_options}
    known = read_map(hosts, **common)
    verify_form(known)
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, True, strangers_gone)
    plans: list[RebalancePlan] = []

    def find(newest: ClusterMap, clients: Clients) -> Targets:
        if not plans:
            plans.append(_Measuring(hosts, newest, clients, most_pause_ms, tell).plan(seconds, common))
            on_plan(plans[0])
        return {} if dry_run else {branch.directory: to for branch, to in plans[0].moves}

    return MovesInTurn(rise, progress, per_second).run(known, known, find)


class _Measuring:
    """Finds loads and branches."""

    def __init__(self, hosts: str, known: ClusterMap, clients: Clients, most_pause_ms: float, tell: Tell) -> None:
        self._hosts = hosts
        self._map = known
        self._clients = {name: client for name, client in clients.items() if name in known.placement}
        self._most_pause_ms = most_pause_ms
        self._tell = tell

    def plan(self, seconds: float, common: Mapping[str, Any]) -> RebalancePlan:
        measured = find_advice(self._hosts, seconds=seconds, **common).measured
        if measured.unseen:
            told = "; ".join(f"{name}: {why}" for name, why in measured.unseen.items())
            raise ClusterMapError(f"writes could not be counted, so nothing moves: {told}")
        count = sum(each.writes for each in measured.directories if not is_own(each)) * measured.seconds
        about = f"counted {count:,.0f} writes in {measured.seconds:.0f} s"
        if count < FEW_WRITES:
            self._tell(f"{about}, too few to go by: znodes count instead")
            return self._by_znodes()
        self._tell(about)
        # What nobody sees, such as creates in vain, moves with the directories.
        loads = {name: measured.explained.get(name, 0.0) for name in self._clients}
        branches = branches_of(measured.directories, worth=WORTH * sum(loads.values()))
        return self._plan(WRITES, loads, self._with_znodes(loads, branches))

    def _plan(self, unit: str, loads: Mapping[str, float], branches: Sequence[Branch]) -> RebalancePlan:
        weights = self._map.epochs[-1].weights
        return make_plan(unit, loads, weights, branches, rules_allow(self._map), self._most_pause_ms)

    def _with_znodes(self, loads: Mapping[str, float], branches: Sequence[Branch]) -> list[Branch]:
        """Returns the heaviest branches of the ensembles that have too much, with their znodes."""
        shares = self._plan(WRITES, loads, ()).shares
        counted: list[Branch] = []
        uncounted: list[str] = []
        for name, client in self._clients.items():
            if loads[name] <= shares[name]:
                continue
            asked = [each for each in branches if each.ensemble == name][:MOST_COUNTED]
            znodes = count_below(client, [each.place for each in asked], Pace(per_second=COUNTS_PER_SECOND))
            counted += [each._replace(znodes=znodes[each.place]) for each in asked if each.place in znodes]
            uncounted += [each.directory for each in asked if each.place not in znodes]
        if uncounted:
            told = ", ".join(shown(each) for each in uncounted[:SHOWN])
            more = f" and {len(uncounted) - SHOWN:,} more" if len(uncounted) > SHOWN else ""
            self._tell(f"left out, because they are gone, or this identity may not read them: {told}{more}")
        return counted

    def _by_znodes(self) -> RebalancePlan:
        directories: list[DirectoryWrites] = []
        for name, client in self._clients.items():
            found = look_at_all(client, Pace(per_second=LOOKS_PER_SECOND)).znodes
            counts = Counter(directory_of(path) for path in found)
            directories += [
                DirectoryWrites(name, logical(path), path, count) for path, count in sorted(counts.items())
            ]
        directories = [each for each in directories if not is_own(each)]
        loads = {name: sum(each.writes for each in directories if each.ensemble == name) for name in self._clients}
        total = sum(loads.values())
        self._tell(f"counted {total:,} znodes{', too few to go by' if total < FEW_ZNODES else ''}")
        if total < FEW_ZNODES:
            return replace(self._plan(ZNODES, loads, ()), is_too_little=True)
        branches = branches_of(directories, worth=WORTH * total)
        return self._plan(ZNODES, loads, [each._replace(znodes=int(each.load)) for each in branches])


def rules_allow(known: ClusterMap) -> MayGo:
    """Returns whether the rules of the map let a branch go to an ensemble, with all in it that has a load."""
    rule_of = known.make_guess().rule_of
    found: dict[tuple[str, str, str], bool] = {}

    def may_go(branch: Branch, to: str) -> bool:
        key = branch.ensemble, branch.place, to
        if key not in found:
            found[key] = True
            for each in branch.below:
                if rule_of(each) is not None:
                    found[key] &= _is_allowed(known, each, to)
        return found[key]

    return may_go


def _is_allowed(known: ClusterMap, directory: str, to: str) -> bool:
    try:
        verify_rule(known, directory, to)
    except ClusterMapError:
        return False
    return True
