"""A found znode is in the right place; a missing one is proved missing, or looked for elsewhere."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Delete, Exists, GetACL, GetChildren, GetChildren2, GetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.past import REFUSED
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import CERTAIN, GUESS, HINT, MAP, PINNED, Directory, Place
from parkazoo.protocol.steps import IMPOSSIBLE, Operation, PathRequest, Step, ask, placed
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.places import NATIVE, directory

READS = (Exists, GetACL, GetChildren, GetChildren2, GetData)


def is_missing(answer: object) -> bool:
    return answer is None or isinstance(answer, NoNodeError)


def at(
    context: Context, request: PathRequest, *beside: Step, watch: DirectoryWatch | None = None
) -> Operation[tuple[list[Any], Directory]]:
    """A request to the home of its path, with reads of that znode's children beside it.

    :param watch: is to hear when that which proves NoNode changes.
    :returns: the answers, exceptions too, and the directory whose home was asked. NoNode is proved. There is only
        one answer if what is beside the request was not asked at the same home.
    """
    path, places = request.path, context.places
    since = places.count
    above, d = places.both(path)
    parent = above.path
    is_write = not isinstance(request, READS)
    if above.certainty > GUESS or context.may_ask_guess(above):
        answers = yield from _send(context, is_write, d, request, *beside)
        if above.certainty == CERTAIN:
            return answers, d
        if not is_missing(answers[0]):
            if above.certainty == GUESS and not isinstance(answers[0], Exception):
                places.remember_found(above, since)
            return answers, d
        proof = object()
        context.proofs[proof] = parent
        try:
            is_proved = yield from _is_there(context, above, watch)
        finally:
            del context.proofs[proof]
        if is_proved:
            places.remember(above, since)
            return answers, d
        asked = above.mirror if not above.is_native else None
    else:
        asked = None
    places.drop(parent)
    found = yield from locate(context, parent, is_write, watch)
    if found is None or (asked is not None and found.mirror == asked):
        return [None if isinstance(request, Exists) else NoNodeError()], d
    d = places.below(found, path)
    answers = yield from _send(context, is_write, d, request)
    if not is_missing(answers[0]):
        places.remember(found, since, max(found.certainty, HINT))
    return answers, d


def _send(
    context: Context, is_write: bool, d: Directory, request: PathRequest, *beside: Step
) -> Operation[list[Any]]:
    step = d.home.ensemble, placed(request, d.home.path)
    watch = getattr(request, "watcher", None)
    if isinstance(watch, DirectoryWatch):
        watch.places.add(d.home)
    answers = (yield (step, *beside)) if is_write else (yield from context.read(d.path, step, *beside))
    context.answered(d.home.ensemble, answers[0])
    return answers


def _is_there(context: Context, d: Directory, watch: DirectoryWatch | None) -> Operation[bool]:
    """Whether the children of `d` are where they are thought to be; asked after one was not found there."""
    proof = Place(d.mirror.ensemble, d.proof if d.is_native else d.mirror.path)
    if watch is not None:
        watch.places.add(proof)
    try:
        return (yield from context.ask(d.path, proof.ensemble, Exists(proof.path, watch))) is not None
    except NoAuthError:  # a mirror that may not be read is there
        return True


def _is_pinned(context: Context, d: Directory, watch: DirectoryWatch) -> Operation[bool]:
    """Whether a pin has come; an Exists, which needs no right and finds no error where the home has gone."""
    watch.places.add(Place(d.home.ensemble, d.pin))
    return (yield from context.ask(d.path, d.home.ensemble, Exists(d.pin, watch))) is not None


def locate(
    context: Context,
    path: str,
    is_fresh: bool = False,
    watch: DirectoryWatch | None = None,
    may_lag: bool = False,
) -> Operation[Directory | None]:
    """Find out where the children of a directory are: CERTAIN or PINNED; else a HINT or a GUESS, without a pin.

    Without a pin its children are below its home. It is a GUESS if it has never had one, as far as may be read:
    then the first one decides.

    :param is_fresh: whether the answer must not be of the past, whoever has changed something.
    :param watch: is to hear when that changes.
    :param may_lag: whether the answer may be from before what this client has done: a write comes next, and finds
        that out.
    :returns: None if there is none.
    """
    places = context.places
    above, d = places.both(path)
    if d.certainty == CERTAIN:
        return d
    is_sure = above.certainty == CERTAIN
    while True:
        since = places.count
        d = places.below(above, path)
        home = d.home.ensemble
        reads = (home, GetData(d.pin, None)), (home, Exists(d.home.path, watch))
        if watch is not None:
            watch.places.add(d.home)
        if is_fresh:  # a leader answers a write, even one that fails
            refused, pin, stat = yield (home, Delete(d.pin, IMPOSSIBLE)), *reads
            context.answered(home, refused)
            if not isinstance(refused, REFUSED):
                raise refused
        elif may_lag:
            pin, stat = yield reads
        else:
            pin, stat = yield from context.read(path, *reads)
        context.answered(home, pin)
        if not is_missing(stat) and not isinstance(stat, Exception):
            places.remember_found(above, since)
        if not isinstance(pin, Exception):
            try:
                found = yield from decided(context, d, pin[0])
            except NoNodeError:  # it has gone while it was about to move
                continue
            places.remember(found, since)
            return found
        if not isinstance(pin, NoNodeError):
            raise pin
        if isinstance(stat, Exception) and not isinstance(stat, NoAuthError):
            raise stat
        if stat is not None:
            if watch is not None and (yield from _is_pinned(context, d, watch)):
                continue
            is_new = not isinstance(stat, Exception) and not stat.cversion
            return directory(path, d.home, NATIVE, GUESS if is_new else HINT)
        if is_sure or (yield from _is_there(context, above, watch)):
            return None
        parent = above.path
        places.drop(parent)
        located = yield from locate(context, parent, is_fresh, watch, may_lag)
        if located is None:
            return None
        above, is_sure = located, True
        if located.certainty == PINNED:  # else it may have no child yet, and is not native
            places.remember(above, since)


def contradiction(d: Directory) -> ClusterMapError:
    return ClusterMapError(f"{d.path} has a proof that its children are below it, and no pin: see `parkazoo fsck`")


def verify_whole(d: Directory) -> Operation[None]:
    """A pin that says native, or a proof, has turned out to be without the other: unless that was a race, raise.

    They are made and deleted at once. So one that is the same before and after must have the other in between.
    """
    home = d.home.ensemble
    pin, proof, same_pin, same_proof = yield (
        (home, GetData(d.pin, None)),
        (home, Exists(d.proof, None)),
        (home, GetData(d.pin, None)),
        (home, Exists(d.proof, None)),
    )
    for answer in (pin, proof, same_pin, same_proof):
        if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
            raise answer
    has_pins = not isinstance(pin, Exception) and not isinstance(same_pin, Exception)
    if has_pins and proof is None and pin[1].czxid == same_pin[1].czxid:
        found = decode_pin(pin[0])
        if found is not None and found.is_native:
            raise ClusterMapError(
                f"{d.path} has a pin that says that its children are below it, and no proof: see `parkazoo fsck`"
            )
    has_proofs = proof is not None and same_proof is not None
    if has_proofs and isinstance(same_pin, NoNodeError) and proof.czxid == same_proof.czxid:
        raise contradiction(d)


def as_pinned(context: Context, d: Directory) -> Operation[Directory]:
    """The directory with its children where its pin says, which need not be asked if that is certain.

    :raises NoNodeError: there is no pin.
    """
    if d.certainty == CERTAIN:
        return d
    data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    return (yield from decided(context, d, data))


def decided(context: Context, d: Directory, data: bytes) -> Operation[Directory]:
    """The directory with its children where the data of its pin says, or will say when it has moved.

    :raises ClusterMapError: it names an ensemble that the map beside it does not know.
    :raises NoNodeError: the pin has gone meanwhile.
    """
    hold = context.hold
    while hold is not None and hold.concerns(d.path):
        if (yield ()):  # it is not to wait
            break
        refused, pin = yield (d.home.ensemble, Delete(d.pin, IMPOSSIBLE)), (d.home.ensemble, GetData(d.pin, None))
        if not isinstance(refused, REFUSED):
            raise refused
        if isinstance(pin, Exception):
            raise pin
        data = pin[0]
    return (yield from named_by(context, d, data))


def named_by(context: Context, d: Directory, data: bytes) -> Operation[Directory]:
    """The directory with its children where the data of a pin says, whatever has become of that.

    The first request to a copy that a move has made must not meet a server that lags and does not show it yet.

    :raises ClusterMapError: see :func:`decided`.
    """
    pin = decode_pin(data)
    if pin is not None and pin.is_native:
        return directory(d.path, d.home, NATIVE)
    if pin is None:  # somebody else's: the directory is where it was before the map grew
        return directory(d.path, d.home, context.places.first.of_children(d.path))
    if pin.on not in context.names:
        # No epoch with that name was published before this ensemble's copy of the map had it.
        with suppress(NoNodeError):
            context.take_copy(d.home.ensemble, (yield from ask(d.home.ensemble, GetData(MAP, None))))
        if pin.on not in context.names:
            raise ClusterMapError(
                f"the children of {d.path} are on an ensemble {pin.on}, which the map on ensemble "
                f"{context.names[d.home.ensemble]} does not know: see `parkazoo fsck`"
            )
    found = directory(d.path, d.home, context.names.index(pin.on), generation=pin.generation)
    if pin.generation and context.known(d.path).mirror != found.mirror:
        with context.past.begin((d.path,), -1):
            pass
    return found
