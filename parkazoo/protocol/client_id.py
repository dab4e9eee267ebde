"""A client_id: the id and password of the first session and, packed behind the password, those of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

ID_BYTES = 8
SESSION_PASSWORD_BYTES = 16
SESSION_BYTES = ID_BYTES + SESSION_PASSWORD_BYTES


def pack_client_id(sessions: Sequence[tuple[int, bytes]]) -> tuple[int, bytes] | None:
    """The client_id of a client with these sessions; None if one of them has ended.

    :param sessions: ids, 0 for one that has ended, and passwords; the client's first session first.
    """
    if not all(number for number, _ in sessions):
        return None
    (number, password), *others = sessions
    return number, password + pack_password(others)


def pack_password(sessions: Iterable[tuple[int, bytes]]) -> bytes:
    """The sessions after the first, each as 8 bytes of id and 16 of password: a client_id resumes them all."""
    return b"".join(number.to_bytes(ID_BYTES, "big", signed=True) + password for number, password in sessions)


def unpack_password(packed: bytes, sessions: int) -> list[tuple[int, bytes]] | None:
    """The inverse of :func:`pack_password`; None if `packed` is not of that many sessions."""
    if len(packed) != SESSION_BYTES * sessions:
        return None
    parts = [packed[at : at + SESSION_BYTES] for at in range(0, len(packed), SESSION_BYTES)]
    return [(int.from_bytes(part[:ID_BYTES], "big", signed=True), part[ID_BYTES:]) for part in parts]
