"""The map as an ensemble holds it, compared with what a client knows.

Each ensemble has a copy at ``/parkazoo/map``. They differ while a change is on its way; a client works by the
newest that it has seen. A change is published on the bootstrap ensemble, after all copies have the one before. So
copies are one change apart at most, and a copy is never from another history.
"""

from __future__ import annotations

import json
from contextlib import suppress

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, no_map_error
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.map_copies import CopyKind, compare
from parkazoo.protocol.placement import MAP
from parkazoo.protocol.steps import DataAnswer
from parkazoo.protocol.wrong_ensemble import identity_error


def read_copy(answer: DataAnswer, server: str) -> ClusterMap | None:
    """The map in the answer to a read of ``/parkazoo/map``; None if there is no such znode.

    :param server: for messages.
    :raises ClusterMapError: it may not be read, or cannot be used.
    :raises Exception: the answer is another error.
    """
    if isinstance(answer, NoNodeError):
        return None
    if isinstance(answer, NoAuthError):
        raise ClusterMapError(f"may not read {MAP} on {server}: pass the cluster's identity in auth_data")
    if isinstance(answer, Exception):
        raise answer
    try:
        return ClusterMap.from_json(answer[0])
    except ClusterMapError as error:
        raise ClusterMapError(f"cannot use the cluster map at {MAP} on {server}: {error}") from None


def newer_of(known: ClusterMap, copy: ClusterMap, server: str) -> ClusterMap:
    """The map to work by from now on.

    :param copy: as the ensemble of `server` holds it.
    :raises ClusterMapError: the two do not belong together.
    """
    kind = compare(copy, known)
    if kind is CopyKind.FOREIGN:
        raise ClusterMapError(f"{MAP} on {server} is of cluster {copy.cluster}, not {known.cluster}")
    if kind is CopyKind.DIFFERING:
        raise ClusterMapError(
            f"{MAP} on {server} differs from the client's map, number {known.epoch} too: somebody has "
            "changed one of them by hand. See `parkazoo map check`"
        )
    if kind is not CopyKind.NEWER:
        if copy.form < known.form - 1:
            raise ClusterMapError(
                f"{MAP} on {server}, map {copy.epoch}, has form {copy.form.word}, the client's map, number "
                f"{known.epoch}, {known.form.word}: somebody has restored that ensemble from elsewhere. See "
                "`parkazoo map check`"
            )
        return known
    if copy.form < known.form and known.form is not Form.TOLERANT:  # which alone may be given up
        raise ClusterMapError(
            f"{MAP} on {server}, map {copy.epoch}, has form {copy.form.word} instead of {known.form.word}: "
            "somebody has changed it by hand. See `parkazoo map check`"
        )
    if not copy.continues(known):
        raise ClusterMapError(
            f"{MAP} on {server}, map {copy.epoch}, places znodes otherwise than the client's map, number "
            f"{known.epoch}: somebody has changed it by hand. See `parkazoo map check`"
        )
    return copy


def name_in(cluster_map: ClusterMap, record: DataAnswer) -> str:
    """Which ensemble a server belongs to.

    :param record: the answer to a read of ``/parkazoo/ensemble`` there.
    :raises Exception: it is none of the map's, or may not be read.
    """
    name = cluster_map.bootstrap
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        name = json.loads(record[0])["name"]  # type: ignore[index]  # of an exception it is a TypeError
    if not isinstance(name, str) or name not in cluster_map.ensembles:
        name = cluster_map.bootstrap
    error = identity_error(cluster_map, name, record)
    if error is not None:
        raise error
    return name


def _gone_name(cluster_map: ClusterMap, record: DataAnswer) -> str | None:
    """Of the server's ensemble, if that has left the map."""
    return next(
        (name for name in cluster_map.gone if identity_error(cluster_map, name, record) is None),
        None,
    )


class Atlas:
    """What a client knows of its cluster: the newest map that it has seen in any copy.

    :ivar map: None until the first server has been met.
    """

    def __init__(self) -> None:
        self.map: ClusterMap | None = None
        self._without: set[str] = set()  # servers that have no copy

    @property
    def is_of_one(self) -> bool:
        """There is one ensemble."""
        return self.map is not None and len(self.map.names) == 1

    def meet(self, record: DataAnswer, copy: DataAnswer, server: str) -> str:
        """Take the map from the first server that answers; returns the name of its ensemble.

        :param record: the answer to a read of ``/parkazoo/ensemble`` there.
        :param copy: to a read of ``/parkazoo/map``.
        :param server: its address, for messages.
        :raises NoCopyError: it has none. :raises Exception: it cannot be used.
        """
        found = read_copy(copy, server)
        if found is None:
            self._without.add(server)
            data = None if isinstance(record, Exception) else record[0]
            raise NoCopyError(str(no_map_error(server, data)), None if data is None else len(self._without))
        if (gone := _gone_name(found, record)) is not None:
            self._without.add(server)
            raise NoCopyError(
                f"server {server} is of ensemble {gone}, which has left cluster {found.cluster}: use servers of "
                "others",
                len(self._without),
            )
        name = name_in(found, record)
        self.map = found
        return name

    def take(self, copy: DataAnswer, server: str) -> bool:
        """Take the map of a copy, if that is newer; returns whether it is.

        :raises Exception: it cannot be used, or does not belong to the map.
        """
        assert self.map is not None
        found = read_copy(copy, server)
        before = self.map
        if found is not None:
            self.map = newer_of(before, found, server)
        return self.map is not before


class NoCopyError(ClusterMapError):
    """A server has no map, or its ensemble has left it.

    :param asked: so many servers are like that by now, though of some cluster; None: this one is of none.
    """

    def __init__(self, message: str, asked: int | None) -> None:
        super().__init__(message)
        self.asked = asked
