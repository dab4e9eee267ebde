"""Weighted rendezvous: each ensemble makes a bid for a key, and the highest bid wins.

A bid is 32 bits, a word of the key's SHA-256. By hand, for up to eight ensembles of weight 1:

    $ printf %s /app/jobs | sha256sum | head -c 64 | fold -w 8      one line for each ensemble; the highest wins

A word depends on nothing but the key, the ensemble's position and the slot. So an ensemble that comes, or a weight
that is raised, takes its share from all others and moves nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

WORDS = 8  # of 32 bits, in a SHA-256
MOST_WEIGHT = 100  # each slot is a hash to compute


class Bid(NamedTuple):
    """The highest bid of one ensemble, for people: word `word` of the SHA-256 of `hashed`."""

    value: int
    hashed: str
    word: int


class Sheet(NamedTuple):
    """One SHA-256, of `prefix` and the key.

    :param unpack: the words that count. :param positions: of the ensembles whose bids these are.
    """

    prefix: bytes
    unpack: Callable[[bytes], tuple[int, ...]]
    positions: tuple[int, ...]


def rendezvous(weights: Sequence[int]) -> Callable[[str], int]:
    """The rule by which a key goes to the position of an ensemble; of equal bids the first wins.

    :param weights: of each ensemble, by position: how many slots it has, so its share; 0 for none.
    """
    if not weights or min(weights) < 0 or not any(weights):
        raise ValueError("no ensemble has a weight")
    sheets = tuple(_sheets(weights))
    if len(sheets) == 1:  # as a rule, so it is made fast
        prefix, unpack, positions = sheets[0]

        def winner_of_sheet(key: str) -> int:
            words = unpack(sha256(prefix + key.encode()).digest())
            return positions[words.index(max(words))]

        return winner_of_sheet

    def winner(key: str) -> int:
        data, highest, best = key.encode(), -1, 0
        for prefix, unpack, positions in sheets:
            words = unpack(sha256(prefix + data).digest())
            word = max(words)
            if word >= highest:
                position = positions[words.index(word)]
                best = position if word > highest else min(best, position)
                highest = word
        return best

    return winner


def bid_of(position: int, weight: int, key: str) -> Bid:
    """:param weight: 1 or more."""
    eight, word = divmod(position, WORDS)
    found = []
    for slot in range(1, weight + 1):
        hashed = _prefix(eight, slot) + key
        digits = sha256(hashed.encode()).hexdigest()[8 * word :][:8]
        found.append(Bid(int(digits, 16), hashed, word))
    return max(found)


def _prefix(eight: int, slot: int) -> str:
    """The text hashed in front of the key: nothing for the first slot of the first eight ensembles.

    A key begins with a slash, so no two sheets hash the same.
    """
    return "" if (eight, slot) == (0, 1) else f"{eight} {slot} "


def _sheets(weights: Sequence[int]) -> Iterator[Sheet]:
    """The hashes to compute: one for each slot of each eight ensembles, as far as one of them has that slot."""
    for slot in range(1, max(weights) + 1):
        for first in range(0, len(weights), WORDS):
            has_slot = [weight >= slot for weight in weights[first : first + WORDS]]
            if any(has_slot):
                words = "".join("I" if each else "4x" for each in has_slot)
                layout = Struct(f">{words}{4 * (WORDS - len(has_slot))}x")
                positions = tuple(first + word for word, each in enumerate(has_slot) if each)
                yield Sheet(_prefix(first // WORDS, slot).encode(), layout.unpack, positions)
