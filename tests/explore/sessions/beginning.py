"""The cluster to begin with, and its maps."""

from __future__ import annotations

import json
from dataclasses import replace

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.pin import NATIVE_PIN
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP, Placement
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import make_context, must, outcome, prepared
from tests.explore.model import Model
from tests.explore.sessions.command import HOLDS, MOVED, Command
from tests.explore.sessions.scenario import SessionScenario
from tests.where_is import where_is

NAMES = "abc"


def map_of(scenario: SessionScenario, epoch: int) -> ClusterMap:
    """Each epoch has other addresses, unless a directory moves. Those that come have no weight, and come one with
    each epoch; then forms.

    If the last one leaves, it is leaving in the second map, and has left in the third. A directory that moves is
    held in the second map, and has moved in the third.
    """
    first = scenario.ensembles - scenario.come
    names = NAMES[: min(first + epoch - 1, scenario.ensembles)]
    hosts = {name: f"{name}{1 if scenario.moves else epoch}:1" for name in names}
    if scenario.moves:
        first_map = ClusterMap("c", hosts, tuple(names), names[0], epoch, form=Form.GROWN)
        moving = Command.of(first_map.make_placement(), scenario.moves).entry(names)
        if epoch not in (HOLDS, MOVED):
            return first_map if epoch < HOLDS else replace(first_map, moved=moving.name)
        return replace(first_map, move=moving._replace(has_switched=epoch == MOVED))
    form = Form(scenario.begins + max(0, min(epoch - 1 - scenario.come, scenario.rises)))
    if not scenario.leaves:
        return ClusterMap("c", hosts, tuple(names), names[0], epoch, unweighted=tuple(names[first:]), form=form)
    found, last = ClusterMap("c", hosts, tuple(names), names[0], form=form), names[-1]
    found = found.with_leaving(last) if epoch > 1 else found
    return found.without(last) if epoch > 2 else found


def beginning(scenario: SessionScenario) -> Model:
    """The ensembles of a new cluster, with a znode w on each; those that come later are ready, without a map."""
    known, last = map_of(scenario, 1), map_of(scenario, scenario.come + 1)
    placement, first = last.make_placement(), len(known.names)
    made = [path for path in directories(placement, first) if path]
    model = prepared(placement, made)
    for ensemble, name in enumerate(last.names):
        identity = json.dumps(last.identity(name)).encode()
        for path, data in ((CLIENTS, b""), (ENSEMBLE, identity), (MAP, known.to_json())):
            if path != MAP or name in known.names:
                must(model.execute(ensemble, Create(path, data, OPEN_ACL_UNSAFE, 0)))
    context = make_context(placement, "before")
    context.names = last.names  # pins have them
    for path in (*made, *(f"{directory}/w" for directory in directories(placement, first))):
        request = Create(path, b"", OPEN_ACL_UNSAFE, 0)
        must(outcome(model, PLANS[Create.type].operation(context, request)))
    if scenario.moves and scenario.moves not in made:
        _make_native(model, placement, scenario.moves)
    return model.remembering() if "z" in scenario.troubles else model


def _make_native(model: Model, placement: Placement, path: str) -> None:
    """A directory whose children are below its home, as its pin says, and a znode w in it."""
    d = where_is(placement, path)
    for znode, data in ((path, b""), (d.pin, NATIVE_PIN), (d.proof, b""), (f"{path}/w", b"")):
        must(model.execute(d.home.ensemble, Create(znode, data, OPEN_ACL_UNSAFE, 0)))


def directories(placement: Placement, ensembles: int) -> list[str]:
    """For each of so many ensembles the directory whose children it holds in these scenarios; empty for `/`."""
    paths = ["", *(f"/d{number}" for number in range(100))]
    return [
        next(path for path in paths if placement.of_children(path or "/") == ensemble)
        for ensemble in range(ensembles)
    ]
