"""Where the newest epoch of a map puts the children of a directory.

It is only a guess where a directory's children are: decisions of an earlier epoch stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from parkazoo.protocol.epochs import EACH, Epoch, Rule
from parkazoo.protocol.placement import PATHS_CACHED, Placement, above, is_of_zookeeper
from parkazoo.protocol.rendezvous import rendezvous


class Guess:
    """Pure and the same on every machine; specified in docs/design/protocol.md, "Placement".

    :param first: by the map's first epoch: where ``/`` has its children for ever.
    :param placement: names of the ensembles; those in `newest` are among them.
    :param newest: the newest epoch; None if it is the first.
    """

    def __init__(self, first: Placement, placement: Sequence[str], newest: Epoch | None) -> None:
        self._first = first
        rules = newest.rules if newest is not None else ()
        self._rules = {rule.prefix: rule for rule in rules}
        self._choose = rendezvous(newest.shares(placement)) if newest is not None else first.of_children
        self._choose_by = {
            rule: rendezvous(newest.shares(placement, rule)) for rule in rules if newest is not None
        }
        self.of_children = lru_cache(PATHS_CACHED)(self._of_children)

    def _of_children(self, directory: str) -> int:
        """The ensemble that a new directory's children go to."""
        if _is_fixed(directory):
            return self._first.of_children(directory)
        found = self._match(directory)
        if found is None:
            return self._choose(directory)
        rule, top = found
        return self._choose_by[rule](top if rule.together else directory)

    def rule_of(self, directory: str) -> Rule | None:
        """The rule with the longest prefix that is the directory or above it."""
        found = self._match(directory)
        return found and found[0]

    def key_of(self, directory: str) -> str:
        """The hashed text: directories with the same key and the same rule go to the same ensemble."""
        found = self._match(directory)
        return found[1] if found is not None and found[0].together else directory

    def _match(self, directory: str) -> tuple[Rule, str] | None:
        """The rule, and the path that its prefix stands for."""
        if not self._rules or _is_fixed(directory):
            return None
        for path in (directory, *above(directory)):
            rule = self._rules.get(path) or self._rules.get(path.rpartition("/")[0] + EACH)
            if rule is not None and path != "/":
                return rule, path
        return None


def _is_fixed(directory: str) -> bool:
    """No epoch decides about these."""
    return directory == "/" or is_of_zookeeper(directory)
