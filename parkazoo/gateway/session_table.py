"""The table of sessions: by it a gateway that starts anew, or another one, goes on with them.

A file of JSON lines, which only grows while a gateway uses it. The last line of a session counts. Several gateways
may use one file: each reads what the others have appended when it is asked for a session that it does not know. A
gateway that uses it alone when it starts writes it anew, without ended sessions.

A row of a gateway that has ended without a word stays until its session goes on, or until it cannot any more.

It has the passwords of all sessions, so only its owner may read it. It is not forced to disk: it is for the end of
a process, and when a machine ends, so do the programs on it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from parkazoo.protocol.client_id import SessionId

OWNER_ONLY = 0o600
READ_AT_ONCE = 1 << 20


class TableRow(NamedTuple):
    """A session of a program.

    :param number: its id. :param password: the program's.
    :param timeout_ms: what the program has asked for, or more if servers have granted more.
    :param sessions: the password of the client's id.
    """

    number: int
    password: bytes
    timeout_ms: int
    sessions: bytes

    @property
    def client_id(self) -> SessionId:
        return self.number, self.sessions


class TableError(OSError):
    """Reports a table that cannot be used."""


def write_row(row: TableRow) -> str:
    about = {"session": row.number, "password": row.password.hex(), "timeout_ms": row.timeout_ms}
    return json.dumps({**about, "sessions": row.sessions.hex()}) + "\n"


def write_end(number: int) -> str:
    return json.dumps({"session": number}) + "\n"


def read_lines(lines: Iterable[bytes], rows: dict[int, TableRow]) -> set[int]:
    """Apply lines to rows. One that is damaged, by the end of a process for example, is left out.

    :returns: of which sessions they are.
    """
    numbers: set[int] = set()
    for line in lines:
        try:
            found = json.loads(line)
            number = int(found["session"])
            numbers.add(number)
            if "sessions" not in found:
                rows.pop(number, None)
                continue
            password, sessions = bytes.fromhex(found["password"]), bytes.fromhex(found["sessions"])
            rows[number] = TableRow(number, password, int(found["timeout_ms"]), sessions)
        except (ValueError, KeyError, TypeError):
            continue
    return numbers


class SessionTable:
    """``with SessionTable(path) as table``. Without a path it is in memory, and ends with the process.

    :raises TableError: the file cannot be read or written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows: dict[int, TableRow] = {}
        self._file = self._lock = -1
        self._offset = 0  # of the unread part: a write moves the file's own
        self._rest = b""  # of a line that another gateway is writing
        self._orphans: set[int] = set()  # sessions that no gateway has, as far as is known

    def __enter__(self) -> SessionTable:
        if self._path is not None:
            try:
                self._open(self._path)
            except OSError as error:
                self.__exit__(None, None, None)
                raise TableError(f"{self._path}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (self._file, self._lock):
            if number >= 0:
                os.close(number)
        self._file = self._lock = -1

    def _open(self, path: Path) -> None:
        self._lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, OWNER_ONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others use it
        else:
            self._orphans = _write_anew(path)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, OWNER_ONLY)
        self._read_on()

    def _read_on(self) -> set[int]:
        """What was appended since, by anybody; returns of which sessions."""
        found: set[int] = set()
        while data := os.pread(self._file, READ_AT_ONCE, self._offset):
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            found |= read_lines(lines, self._rows)
        return found

    def find(self, number: int) -> TableRow | None:
        """The row of a session, also of one that another gateway has begun.

        :raises TableError: the file cannot be read.
        """
        self._look()
        return self._rows.get(number)

    def _look(self) -> None:
        if self._file >= 0:
            try:
                self._orphans -= self._read_on()
            except OSError as error:
                raise TableError(f"{self._path}: {error.strerror}") from None

    def put(self, row: TableRow) -> None:
        """Write a row, unless it is there.

        :raises TableError: it cannot be written.
        """
        if self._rows.get(row.number) != row:
            self.claim(row)

    def claim(self, row: TableRow) -> None:
        """Write a row, even if it is there: gateways that have read it at their start leave it alone then.

        :raises TableError: it cannot be written.
        """
        self._append(write_row(row))
        self._rows[row.number] = row
        self._orphans.discard(row.number)

    def end_orphans(self, age_s: float) -> None:
        """End the sessions that nobody has gone on with.

        :param age_s: how long this gateway has been there. Twice its time-out is enough for servers to expire one.
        :raises TableError: the file cannot be read or written.
        """
        if self._orphans:
            self._look()
        for number in list(self._orphans):
            row = self._rows.get(number)
            if row is None or age_s > 2 * row.timeout_ms / 1000:
                self._orphans.discard(number)
                self.end(number)

    def end(self, number: int) -> None:
        """A session has ended, on all ensembles or by the word of a server.

        :raises TableError: it cannot be written.
        """
        if self._rows.pop(number, None) is not None:
            self._append(write_end(number))

    def _append(self, line: str) -> None:
        if self._file < 0:
            return
        try:
            size = os.fstat(self._file).st_size
            is_cut = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"  # there was no space for the rest
            data = b"\n" * is_cut + line.encode()
            written = os.write(self._file, data)
        except OSError as error:
            raise TableError(f"{self._path}: {error.strerror}") from None
        if written < len(data):
            raise TableError(f"{self._path}: no space is left")


def _write_anew(path: Path) -> set[int]:
    """Nobody else uses it. Returns the sessions in it."""
    rows: dict[int, TableRow] = {}
    if path.exists():
        read_lines(path.read_bytes().split(b"\n"), rows)
    new = path.with_name(f"{path.name}.new")
    number = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(number, "w") as file:
        file.writelines(map(write_row, rows.values()))
    new.replace(path)
    return {*rows}
