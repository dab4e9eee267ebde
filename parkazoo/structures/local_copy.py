"""The entries of a DistributedDict as one process knows them: the meaning of each answer, and doubts. Pure.

Answers arrive in another order than their questions were sent, on several threads. Each question has a ticket, a
number that grows. A session's servers never go back, so a later question sees a later state. A znode's mzxid grows
with each change, so of two answers that show one znode, the higher mzxid counts. An entry that was deleted and
made again is another znode, perhaps on another ensemble, where zxids are lower: the question that was asked after
the other answer arrived counts, if its server surely did not lag. If one of two answers says that the entry does
not exist, the later question counts. A write has a time span, from its question to its answer: a question asked in
between may see the state before or after the write. That is in doubt, and is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count

from parkazoo.types.znodes import ZnodeStat

MOST_ABSENT = 1000
NOT_READ = object()
Life = tuple[int, int]  # czxid and ctime: ensembles may have the same czxids


def life_of(stat: ZnodeStat) -> Life:
    """Returns a value that differs between a znode and a later one of the same path, on any ensemble."""
    return stat.czxid, stat.ctime


@dataclass(slots=True)
class Entry:
    """:param mzxid: None if the answer to a create has not told it.
    :param owner: the id of the client whose session it ends with; 0 if it stays.
    :param asked: the ticket of the question that has shown it last.
    :param life: of its znode; None if the answer to a create has not told it.
    :param taken: a ticket of the moment when it was put into the copy.
    :param value: what the raw bytes mean, once they have been read.
    """

    raw: bytes
    version: int
    mzxid: int | None
    owner: int
    asked: int
    life: Life | None = None
    taken: int = 0
    value: object = NOT_READ


class LocalCopy:
    """Of entries in one or several directories. The caller has a lock for all methods; `entries` may be read
    without.

    :param tell: is called with the key and the entry that was there before, after each change.
    """

    def __init__(self, directories: int, tell: Callable[[str, Entry | None], None]) -> None:
        self.entries: dict[str, Entry] = {}
        self._tell = tell
        self._keys: list[set[str]] = [set() for _ in range(directories)]
        self._listed = [0] * directories  # the ticket of the last listing
        self._seen: list[Collection[str]] = [()] * directories  # in that
        self._absent: list[dict[str, int]] = [
            {} for _ in range(directories)
        ]  # seen to be gone since, by which ticket
        self.unreadable: list[set[str]] = [set() for _ in range(directories)]  # keys that may not be read
        self._tickets = count(1)

    def ticket(self) -> int:
        """Returns the ticket of a question that is about to be sent."""
        return next(self._tickets)

    def keys_in(self, directory: int) -> Collection[str]:
        return self._keys[directory]

    # ---- answers: each returns whether the key must be asked for again -----------------------------

    def found(
        self,
        directory: int,
        key: str,
        ticket: int,
        raw: bytes,
        version: int,
        mzxid: int,
        owner: int,
        life: Life | None = None,
        is_certain: bool = False,
    ) -> bool:
        """Takes the answer of a read that has found the entry; returns whether it is in doubt.

        :param is_certain: the server did not lag when it was asked.
        """
        known = self.entries.get(key)
        if known is None:
            if ticket < self._gone_since(directory, key):
                return True
        elif known.mzxid is None:
            if (known.raw, known.version) == (raw, version):
                known.mzxid, known.owner, known.life = mzxid, owner, life
                known.asked = max(known.asked, ticket)
                return False
            if ticket < known.asked:
                return True
        elif life != known.life:
            if ticket < known.taken or (mzxid < known.mzxid and not is_certain):
                return True
        elif mzxid <= known.mzxid:
            known.asked = max(known.asked, ticket)
            return False
        self._put(directory, key, Entry(raw, version, mzxid, owner, ticket, life))
        return False

    def not_found(self, directory: int, key: str, ticket: int) -> bool:
        """Takes the answer of a read that has not found the entry; returns whether it is in doubt."""
        known = self.entries.get(key)
        was_listed = key in self._seen[directory] and self._listed[directory] > ticket
        if was_listed or (known is not None and known.asked > ticket):
            return True
        self._remove(directory, key, ticket)
        return False

    def refused(self, directory: int, key: str, ticket: int) -> bool:
        """Leaves out an entry that may not be read; returns whether that is new."""
        is_new = key not in self.unreadable[directory]
        self._remove(directory, key, ticket)
        self.unreadable[directory].add(key)
        return is_new

    def listed(self, directory: int, keys: Collection[str], ticket: int) -> list[str]:
        """Takes a listing: these keys exist and no others. Returns the keys that must be asked for again."""
        if ticket > self._listed[directory]:
            self._seen[directory] = frozenset(keys)
        self.unreadable[directory].intersection_update(keys)
        gone = self._keys[directory].difference(keys)
        doubtful = [key for key in gone if self.entries[key].asked > ticket]
        for key in gone.difference(doubtful):
            self._remove(directory, key, ticket)
        self._listed[directory] = max(self._listed[directory], ticket)
        absent = self._absent[directory]
        for key in [key for key, since in absent.items() if since <= self._listed[directory]]:
            del absent[key]
        return doubtful

    def written(
        self,
        directory: int,
        key: str,
        began: int,
        raw: bytes,
        version: int,
        mzxid: int | None,
        owner: int,
        life: Life | None = None,
    ) -> bool:
        """Takes a finished write of this process; returns whether the entry is in doubt.

        :param began: its ticket. :param mzxid: of a set; None of a create.
        """
        known, now = self.entries.get(key), self.ticket()
        if known is None:
            is_in_doubt = self._gone_since(directory, key) > began
        elif mzxid is not None and known.mzxid is not None:
            if life != known.life and began < known.taken:
                return True
            if life == known.life and mzxid <= known.mzxid:
                return False
            is_in_doubt = False
        else:
            is_in_doubt = known.asked > began
            if is_in_doubt:
                return (known.raw, known.version) != (raw, version)
        self._put(directory, key, Entry(raw, version, mzxid, owner, began if is_in_doubt else now, life))
        return is_in_doubt

    def deleted(self, directory: int, key: str, began: int) -> bool:
        """Takes a finished delete of this process; returns whether the entry is in doubt."""
        known = self.entries.get(key)
        is_in_doubt = known is not None and known.asked > began
        if not is_in_doubt:
            self._remove(directory, key, self.ticket())
        return is_in_doubt

    def _gone_since(self, directory: int, key: str) -> int:
        return max(self._listed[directory], self._absent[directory].get(key, 0))

    def _put(self, directory: int, key: str, entry: Entry) -> None:
        before = self.entries.get(key)
        if before is not None and (before.raw, before.version) == (entry.raw, entry.version):  # it has moved
            before.mzxid, before.owner, before.life = entry.mzxid, entry.owner, entry.life
            before.asked, before.taken = entry.asked, self.ticket()
            return
        entry.taken = self.ticket()
        self.entries[key] = entry
        self._keys[directory].add(key)
        self.unreadable[directory].discard(key)
        self._absent[directory].pop(key, None)
        self._tell(key, before)

    def _remove(self, directory: int, key: str, ticket: int) -> None:
        self.unreadable[directory].discard(key)
        absent = self._absent[directory]
        if len(absent) >= MOST_ABSENT:  # as if it had been listed: what was asked before is in doubt
            self._listed[directory] = max(self._listed[directory], *absent.values())
            absent.clear()
        absent[key] = max(absent.get(key, 0), ticket)
        before = self.entries.pop(key, None)
        if before is not None:
            self._keys[directory].discard(key)
            self._tell(key, before)
