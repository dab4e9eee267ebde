"""The last changes of the map: what they changed, when, who made them, from where, by which program.

``/parkazoo/history`` on the bootstrap ensemble is a JSON list, the newest last. The transaction that changes the
map changes it too, so neither has a change that the other lacks. A change of who may use the map is noted before
it begins, and once more when it is done.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, connect_to, unreachable
from parkazoo.admin.read import read_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.moving import Moving
from parkazoo.protocol.placement import HISTORY, MAP, ROOT, shown
from parkazoo.types import TransactionRequest

MOST_CHANGES = 100
MOST_BYTES_OF_ALL = 30_000  # in one transaction with the map, of 1,000,000 at most
MOST_LETTERS = 500  # of what a change changed
PROGRAM = "parkazoo"
NUMBERS = ("map", "time_s", "pid")
BEGUN, DONE = "begun", "done"


class MapChange(NamedTuple):
    """A change of the cluster map, or of who may use it.

    :ivar map: the number of the map that it published; the present one, if it published none.
    :ivar time_s: in seconds since 1970, by the clock of the host.
    :ivar user: who, as the operating system says.
    :ivar host: the name of the machine.
    :ivar program: the command up to its first option; of other programs their name alone.
    :ivar what: what differs from the map before.
    """

    map: int
    time_s: int
    user: str
    host: str
    pid: int
    program: str
    what: str


def read_history(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> list[MapChange]:
    """Returns the last changes of the map, at most MOST_CHANGES, the newest last. Arguments as for `read_map`.

    :raises ClusterMapError: as `read_map`; the bootstrap ensemble is unreachable; or the history is damaged.
    """
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    bootstrap = {known.bootstrap: known.ensembles[known.bootstrap]}
    with connect_to(bootstrap, options, timeout_s, gives_up=True) as (clients, absent):
        if absent:
            raise ClusterMapError(f"the bootstrap ensemble has the map's history, but {unreachable(absent)}")
        (client,) = clients.values()
        try:
            return parse_history(client.read(HISTORY))
        except ValueError as error:
            raise ClusterMapError(
                f"{HISTORY} on {client} is damaged ({error}). Nothing needs it: the next change begins it anew"
            ) from None


def add_to_history(
    client: AdminClient, transaction: TransactionRequest, before: ClusterMap | None, after: ClusterMap
) -> None:
    """Has the transaction that publishes a map add the change to the history, or fail if another one begins it.

    :param client: of the bootstrap ensemble.
    :param before: None for the first map.
    """
    found = client.read_with_version(HISTORY)
    data = _with_change(found and found[0], made_now(after.epoch, "; ".join(differences(before, after))))
    if found is not None:
        transaction.set_data(HISTORY, data, found[1])
    else:
        transaction.create(HISTORY, data, client.call("get_acls", MAP if before is not None else ROOT)[0])


def note_begin(client: AdminClient, number: int, what: str, secret: str) -> None:
    """Notes that a change begins. Arguments as for `note_change`."""
    note_change(client, number, f"{what} {BEGUN}", secret)


def note_end(client: AdminClient, number: int, what: str, secret: str) -> None:
    """Notes that a change is done, if the last note of it has it begun. Arguments as for `note_change`."""
    about = [f"{what} {each}" for each in (BEGUN, DONE)]
    noted = [each.what for each in _known(client.read(HISTORY)) if each.what in about]
    if noted[-1:] == about[:1]:
        note_change(client, number, about[1], secret)


def note_change(client: AdminClient, number: int, what: str, secret: str = "") -> None:
    """Adds a change that publishes no map to the history.

    :param client: of the bootstrap ensemble. :param number: of the present map.
    :param secret: an argument that has it is not noted.
    """
    change = made_now(number, what, secret)
    while True:
        found = client.read_with_version(HISTORY)
        data = _with_change(found and found[0], change)
        if found is not None:
            if client.set(HISTORY, data, found[1]):
                return
        elif client.make(HISTORY, data, client.call("get_acls", MAP)[0]):
            return


def _with_change(found: bytes | None, change: MapChange) -> bytes:
    return encode_history([*_known(found), change])


def _known(found: bytes | None) -> list[MapChange]:
    """Of a damaged history nothing: the next change begins it anew."""
    try:
        return parse_history(found)
    except ValueError:
        return []


def parse_history(data: bytes | None) -> list[MapChange]:
    """:raises ValueError: it is damaged."""
    try:
        documents = json.loads(data or b"[]")
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(documents, list) or not all(isinstance(each, dict) for each in documents):
        raise ValueError("no list of objects")
    kinds = {field: int if field in NUMBERS else str for field in MapChange._fields}
    for each in documents:
        if {key: type(value) for key, value in each.items()} != kinds:
            raise ValueError("its changes have other parts")
    return [MapChange(**each) for each in documents]


def encode_history(changes: Sequence[MapChange]) -> bytes:
    """Forgets the oldest if they are too many, or too long together."""
    kept = [json.dumps(each._asdict()) for each in changes[-MOST_CHANGES:]]
    while len(kept) > 1 and sum(map(len, kept)) > MOST_BYTES_OF_ALL:
        del kept[0]
    return f"[{', '.join(kept)}]".encode()


def made_now(number: int, what: str, secret: str = "") -> MapChange:
    """Arguments as for `note_change`."""
    return MapChange(
        map=number,
        time_s=int(time.time()),
        user=_user(),
        host=socket.gethostname(),
        pid=os.getpid(),
        program=program_of(sys.argv, secret),
        what=what if len(what) <= MOST_LETTERS else f"{what[: MOST_LETTERS - 3]}...",
    )


def differences(before: ClusterMap | None, after: ClusterMap) -> Iterator[str]:
    """Yields what a change changes, in words.

    :param before: None if there was no map.
    """
    if before is None:
        yield f"made, with {_many(after.names)}"
        return
    if after.cluster != before.cluster:
        yield f"cluster {after.cluster} instead of {before.cluster}"
    if come := [name for name in after.names if name not in before.names]:
        yield f"{_many(come)} came"
    if gone := [name for name in before.names if name not in after.names]:
        yield f"{_many(gone)} went"
    for about, new, old_ones in (
        ("is leaving", after.leaving, before.leaving),
        ("has left", after.gone, before.gone),
        ("stays", before.leaving, {**after.leaving, **after.gone}),
    ):
        if names := [name for name in new if name not in old_ones]:
            yield f"ensemble {', '.join(names)} {about}"
    yield from _difference_of_moves(before.move, after.move)
    for name in after.ensembles:
        hosts, old = after.ensembles[name], before.ensembles.get(name)
        if old not in (None, hosts):
            yield f"servers of {name}: {hosts} instead of {old}"
    if after.form is not before.form:
        yield f"form {after.form.word} instead of {before.form.word}"
    newest, older = after.epochs[-1], before.epochs[-1]
    if newest.number != older.number:
        if newest.weights != older.weights:
            yield f"weights: {', '.join(f'{name} {weight}' for name, weight in newest.weights.items())}"
        rules, old_rules = ({each.prefix: each for each in epoch.rules} for epoch in (newest, older))
        for prefix in {**old_rules, **rules}:
            if rules.get(prefix) != old_rules.get(prefix):
                is_new, is_gone = prefix not in old_rules, prefix not in rules
                yield f"rule for {prefix} {'added' if is_new else 'removed' if is_gone else 'changed'}"


def _difference_of_moves(before: Moving | None, after: Moving | None) -> Iterator[str]:
    if before is not None and after is None:
        yield f"{words_of_move(before)}: {DONE if before.has_switched else 'called off'}"
    elif after is not None and after != before:
        yield f"{words_of_move(after)}: {'the children are there' if after.has_switched else BEGUN}"


def words_of_move(move: Moving) -> str:
    return f"move of {shown(move.directory)} from {move.source} to {move.target}"


def _many(names: Sequence[str]) -> str:
    return f"ensemble{'' if len(names) == 1 else 's'} {', '.join(names)}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # it has no name
        return str(os.getuid())


def program_of(argv: Sequence[str], secret: str = "") -> str:
    """Returns the command without its options, which may have passwords; of another program only its name.

    :param secret: the command ends before an argument that has it.
    """
    program = Path(argv[0] if argv else "")
    name = program.parent.name if program.name == "__main__.py" else program.name
    if name != PROGRAM:
        return name
    words = takewhile(lambda word: not (word.startswith("-") or (secret and secret in word)), argv[1:])
    return " ".join([name, *words])
