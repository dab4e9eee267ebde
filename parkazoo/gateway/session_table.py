"""The table of sessions: by it a gateway that starts anew, or another one, goes on with them.

A file of JSON lines that grows; the first says what it is. The last line of a session counts. Several gateways may
use one file: each reads what the others have appended when it is asked for a session that it does not know. It is
written anew, without ended sessions, by a gateway that uses it alone when it starts, and by any when most of it is
of no use.

A row says which gateway has the session. As long as that lives it holds a lock on a byte whose number is in the
row, so the others know. A row that no gateway has stays until its session goes on, or until it cannot any more.

It has the passwords of all sessions, so only its owner may read it. It is not forced to disk: it is for the end of
a process, and when a machine ends, so do the programs on it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from parkazoo.protocol.client_id import SessionId

OWNER_ONLY = 0o600
READ_AT_ONCE = 1 << 20
LARGE_BYTES = 1 << 20
TIMES_SMALLER = 4
SWEEP_EVERY_S = 5.0
WRITE_TRIES, WRITE_EVERY_S = 50, 0.001
# Bytes of the lock file: writers share the first; a gateway has one of the others. NOBODY has one.
WRITES, NOBODY, FIRST_MARK, MARK_BITS = 0, 0, 1, 60
FORMAT, VERSION = "parkazoo_sessions", 1
HEAD = json.dumps({FORMAT: VERSION}) + "\n"


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


def write_row(row: TableRow, mark: int) -> str:
    about = {"session": row.number, "password": row.password.hex(), "timeout_ms": row.timeout_ms}
    return json.dumps({**about, "sessions": row.sessions.hex(), "by": mark}) + "\n"


def write_end(number: int) -> str:
    return json.dumps({"session": number}) + "\n"


def _checked(found: Any, first: int, end: int) -> int:
    """:raises ValueError: it is not in that range."""
    number = int(found)
    if not first <= number < end:
        raise ValueError(number)
    return number


class TableRows:
    """The rows, as lines say them.

    :ivar marks: the gateway that has each session; NOBODY: none.
    """

    def __init__(self) -> None:
        self.rows: dict[int, TableRow] = {}
        self.marks: dict[int, int] = {}

    def read(self, lines: Iterable[bytes]) -> bool:
        """Apply lines. One that is damaged, by the end of a process for example, is left out.

        :returns: whether any was not. :raises TableError: they are of a later version.
        """
        is_known = False
        for line in lines:
            try:
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue
            is_known = True
        return is_known

    def _apply(self, found: Any) -> None:
        """:raises TableError: see above. :raises Exception: see there; this is no line of a table."""
        if FORMAT in found:
            if int(found[FORMAT]) > VERSION:
                raise TableError(
                    f"it is of a later ParKazoo, whose version of it is {found[FORMAT]}, not {VERSION}"
                )
            return
        number = _checked(found["session"], -(1 << 63), 1 << 63)
        if "sessions" not in found:
            self.end(number)
            return
        password, sessions = bytes.fromhex(found["password"]), bytes.fromhex(found["sessions"])
        row = TableRow(number, password, _checked(found["timeout_ms"], 0, 1 << 31), sessions)
        self.put(row, _checked(found.get("by", NOBODY), NOBODY, FIRST_MARK + (1 << MARK_BITS)))

    def put(self, row: TableRow, mark: int) -> None:
        self.rows[row.number] = row
        self.marks[row.number] = mark

    def end(self, number: int) -> bool:
        """Returns whether there was one."""
        self.marks.pop(number, None)
        return self.rows.pop(number, None) is not None

    def write(self) -> str:
        return HEAD + "".join(write_row(row, self.marks[number]) for number, row in self.rows.items())


class SessionTable:
    """``with SessionTable(path) as table``. Without a path it is in memory, and ends with the process.

    A process has one of a file: when it closes one, the locks of all end.

    :raises TableError: the file cannot be read or written, or is no table: then it stays as it is.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows = TableRows()
        self._file = self._lock = -1
        self._offset = 0  # of the unread part: a write moves the file's own
        self._rest = b""  # of a line that another gateway is writing
        self._mark = FIRST_MARK + secrets.randbits(MARK_BITS)
        self._left: set[int] = set()  # that this gateway has let go
        self._lost_s: dict[tuple[int, int], float] = {}  # since when no gateway has the session of a row
        self._swept_s = -math.inf

    def __enter__(self) -> SessionTable:
        if self._path is not None:
            try:
                self._open(self._path)
            except OSError as error:
                self.__exit__(None, None, None)
                raise TableError(f"{self._path}: {error.strerror or error}") from None
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
        fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._mark)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # others use it
        else:
            rows = _read_whole(path)
            rows.marks = dict.fromkeys(rows.rows, NOBODY)
            _write_anew(path, rows)
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        self._open_file(path)
        self._read_on()

    def _open_file(self, path: Path) -> None:
        """In place of the one that was open, if it can be opened."""
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, OWNER_ONLY)
        if self._file >= 0:
            os.close(self._file)
        self._file = file
        self._offset = 0
        self._rest = b""

    def _read_on(self) -> None:
        """What was appended since, by anybody."""
        while data := os.pread(self._file, READ_AT_ONCE, self._offset):
            *lines, rest = (self._rest + data).split(b"\n")
            self._rows.read(lines)
            self._offset += len(data)
            self._rest = rest

    @contextmanager
    def _reading(self) -> Iterator[Path]:
        """The file is the newest, and all in it is known. Errors are told as TableError."""
        assert self._path is not None
        try:
            if not os.path.samestat(
                os.fstat(self._file), self._path.stat()
            ):  # another gateway has written it anew
                self._open_file(self._path)
                self._rows = TableRows()
            self._read_on()
            yield self._path
        except TableError:
            raise
        except OSError as error:
            raise TableError(f"{self._path}: {error.strerror}") from None

    @property
    def numbers(self) -> list[int]:
        """Of the sessions, as far as is known here."""
        return [*self._rows.rows]

    def find(self, number: int) -> TableRow | None:
        """The row of a session, also of one that another gateway has begun.

        :raises TableError: the file cannot be read.
        """
        if self._file >= 0:
            with self._reading():
                pass
        return self._rows.rows.get(number)

    def put(self, row: TableRow) -> None:
        """Write a row, unless it is there: this gateway has the session.

        :raises TableError: it cannot be written.
        """
        self._left.discard(row.number)
        if not self._has(row):
            with self._writing(fcntl.LOCK_SH):
                self._put(row)

    def replace(self, row: TableRow, before: TableRow | None) -> bool:
        """As :meth:`put`, unless another gateway has written the session's row. One that is gone can be written
        again.

        :param before: the row as it was found; None: as this gateway has written it.
        :returns: whether this gateway has the session. :raises TableError: the file cannot be read or written.
        """
        with self._writing(fcntl.LOCK_EX):
            if before is None:
                is_anothers = self._rows.marks.get(row.number, self._mark) != self._mark
            else:
                is_anothers = self._rows.rows.get(row.number) not in (None, before)
            if not is_anothers:
                self._left.discard(row.number)
                if not self._has(row):
                    self._put(row)
            return not is_anothers

    def _has(self, row: TableRow) -> bool:
        return self._rows.rows.get(row.number) == row and self._rows.marks[row.number] == self._mark

    def _put(self, row: TableRow) -> None:
        self._append(write_row(row, self._mark))
        self._rows.put(row, self._mark)

    def leave(self, number: int) -> None:
        """This gateway does not have the session any more; another may go on with it."""
        self._left.add(number)

    def end(self, number: int) -> None:
        """A session has ended, on all ensembles or by the word of a server.

        :raises TableError: it cannot be written. :meth:`sweep` does it later.
        """
        if number in self._rows.rows:
            self._left.add(number)
            with self._writing(fcntl.LOCK_SH):
                self._append(write_end(number))
                self._rows.end(number)
        self._left.discard(number)

    def sweep(self, now_s: float) -> None:
        """End the rows of sessions that no gateway has had for twice their time-out: by then servers have expired
        them. Write the file anew if most of it is of no use.

        :param now_s: by a clock that never goes back; it is looked every five seconds.
        :raises TableError: the file cannot be read or written.
        """
        if now_s < self._swept_s + SWEEP_EVERY_S:
            return
        self._swept_s = now_s
        if self._file >= 0:
            with self._reading():
                pass
        marks = self._rows.marks
        gone = {mark for mark in {*marks.values()} if not self._is_alive(mark)}
        self._left = {number for number in self._left if marks.get(number) == self._mark}
        lost = [(number, mark) for number, mark in marks.items() if mark in gone or number in self._left]
        self._lost_s = {each: self._lost_s.get(each, now_s) for each in lost}
        for (number, _), since_s in self._lost_s.items():
            row = self._rows.rows.get(number)
            if row is not None and now_s - since_s > 2 * row.timeout_ms / 1000:
                self.end(number)
        if self._offset > LARGE_BYTES:
            self._write_smaller()

    def _is_alive(self, mark: int) -> bool:
        """Whether a gateway lives: it has locked its byte."""
        if mark == self._mark or mark == NOBODY:
            return mark != NOBODY
        return not self._try_lock(fcntl.LOCK_EX, mark)

    def _try_lock(self, kind: int, at: int) -> bool:
        """Lock a byte, and let it go at once, or not if it is WRITES.

        :raises TableError: there are no locks, for example.
        """
        try:
            fcntl.lockf(self._lock, kind | fcntl.LOCK_NB, 1, at)
        except (BlockingIOError, PermissionError):
            return False
        except OSError as error:
            raise TableError(f"{self._path}.lock: {error.strerror}") from None
        if at != WRITES:
            self._unlock(at)
        return True

    def _unlock(self, at: int) -> None:
        fcntl.lockf(self._lock, fcntl.LOCK_UN, 1, at)

    def _write_smaller(self) -> None:
        """Write the file anew, if that makes it much smaller, and nobody is writing."""
        if not self._try_lock(fcntl.LOCK_EX, WRITES):
            return
        try:
            with self._reading() as path:
                if self._offset > TIMES_SMALLER * len(self._rows.write()):
                    _write_anew(path, self._rows)
        finally:
            self._unlock(WRITES)

    @contextmanager
    def _writing(self, kind: int) -> Iterator[None]:
        """Nobody writes the file anew, and with LOCK_EX nobody writes at all. All in it is known."""
        if self._file < 0:
            yield
            return
        tries = WRITE_TRIES
        while not self._try_lock(kind, WRITES):
            tries -= 1
            if not tries:
                raise TableError(f"{self._path}: another gateway is writing")
            time.sleep(WRITE_EVERY_S)
        try:
            with self._reading():
                yield
        finally:
            self._unlock(WRITES)

    def _append(self, line: str) -> None:
        if self._file < 0:
            return
        size = os.fstat(self._file).st_size
        is_cut = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"  # there was no space for the rest
        data = b"\n" * is_cut + line.encode()
        if os.write(self._file, data) < len(data):
            raise TableError(f"{self._path}: no space is left")


def _read_whole(path: Path) -> TableRows:
    """The rows of a table that is to be written anew; it need not be there.

    :raises TableError: it is something else.
    """
    rows = TableRows()
    if path.exists():
        data = path.read_bytes() if path.is_file() else b"?"  # a device, for example
        if not rows.read(data.split(b"\n")) and data.strip():
            raise TableError(
                "it is no table of sessions: name a file that is the gateway's own, or none that is there"
            )
    return rows


def _write_anew(path: Path, rows: TableRows) -> None:
    """Nobody else writes it."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # others may be allowed to read one that is there
    number = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(number, "w") as file:
        file.write(rows.write())
    new.replace(path)
