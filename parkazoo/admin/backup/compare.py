"""Which directories are lost since a backup, from two states of the cluster and second looks. Pure.

Two sources name a lost directory. The manifest does, if it was there. The other ensembles do: a pin names the
ensemble of the children, a mirror is of a directory with a home, and has directories above it.

A missing znode may be deleted as well as lost. It is lost if its ensemble *went back*. This shows in a znode that
has fewer creates and deletes of children than at the backup, also if it has no children any more, and in fences
that are older than a pin. It need not show in the zxid, which each election of a leader raises.
Without any such sign, a pin without a mirror and a mirror without a home still count: no client leaves these for
long, unless it crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from parkazoo.admin.backup.listed import UNKNOWN, Listed
from parkazoo.admin.backup.manifest import ClusterState
from parkazoo.protocol.audit_directory import mirrored_by
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import (
    MIRRORS,
    OF_GENERATION,
    PIN,
    Directory,
    Place,
    above,
    generation_of,
    join,
    logical,
    mirror_path,
    split,
)
from parkazoo.protocol.where.places import Places
from parkazoo.types import ZnodeStat

HOME, CHILDREN, BOTH, PINNED_HOME = "home", "children", "home and children", "pin"


class Lost(NamedTuple):
    """A directory that is lost.

    :param ensemble: the one that has lost it.
    :param what: HOME, CHILDREN, BOTH, or "pin": home and children are there, but not joined.
    """

    path: str
    ensemble: str
    what: str


class Older(NamedTuple):
    """A directory that is there as it was before the backup: newer children are lost, deleted ones are back.

    :param then: its number of children at the backup.
    """

    path: str
    ensemble: str
    then: int
    now: int


class Differences(NamedTuple):
    """What has been lost since a backup; all in order of the path.

    :param unknown: directories of which nothing can be said without an ensemble that is absent.
    """

    lost: list[Lost]
    older: list[Older]
    unknown: list[str]


class At(NamedTuple):
    """A znode on an ensemble, which has a name."""

    ensemble: str
    znode: str


Answer = tuple[bytes, ZnodeStat] | None
Look = Callable[[Iterable[At]], dict[At, Answer]]


class _Pin(NamedTuple):
    """A pin whose mirror was not seen."""

    path: str
    home: At
    listed: Listed
    mirror: At


class _Mirror(NamedTuple):
    """A mirror whose pin was not seen.

    :param other_pin: when the pin of another place was made; None: the home has no pin.
    """

    path: str
    mirror: At
    listed: Listed
    home: At
    other_pin: int | None


def _mirrored_by(znode: str) -> str | None:
    """The directory of a mirror; None for another znode."""
    return mirrored_by(znode[len(MIRRORS) + 1 :]) if znode.startswith(f"{MIRRORS}/") else None


class _Where:
    """Where directories are in a state; where it does not say, as they were at the backup."""

    def __init__(self, state: ClusterState, before: _Where | None) -> None:
        self._state = state
        self._before = before
        self._names = state.cluster_map.names
        self._places = Places(state.cluster_map.make_placement())
        self._guessed: set[str] = set()  # nobody says where their children are
        self._children = {"/": self._named(self._places.known("/").mirror)}
        self._mirrors = {
            logical(znode): At(name, znode)
            for name, each in state.ensembles.items()
            for znode in each.listed
            if _mirrored_by(znode) is not None
        }

    def _named(self, place: Place) -> At:
        return At(self._names[place.ensemble], place.path)

    def home(self, path: str) -> At:
        """The home of a path that is not ``/``."""
        parent, name = split(path)
        ensemble, znode = self.children(parent)
        return At(ensemble, join(znode, name))

    def children(self, path: str) -> At:
        """The znode whose children are the children of a directory."""
        missing = []
        for each in (path, *above(path)):
            if each in self._children:
                break
            missing.append(each)
        for each in reversed(missing):
            self._children[each] = self._children_at(each, self.home(each))
        return self._children[path]

    def _children_at(self, path: str, home: At) -> At:
        listed = self.listed(home)
        if listed is not None and listed.pin:
            return self.mirror(path, listed.pin)
        if self._state.cluster_map.form is not Form.GROWN:
            known = self._places.known(path)
            return home if known.is_native else self._named(known.mirror)
        if listed is not None and listed.children:
            return home
        if path in self._mirrors:
            return self._mirrors[path]
        self._guessed.add(path)
        before = self._before.children(path) if self._before is not None and self._before.has(path) else None
        return home if before is None or _mirrored_by(before.znode) is None else before

    def may_be_away(self, path: str) -> bool:
        """Whether the home may be on an ensemble that is absent."""
        absent = self._state.absent
        return self.home(path).ensemble in absent or (bool(absent) and not self._guessed.isdisjoint(above(path)))

    def has(self, path: str) -> bool:
        return self.has_mirror(path) or self.listed(self.home(path)) is not None

    def has_mirror(self, path: str) -> bool:
        return path in self._mirrors

    def listed(self, at: At) -> Listed | None:
        state = self._state.ensembles.get(at.ensemble)
        return None if state is None else state.listed.get(at.znode)

    def mirror(self, path: str, pin: str) -> At:
        """Where a pin says that the children are."""
        if pin == UNKNOWN:
            return At(self._names[self._places.first.of_children(path)], mirror_path(path))
        return At(pin.partition(OF_GENERATION)[0], mirror_path(path, generation_of(pin)))


def compare(then: ClusterState, now: ClusterState, look: Look) -> Differences:
    """Returns what has been lost.

    :param look: called twice, first with znodes that seem to be missing, then with znodes that seem to be there:
        returns data and stat of each, or None. Both come so long after the walk that clients at work have ended.
    """
    return _Comparison(then, now).run(look)


class _Comparison:
    def __init__(self, then: ClusterState, now: ClusterState) -> None:
        self._then = then
        self._now = now
        self._before = _Where(then, None)
        self._where = _Where(now, self._before)
        self._unknown: set[str] = set()
        self._lost: dict[str, Lost] = {}
        self._behind = {name for name in then.ensembles if self._is_behind(name)}  # before the backup
        self._went_back: set[str] = set()  # or since

    def run(self, look: Look) -> Differences:
        pins, mirrors = list(self._lone_pins()), list(self._lone_mirrors())
        gone = list(self._gone())
        tops = {path: self._where.home(path) for each in mirrors for path in self._unlisted_above(each.path)}
        homes = [each.home for each in mirrors]
        missing = look(
            {
                *(each.mirror for each in pins),
                *homes,
                *map(_pin_of, homes),
                *tops.values(),
                *(home for _, home, _ in gone),
            }
        )
        there = look(
            {
                *(_pin_of(each.home) for each in pins),
                *(At(each.mirror.ensemble, self._fence(each.path)) for each in pins),
                *(each.mirror for each in mirrors),
            }
        )
        self._behind |= {home.ensemble for _, home, each in gone if _is_older(each, _listed(home, missing[home]))}
        self._went_back |= self._behind
        self._judge_pins([each for each in pins if missing[each.mirror] is None], there)
        self._judge_mirrors(mirrors, tops, missing, there)
        self._judge_gone(gone, missing)
        self._judge_proofs()
        older = [each for each in self._older() if each.path not in self._lost]
        return Differences(
            sorted(self._lost.values()), sorted(older), sorted(self._unknown.difference(self._lost))
        )

    # ---- which ensembles went back -------------------------------------------------------------

    def _is_behind(self, name: str) -> bool:
        now = self._now.ensembles.get(name)
        if now is None:
            return False
        then = self._then.ensembles[name]
        if now.zxid < then.zxid or (then.record and not now.record):
            return True
        return any(_is_older(each, now.listed.get(znode)) for znode, each in then.listed.items())

    def _older(self) -> Iterator[Older]:
        for name, then in self._then.ensembles.items():
            for znode, each in then.listed.items():
                now = self._now.ensembles[name].listed.get(znode) if name in self._now.ensembles else None
                if now is None or znode == MIRRORS:
                    continue
                if _is_older(each, now) or self._is_former(name, each, now):
                    yield Older(logical(znode), name, each.children, now.children)

    def _is_former(self, name: str, then: Listed, now: Listed) -> bool:
        """Whether a mirror is of an earlier life of its directory, which has a newer pin now.

        fsck makes a newer pin too, if the home was lost. And what was made while the backup was made may have met
        an older pin.
        """
        path = logical(now.znode)
        if name not in self._went_back or self._where.children(path) != At(name, now.znode):
            return False
        home = self._where.home(path)
        if home.ensemble in self._went_back or not then.czxid == now.czxid <= self._then.ensembles[name].zxid:
            return False
        before, after = self._before.listed(home), self._where.listed(home)
        return before is not None and after is not None and 0 < before.pin_czxid < after.pin_czxid

    # ---- what looks lost -----------------------------------------------------------------------

    def _lone_pins(self) -> Iterator[_Pin]:
        for name, state in self._now.ensembles.items():
            for znode, each in state.listed.items():
                if not each.pin:
                    continue
                path = logical(znode)
                mirror = self._where.mirror(path, each.pin)
                if mirror.ensemble in self._now.absent:
                    self._unknown.add(path)
                elif self._where.listed(mirror) is None:
                    yield _Pin(path, At(name, znode), each, mirror)

    def _lone_mirrors(self) -> Iterator[_Mirror]:
        for name, state in self._now.ensembles.items():
            for znode, each in state.listed.items():
                path = _mirrored_by(znode)
                if path is None:
                    continue
                mirror, home = At(name, znode), self._where.home(path)
                listed = self._where.listed(home)
                if self._where.may_be_away(path):
                    self._unknown.add(path)
                elif listed is None or not listed.pin_czxid:
                    yield _Mirror(path, mirror, each, home, None)
                elif not listed.pin or self._where.mirror(path, listed.pin) != mirror:
                    yield _Mirror(path, mirror, each, home, listed.pin_czxid)

    def _unlisted_above(self, path: str) -> Iterator[str]:
        """The directories above a path of which nothing is there but their homes, if these are."""
        for each in above(path):
            if each == "/" or self._where.home(each).ensemble in self._now.absent:
                return
            if self._where.listed(self._where.home(each)) is not None:
                return
            if not self._where.has_mirror(each):  # that is looked at itself
                yield each

    def _gone(self) -> Iterator[tuple[str, At, Listed]]:
        """Directories of the manifest whose home is not listed any more."""
        for name, state in self._then.ensembles.items():
            for znode, each in state.listed.items():
                path = logical(znode)
                if znode in ("/", MIRRORS):
                    continue
                if name in self._now.absent:
                    self._unknown.add(path)
                elif (
                    name in self._now.ensembles
                    and _mirrored_by(znode) is None
                    and self._where.listed(At(name, znode)) is None
                ):
                    yield path, At(name, znode), each

    # ---- verdicts ------------------------------------------------------------------------------

    def _judge_pins(self, pins: Iterable[_Pin], there: dict[At, Answer]) -> None:
        doubtful = []
        for each in pins:
            pin = there[_pin_of(each.home)]
            if pin is None or pin[1].czxid != each.listed.pin_czxid:
                continue  # it was deleted
            before = self._before.listed(each.home)
            if (before is None or before.pin_czxid != each.listed.pin_czxid) and self._was_gone(
                each.home, each.mirror, each.listed.pin_czxid
            ):
                continue
            ahead_by = _ahead_by(there[At(each.mirror.ensemble, self._fence(each.path))], pin)
            if ahead_by > 0 and pin[1].numChildren:
                continue  # it is about to be deleted: a delete raises the fence before it takes the mirror
            if ahead_by < 0:
                self._went_back.add(each.mirror.ensemble)
            if ahead_by < 0 or (ahead_by == 0 and not self._was_lone(each)):
                self._lose(each.path, each.mirror.ensemble, CHILDREN)
            else:
                doubtful.append(each)
        self._went_back.update(lost.ensemble for lost in self._lost.values())
        for each in doubtful:  # other changes on a restored ensemble may have raised the fence again
            home, mirror = each.home.ensemble, each.mirror.ensemble
            if mirror in self._went_back and home not in self._went_back and not self._was_lone(each):
                self._lose(each.path, mirror, CHILDREN)

    def _was_lone(self, each: _Pin) -> bool:
        """Whether the same pin had no mirror at the backup: then its first child never came.

        Mirrors are listed before the homes. So a pin that was made meanwhile says nothing.
        """
        before, then = self._before.listed(each.home), self._then.ensembles.get(each.home.ensemble)
        if before is None or then is None or each.mirror.ensemble not in self._then.ensembles:
            return False
        is_same = before.pin_czxid == each.listed.pin_czxid <= then.zxid
        return is_same and self._before.listed(each.mirror) is None

    def _was_gone(self, at: At, other: At, czxid: int) -> bool:
        """Whether a znode that the backup lacks had come and gone by then: it is back with older data.

        :param other: what it needs. :param czxid: when it was made.
        """
        if not {at.ensemble, other.ensemble} <= self._behind:
            return False
        then, now = self._then.ensembles[at.ensemble], self._now.ensembles[at.ensemble]
        if then.hidden or MIRRORS not in now.listed or MIRRORS not in then.listed:
            return False
        is_made_anew = now.listed[MIRRORS].czxid != then.listed[MIRRORS].czxid
        return not is_made_anew and czxid <= then.zxid

    def _came_back(self, each: _Mirror, back: Collection[str]) -> bool:
        """Whether the mirror's directory had been deleted before its ensemble went back."""
        if each.home.ensemble not in self._went_back and each.mirror.ensemble in back:
            return True
        home, mirror = self._before.listed(each.home), self._before.listed(each.mirror)
        if mirror is None or mirror.czxid != each.listed.czxid:
            return self._was_gone(each.mirror, each.home, each.listed.czxid)
        return each.home.ensemble not in self._behind and home is not None and bool(home.pin_czxid)

    def _judge_mirrors(
        self, mirrors: Iterable[_Mirror], tops: dict[str, At], missing: dict[At, Answer], there: dict[At, Answer]
    ) -> None:
        back = frozenset(self._went_back)
        for each in sorted(mirrors, key=lambda each: each.mirror.ensemble in back):  # the others prove more
            mirror, pin = there[each.mirror], missing[_pin_of(each.home)]
            if mirror is None or mirror[1].czxid != each.listed.czxid:
                continue
            if each.other_pin != (None if pin is None else pin[1].czxid):
                continue
            if self._came_back(each, back) or (each.other_pin and each.home.ensemble not in self._went_back):
                continue
            has_home = missing[each.home] is not None
            self._lose(each.path, each.home.ensemble, PINNED_HOME if has_home and not each.other_pin else HOME)
            self._went_back.add(each.home.ensemble)
            for path in () if has_home else self._unlisted_above(each.path):
                if missing[tops[path]] is not None:
                    self._lose(path, self._where.children(path).ensemble, CHILDREN)
                    break
                self._lose(path, tops[path].ensemble, BOTH)

    def _judge_gone(self, gone: Iterable[tuple[str, At, Listed]], missing: dict[At, Answer]) -> None:
        for path, home, then in gone:
            now = _listed(home, missing[home])
            if home.ensemble not in self._behind:
                continue  # it has been deleted, or emptied, since
            if now is not None and (_is_hidden(now) or (now.czxid == then.czxid and not _is_older(then, now))):
                continue
            children, ensemble = then.children, home.ensemble
            if then.pin:
                mirror = self._before.mirror(path, then.pin)
                if mirror.ensemble in self._now.absent:
                    self._unknown.add(path)
                if mirror.ensemble not in self._behind or self._where.listed(mirror) is not None:
                    continue
                before = self._before.listed(mirror)
                children, ensemble = 0 if before is None else before.children, mirror.ensemble
            if now is None:
                self._lose(path, home.ensemble, BOTH if children else HOME)
            elif children:
                self._lose(path, ensemble, CHILDREN)

    def _judge_proofs(self) -> None:
        """Proof and pin are made and deleted at once, and were listed at once."""
        for name, state in self._now.ensembles.items():
            for each in state.listed.values():
                if each.has_proof and not each.pin_czxid:
                    self._lose(logical(each.znode), name, PINNED_HOME)

    def _lose(self, path: str, ensemble: str, what: str) -> None:
        if path != "/":
            self._lost.setdefault(path, Lost(path, ensemble, what))

    def _fence(self, path: str) -> str:
        return Directory(path, Place(0, path), Place(0, path), False).fence


def _pin_of(home: At) -> At:
    return At(home.ensemble, join(home.znode, PIN))


def _ahead_by(fence: Answer, pin: Answer) -> int:
    """Returns by how many changes a fence is newer than a pin; -1: it is older, or another one."""
    remembered = None if pin is None else decode_pin(pin[0])
    if remembered is None or fence is None or fence[1].ctime != remembered.ctime:
        return -1
    return max(-1, fence[1].version - remembered.version)


def _listed(at: At, answer: Answer) -> Listed | None:
    """A znode that may have no children, as a look has found it."""
    return None if answer is None else Listed(at.znode, answer[1].czxid, answer[1].cversion, 0)


def _is_older(then: Listed, now: Listed | None) -> bool:
    """Whether a znode has gone back, to an earlier life or an earlier moment of the same one."""
    if now is None or _is_hidden(then) or _is_hidden(now):
        return False
    return (now.czxid, now.cversion) < (then.czxid, then.cversion)


def _is_hidden(each: Listed) -> bool:
    return not each.czxid and each.znode != "/"
