"""The directories that an ensemble carries, as one walk lists them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.all_znodes import Pace, ask_each
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.strays import OTHERS
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import ENSEMBLE, MIRRORS, OF_GENERATION, OURS, PIN, PROOF, join

AT_ONCE = 1000  # znodes between two looks at the list of paths
UNKNOWN = "?"  # in place of an ensemble's name: a pin that ParKazoo has not written


class Listed(NamedTuple):
    """A znode that has children or a pin; a mirror also without.

    :param czxid: when it was made; 0: the identity may not read it.
    :param cversion: creates and deletes of its children.
    :param children: without pin and proof.
    :param pin: the ensemble that its pin names, then OF_GENERATION and the generation if it has one; UNKNOWN; or
        empty: there is no pin, or it says native.
    :param pin_czxid: when the pin was made; 0: there is none.
    """

    znode: str
    czxid: int
    cversion: int
    children: int
    pin: str = ""
    pin_czxid: int = 0
    has_proof: bool = False


class EnsembleState(NamedTuple):
    """What one ensemble carries.

    :param zxid: of the last change before the walk.
    :param record: the data of ``/parkazoo/ensemble``; empty if it is missing.
    :param znodes: all of the users' but ``/``. :param hidden: so many the identity may not read.
    :param listed: by path on the ensemble.
    """

    zxid: int
    record: str
    znodes: int
    hidden: int
    listed: dict[str, Listed]


def list_directories(
    client: AdminClient, is_over: Callable[[], bool], progress: Callable[[str, int], None]
) -> EnsembleState:
    """Looks at each znode of an ensemble but ZooKeeper's and ParKazoo's own. It only reads.

    :param is_over: asked before each request: whether to give up.
    :param progress: called with the ensemble's name and the znodes so far.
    :raises UnreadableError: the ensemble ceases to answer.
    """
    pace = Pace(is_over, per_second=math.inf)
    record = client.read(ENSEMBLE)
    zxid = client.zk.last_zxid
    listed: dict[str, Listed] = {}
    znodes = hidden = 0
    to_list = ["/", MIRRORS]
    while to_list:
        batch = to_list[-AT_ONCE:]
        del to_list[-AT_ONCE:]
        pinned: dict[str, Listed] = {}
        for path, answer in ask_each(client, "get_children", batch, pace, None, True):  # no watch, but the stat
            if isinstance(answer, NoNodeError):
                continue
            is_mirror = path.startswith(MIRRORS) and "/" not in path[len(MIRRORS) + 1 :]
            znodes += path != "/" and not is_mirror
            if isinstance(answer, Exception):
                hidden += 1
                pinned[path] = Listed(path, 0, 0, 0)  # everybody may read a pin
                continue
            names, stat = answer
            below = [each for name in names if name not in OURS and (each := join(path, name)) not in OTHERS]
            to_list += below
            if below or is_mirror or not OURS.isdisjoint(names) or path == "/":
                found = Listed(path, stat.czxid, stat.cversion, len(below), has_proof=PROOF in names)
                (pinned if PIN in names else listed)[path] = found
        for path, answer in ask_each(client, "get", [join(each, PIN) for each in pinned], pace):
            home = pinned[path[: -len(PIN) - 1] or "/"]
            if isinstance(answer, Exception):
                if home.czxid:  # the pin was deleted meanwhile, and its proof, or somebody else has made it
                    listed[home.znode] = home._replace(has_proof=False)
                    hidden += not isinstance(answer, NoNodeError)
                continue
            data, stat = answer
            pin = decode_pin(data or b"")
            names = UNKNOWN if pin is None else pin.on
            if pin is not None and pin.generation:
                names += OF_GENERATION + pin.generation
            listed[home.znode] = home._replace(pin=names, pin_czxid=stat.czxid)
        progress(client.name, znodes)
    return EnsembleState(
        zxid, (record or b"").decode(errors="replace"), znodes, hidden, dict(sorted(listed.items()))
    )
