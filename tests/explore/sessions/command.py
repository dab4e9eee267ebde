"""The command that moves a directory, as far as clients see it; and what must hold of the places before and after.

Each of its steps is made at one moment, and looks at the servers alone. So a step may as well be that of another
command, behind one that has died. What the steps are made of is tested beside the command itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import CheckVersion, Create, Delete, GetChildren, SetData, Transaction
from parkazoo.protocol.moving import MOVES, NATIVE, Moving, guard, mark_of, old_mark_of, opening
from parkazoo.protocol.pin import decode_pin, encode_pin
from parkazoo.protocol.placement import (
    FENCES,
    OURS,
    Directory,
    Place,
    Placement,
    join,
    mirror_path,
    split,
)
from parkazoo.protocol.steps import WriteRequest
from parkazoo.types.znodes import ZnodeStat
from tests.explore.alone import must
from tests.explore.model import Model
from tests.explore.scenario import Violation
from tests.explore.sessions import ledger
from tests.explore.sessions.world import Position
from tests.explore.znodes import Request, Who, Znode, has_watch, path_of, watch_kind
from tests.where_is import where_is

NAME = "0123456789abcdef" * 2
BEGUN, HOLDS, MOVED, OVER = 1, 2, 3, 4  # the epochs of the map
# What the command has done.
NOTHING, COPIED, MARKED, EXACT, SWITCHED, OFF, ENDED, DEAD = (
    *("nothing", "copied", "marked", "exact", "switched", "off", "ended", "dead"),
)
OPERATOR = Who()
SESSIONS = 100  # the numbers of a client's sessions are that many times its index plus one, and a few


class Command(NamedTuple):
    """Moves a directory to another ensemble.

    :param source: the place of its children at first: the mirror, or the home.
    :param copy: the mirror that they move to.
    """

    d: Directory
    source: Place
    copy: Place

    @classmethod
    def of(cls, placement: Placement, path: str) -> Command:
        d = where_is(placement, path)
        target = 1 - d.mirror.ensemble
        return cls(d, d.home if d.is_native else d.mirror, Place(target, mirror_path(path, NAME)))

    @property
    def pin(self) -> str:
        return self.d.pin

    @property
    def mark(self) -> str:
        return join(self.pin, mark_of(NAME))

    @property
    def old_mark(self) -> str:
        return join(self.pin, old_mark_of(NAME))

    def entry(self, names: str) -> Moving:
        generation = NATIVE if self.d.is_native else ""
        source, target = (names[each.ensemble] for each in (self.source, self.copy))
        return Moving(self.d.path, NAME, source, generation, target, clients=1)

    # ---- what there is -----------------------------------------------------------------------------

    def place(self, model: Model) -> Place | None:
        """Where the children are, by the pin."""
        znode = model.nodes[self.d.home.ensemble].get(self.pin)
        if znode is None:
            return None
        pin = decode_pin(znode.data or b"")
        assert pin is not None
        if pin.is_native:
            return self.d.home
        return Place("abc".index(pin.on), mirror_path(self.d.path, pin.generation))

    def has_mark(self, model: Model) -> bool:
        return self.mark in model.nodes[self.d.home.ensemble]

    def _below(self, model: Model, place: Place) -> dict[str, Znode]:
        """What lies below a place, by the path from there; of a home without pin and proof."""
        start = place.path + "/"
        found = {
            path[len(start) :]: znode
            for path, znode in model.nodes[place.ensemble].items()
            if path.startswith(start)
        }
        return {path: znode for path, znode in found.items() if path.split("/")[0] not in OURS}

    # ---- steps -------------------------------------------------------------------------------------

    def next_step(self, model: Model, done: str, epoch: int, is_acknowledged: bool) -> str:
        """What it has done when it has made its next step; empty if there is none now.

        :param epoch: of the map that is published. :param is_acknowledged: by all sessions where the source is.
        """
        if (
            done == NOTHING
            and epoch == BEGUN
            and self.place(model) == self.source
            and self.source.path in model.nodes[self.source.ensemble]
        ):
            return COPIED
        if done == COPIED:
            return MARKED
        if done == MARKED and epoch == HOLDS and is_acknowledged:
            return EXACT
        if done == EXACT:
            return SWITCHED
        if done == OFF or (done == SWITCHED and epoch == MOVED and is_acknowledged):
            return ENDED
        return ""

    def may_publish(self, done: str, epoch: int) -> int:
        """The epoch of the map that it publishes next; 0: none now."""
        if done == MARKED and epoch == BEGUN:
            return HOLDS
        if done == SWITCHED and epoch == HOLDS:
            return MOVED
        return OVER if done == ENDED and epoch in (HOLDS, MOVED) else 0

    def make(self, model: Model, done: str, step: str) -> str:
        """Make a step; what it has done then."""
        home = self.d.home.ensemble
        if step == COPIED:
            model.execute(self.copy.ensemble, Create(self.d.fence, b"", OPEN_ACL_UNSAFE, 0), OPERATOR)
            for path in (MOVES, guard(NAME), opening(NAME), self.copy.path):
                self._put(model, self.copy.ensemble, Create(path, b"", OPEN_ACL_UNSAFE, 0))
        elif step == MARKED:
            if self.pin not in model.nodes[home]:
                return self._take_back(model)
            self._put(model, home, Create(self.mark, b"", OPEN_ACL_UNSAFE, 0))
            if self.place(model) != self.source:
                return self.call_off(model)
        elif step == EXACT:
            self._put(model, self.copy.ensemble, Delete(opening(NAME), -1))
            if not self._bring(model):
                return self.call_off(model)
            self._put(model, self.copy.ensemble, SetData(self.copy.path, b"sealed", -1))
            self._put(model, self.copy.ensemble, Delete(guard(NAME), -1))
        elif step == SWITCHED:
            if not self._switch(model):
                return self.call_off(model)
        elif done == SWITCHED:
            self._clear(model)
        else:
            return self._take_back(model)
        return step

    def call_off(self, model: Model) -> str:
        model.execute(self.d.home.ensemble, Delete(self.mark, -1), OPERATOR)
        return OFF

    def _put(self, model: Model, ensemble: int, request: Request) -> object:
        return must(model.execute(ensemble, request, OPERATOR))

    def _bring(self, model: Model) -> bool:
        """Make the copy as the original is, but for ephemerals, which have to be there."""
        if self.source.path not in model.nodes[self.source.ensemble]:
            return False
        target, is_whole = self.copy.ensemble, True
        wanted, there = self._below(model, self.source), self._below(model, self.copy)
        for path in sorted(there, reverse=True):
            if path not in wanted or _owner(wanted[path]) != _owner(there[path]) or not wanted[path].owner:
                self._put(model, target, Delete(join(self.copy.path, path), -1))
        of_source, of_copy = (model.nodes[each.ensemble][each.path].created for each in (self.source, self.copy))
        for _ in range(of_source - of_copy - sum("/" not in path for path in wanted.keys() - there.keys())):
            self._put(model, target, Create(join(self.copy.path, "-"), b"", OPEN_ACL_UNSAFE, 0))
            self._put(model, target, Delete(join(self.copy.path, "-"), -1))
        for path, znode in sorted(wanted.items()):
            if znode.owner:
                is_whole = is_whole and path in there and _owner(there[path]) == _owner(znode)
                continue
            self._put(model, target, Create(join(self.copy.path, path), znode.data or b"", znode.acl, 0))
            for _ in range(znode.version):
                self._put(model, target, SetData(join(self.copy.path, path), znode.data or b"", -1))
        return is_whole

    def _switch(self, model: Model) -> bool:
        home, target = self.d.home.ensemble, self.copy.ensemble
        pin = model.nodes[home].get(self.pin)
        if pin is None:
            return False
        fence = self._put(model, target, SetData(self.d.fence, b"", -1))
        assert isinstance(fence, ZnodeStat)
        steps: list[WriteRequest] = [
            Delete(self.mark, -1),
            *([Delete(self.d.proof, -1)] if self.d.is_native else []),
            Delete(self.pin, -1),
            Create(self.pin, encode_pin(fence, "abc"[target], NAME), pin.acl, 0),
            Create(self.old_mark, pin.data or b"", OPEN_ACL_UNSAFE, 0),
        ]
        answers = model.execute(home, Transaction(steps), OPERATOR)
        assert isinstance(answers, list)
        return not any(isinstance(each, Exception) for each in answers)

    def _clear(self, model: Model) -> None:
        """Unless somebody has deleted the directory, and with it the old place."""
        if self.old_mark not in model.nodes[self.d.home.ensemble]:
            return
        for path in sorted(self._below(model, self.source), reverse=True):
            self._put(model, self.source.ensemble, Delete(join(self.source.path, path), -1))
        if not self.d.is_native:
            model.execute(self.source.ensemble, Delete(self.source.path, -1), OPERATOR)
        self._put(model, self.d.home.ensemble, Delete(self.old_mark, -1))

    def _take_back(self, model: Model) -> str:
        for path in (guard(NAME), opening(NAME)):
            model.execute(self.copy.ensemble, Delete(path, -1), OPERATOR)
        for path in sorted(self._below(model, self.copy), reverse=True):
            self._put(model, self.copy.ensemble, Delete(join(self.copy.path, path), -1))
        self._put(model, self.copy.ensemble, Delete(self.copy.path, -1))
        return ENDED

    # ---- what must hold ----------------------------------------------------------------------------

    def check_request(self, model: Model, ensemble: int, request: Request, is_deleted: bool) -> None:
        """A server executes a client's request.

        :param is_deleted: a client deletes the directory: then the old place, too, and looks at it for that.
        :raises Violation: it finds something in a place where the children are not.
        """
        parts = [*ledger.parts(request)]
        if is_deleted and isinstance(request, GetChildren):
            return
        if any(self._holds_life(each) for each in parts):
            return
        place = self.place(model)
        for each in parts:
            path = path_of(each)
            for wrong in (self.source, self.copy):
                if wrong != place and ensemble == wrong.ensemble and self._finds(model, wrong, path, each):
                    raise Violation(f"a client uses {path}, and the children are not there")

    def _holds_life(self, request: Request) -> bool:
        """Whether a multi with this step fails in another life of the directory, or if that has moved."""
        if isinstance(request, CheckVersion):
            ours = (self.old_mark, self.d.proof, opening(NAME))
            return request.path in ours or split(request.path)[0] == FENCES
        return isinstance(request, Create) and request.path == self.pin

    def _finds(self, model: Model, place: Place, path: str, request: Request) -> bool:
        nodes = model.nodes[place.ensemble]
        found = split(path)[0] if isinstance(request, Create) else path
        if found not in nodes:
            return False
        if place == self.d.home:
            return (
                path.startswith(place.path + "/")
                and path[len(place.path) + 1 :].split("/", maxsplit=1)[0] not in OURS
            )
        return found == place.path or path.startswith(place.path + "/")

    def check_places(self, model: Model) -> None:
        """:raises Violation: the directory has gone, and a place of its children is left."""
        nodes = model.nodes[self.source.ensemble]
        if (
            self.pin not in model.nodes[self.d.home.ensemble]
            and not self.d.is_native
            and self.source.path in nodes
        ):
            raise Violation("the directory has gone, and its place from before the move has not")

    def check_watches(self, model: Model, position: Position, sessions: Sequence[int]) -> None:
        """When all is quiet: watches on data and children were told if something has changed, and only then.

        :param sessions: the client's, by ensemble.
        :raises Violation: one was not, or one that has nothing to tell is on no server.
        """
        place, told = self.place(model), {each.operation: each.event for each in position.told}
        left = {(watch.who.owners[-1], *watch[1:]) for watch in model.watches}
        if place == self.copy and position.epoch < MOVED:  # it may not know yet
            return
        for each in position.ended:
            request = position.calls[each.number]
            if not has_watch(request) or isinstance(each.result, Exception) or place is None:
                continue
            path = place.path + path_of(request).removeprefix(self.d.path)
            if not path.startswith(place.path) or not path_of(request).startswith(self.d.path):
                continue
            znode = model.nodes[place.ensemble].get(path)
            kind, is_same = watch_kind(request), znode is None and each.result is None
            if znode is not None and each.result is not None:
                stat = each.result
                if not isinstance(stat, ZnodeStat):
                    stat = stat[1]  # type: ignore[index]  # of a get, or a listing with its stat
                now = znode.stat
                is_same = now.cversion == stat.cversion if kind == "child" else now.version == stat.version
            if kind == "child" and self.d.is_native:  # pin and proof have changed: it is told
                continue
            if is_same == (each.number in told):
                raise Violation(f"a watch was told {told.get(each.number)}, and that is not so")
            if is_same and (sessions[place.ensemble], place.ensemble, kind, path) not in left:
                raise Violation("a watch is on no server where the children are")

    def check_ephemerals(self, model: Model, made: Iterable[str], index: int) -> None:
        """
        :param made: ephemerals that a client was told it has made, and nobody has deleted.
        :raises Violation: one is not where the children are, or not the client's.
        """
        place = self.place(model)
        for path in made:
            if place is not None and path.startswith(self.d.path + "/"):
                znode = model.nodes[place.ensemble].get(place.path + path.removeprefix(self.d.path))
                if znode is None or _owner(znode) != index + 1:
                    raise Violation(f"the ephemeral {path} has not moved with its directory")

    def check_switch(self, before: Model, after: Model) -> None:
        """:raises Violation: the pin names the copy, and that is not as the original."""
        if self.place(before) == self.source and self.place(after) == self.copy:
            old, new = (self._below(after, each) for each in (self.source, self.copy))
            if {path: _content(each) for path, each in old.items()} != {
                path: _content(each) for path, each in new.items()
            }:
                raise Violation("the copy is not as the original when the directory moves")


def _content(znode: Znode) -> tuple[object, ...]:
    return znode.data, znode.version, znode.acl, _owner(znode)


def _owner(znode: Znode) -> int:
    """The client that has an ephemeral; 0 if it is none."""
    return znode.owner // SESSIONS
