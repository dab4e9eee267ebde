"""What is found is in the right place; what is not found there is proved, or looked for elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Delete, Exists, GetACL, GetChildren, GetChildren2, GetData
from parkazoo.protocol.context import REFUSED
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.places import NATIVE, directory, is_fixed
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import MAP, Directory, Place, split
from parkazoo.protocol.steps import IMPOSSIBLE, Operation, Request, Step, ask, placed
from parkazoo.protocol.watches import DirectoryWatch

READS = (Exists, GetACL, GetChildren, GetChildren2, GetData)


class Located(NamedTuple):
    """Where a directory is.

    :param d: its home, and where its children are, or would be if that were decided: below the home.
    :param is_decided: there is a pin.
    :param may_be_guessed: without a pin: it has never had a child, as far as may be read.
    """

    d: Directory
    is_decided: bool = True
    may_be_guessed: bool = False


def is_missing(answer: Any) -> bool:
    return answer is None or isinstance(answer, NoNodeError)


def at(
    context: GrownContext, request: Request, *beside: Step, watch: DirectoryWatch | None = None
) -> Operation[tuple[list[Any], Directory]]:
    """A request to the home of its path, with reads of that znode's children beside it.

    :param watch: is to hear when that which proves NoNode changes.
    :returns: the answers, exceptions too, and the directory whose home was asked. NoNode is proved. There is only
        one answer if what is beside the request was not asked at the same home.
    """
    path, places = request.path, context.places
    parent, since = split(path)[0], places.count
    above = places.known(parent)
    d = places.below(above, path) if parent != path else above
    is_write = not isinstance(request, READS)
    is_guess = not places.is_known(parent) and not is_fixed(parent)
    if not is_guess or context.may_ask_guess(above):
        answers = yield from _send(context, is_write, d, request, *beside)
        if is_fixed(parent):
            return answers, d
        if not is_missing(answers[0]):
            if is_guess and not isinstance(answers[0], Exception):
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
    if found is None or (asked is not None and found.d.mirror == asked):
        return [None if isinstance(request, Exists) else NoNodeError()], d
    d = places.below(found.d, path)
    answers = yield from _send(context, is_write, d, request)
    if not is_missing(answers[0]):
        places.remember(found.d, since, is_pinned=found.is_decided)
    return answers, d


def _send(
    context: GrownContext, is_write: bool, d: Directory, request: Request, *beside: Step
) -> Operation[list[Any]]:
    step = d.home.ensemble, placed(request, d.home.path)
    watch = getattr(request, "watcher", None)
    if isinstance(watch, DirectoryWatch):
        watch.places.add(d.home)
    answers = (yield (step, *beside)) if is_write else (yield from context.read(d.path, step, *beside))
    context.answered(d.home.ensemble, answers[0])
    return answers


def _is_there(context: GrownContext, d: Directory, watch: DirectoryWatch | None) -> Operation[bool]:
    """Whether the children of `d` are where they are thought to be; asked after one was not found there."""
    proof = Place(d.mirror.ensemble, d.proof if d.is_native else d.mirror.path)
    if watch is not None:
        watch.places.add(proof)
    try:
        return (yield from context.ask(d.path, proof.ensemble, Exists(proof.path, watch))) is not None
    except NoAuthError:  # a mirror that may not be read is there
        return True


def _is_pinned(context: GrownContext, d: Directory, watch: DirectoryWatch) -> Operation[bool]:
    """Whether a pin has come; an Exists, which needs no right and finds no error where the home has gone."""
    watch.places.add(Place(d.home.ensemble, d.pin))
    return (yield from context.ask(d.path, d.home.ensemble, Exists(d.pin, watch))) is not None


def locate(
    context: GrownContext,
    path: str,
    is_fresh: bool = False,
    watch: DirectoryWatch | None = None,
    may_lag: bool = False,
) -> Operation[Located | None]:
    """A directory whose children have no fixed place. Its pin decides where they are. None: there is none.

    :param is_fresh: whether the answer must not be of the past, whoever has changed something.
    :param watch: is to hear when that changes.
    :param may_lag: whether the answer may be from before what this client has done: a write comes next, and finds
        that out.
    """
    places = context.places
    parent = split(path)[0]
    above = places.known(parent)
    is_sure = is_fixed(parent)
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
            found = directory(path, d.home, (yield from decided(context, d, pin[0])))
            places.remember(found, since)
            return Located(found)
        if not isinstance(pin, NoNodeError):
            raise pin
        if isinstance(stat, Exception) and not isinstance(stat, NoAuthError):
            raise stat
        if stat is not None:
            if watch is not None and (yield from _is_pinned(context, d, watch)):
                continue
            is_new = not isinstance(stat, Exception) and not stat.cversion
            return Located(directory(path, d.home, NATIVE), False, is_new)
        if is_sure or (yield from _is_there(context, above, watch)):
            return None
        places.drop(parent)
        located = yield from locate(context, parent, is_fresh, watch, may_lag)
        if located is None:
            return None
        above, is_sure = located.d, True
        if located.is_decided:  # else it may have no child yet, and is not native
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


def decided(context: GrownContext, d: Directory, data: bytes) -> Operation[int]:
    """The ensemble that the pin of a directory names, or NATIVE.

    :raises ClusterMapError: it names one that the map beside it does not know.
    """
    pin = decode_pin(data)
    if pin is not None and pin.is_native:
        return NATIVE
    if pin is None:  # somebody else's: the directory is where it was before the map grew
        return context.places.first.of_children(d.path)
    if pin.on not in context.names:
        # No epoch with that name was published before this ensemble's copy of the map had it.
        context.take_copy(d.home.ensemble, (yield from ask(d.home.ensemble, GetData(MAP, None))))
        if pin.on not in context.names:
            raise ClusterMapError(
                f"the children of {d.path} are on an ensemble {pin.on}, which the map on ensemble "
                f"{context.names[d.home.ensemble]} does not know: see `parkazoo fsck`"
            )
    return context.names.index(pin.on)
