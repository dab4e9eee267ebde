"""What a map says of where new directories go: its form, its epochs, and the rules in them.

    "form": "grown",
    "epochs": [
      {"epoch": 1, "weights": {"a": 1}, "rules": []},
      {"epoch": 2, "weights": {"a": 1, "b": 2, "c": 2}, "rules": [
        {"prefix": "/app/orders", "together": true},
        {"prefix": "/logs/*", "together": true, "on": ["c"]}
      ]}
    ]

The first epoch decides as the map did when it was made; it has no rules. Of the others only the newest decides, so
those before the newest few are forgotten. Nobody needs them: a pin has the name of its ensemble, and each epoch
names all ensembles that one before it has named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.checked_json import quoted, typed, verify_keys
from parkazoo.protocol.placement import is_of_zookeeper, is_reserved
from parkazoo.protocol.rendezvous import MOST_WEIGHT

EPOCHS_KEPT = 8  # behind the first: each repeats all rules, and the map has to fit into a znode
BYTES_KEPT = 250_000  # so large they are together, if they are several
EACH = "/*"  # at the end of a prefix: each child of that directory
KEYS_OF_EPOCH = frozenset({"epoch", "weights", "rules"})
KEYS_OF_RULE = frozenset({"prefix", "together"})
# Characters that ZooKeeper refuses in a path; as surrogates also all beyond 16 bits.
IMPOSSIBLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
NO_RULE = "a rule cannot be for {}"
IN_EPOCHS = " in 'epochs'"
UPGRADE = "upgrade ParKazoo"


class Form(IntEnum):
    """What clients of a map may take for granted of each other. Only neighbours can work together."""

    PLAIN = 0
    TOLERANT = 1
    GUARDED = 2
    GROWN = 3

    @property
    def word(self) -> str:
        """As the map has it."""
        return self.name.lower()


FORMS = {form.word: form for form in Form}


class Rule(NamedTuple):
    """Where the directories go that are `prefix` or below it.

    :param prefix: an absolute, normalised path. If it ends in ``/*``, there is a rule for each child of that
        directory.
    :param on: the names of the ensembles to choose from; empty for all.
    :param together: whether all of them go to one ensemble.
    """

    prefix: str
    on: tuple[str, ...] = ()
    together: bool = True


@dataclass(frozen=True)
class Epoch:
    """Weights and rules, from one change of them to the next.

    :param weights: by name of the ensemble; one that is not named gets nothing.
    :raises ClusterMapError: a weight is none, a rule leaves no ensemble to choose, or a prefix cannot be one.
    """

    number: int
    weights: Mapping[str, int]
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ClusterMapError(f"it is damaged (epoch {quoted(self.number)}{IN_EPOCHS})")
        for name, weight in self.weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= MOST_WEIGHT:
                found = quoted(weight)
                raise ClusterMapError(
                    f"the weight of ensemble {name} is {found}, not a whole number from 0 to {MOST_WEIGHT}"
                )
        if not any(self.weights.values()):
            raise ClusterMapError(
                "every ensemble would have weight 0: no directory could be made. Leave one at 1 or more"
            )
        prefixes = set()
        for rule in self.rules:
            _verify_prefix(rule.prefix)
            if rule.prefix in prefixes:
                raise ClusterMapError(f"there are two rules for {quoted(rule.prefix)}")
            prefixes.add(rule.prefix)
            self._verify_candidates(rule)

    def _verify_candidates(self, rule: Rule) -> None:
        if unknown := [name for name in rule.on if name not in self.weights]:
            raise ClusterMapError(
                f"the rule for {quoted(rule.prefix)} names ensemble {quoted(unknown[0])}, which has no weight"
            )
        if len(set(rule.on)) != len(rule.on):
            raise ClusterMapError(f"the rule for {quoted(rule.prefix)} names an ensemble twice")
        if rule.on and not any(self.weights[name] for name in rule.on):
            raise ClusterMapError(
                f"the rule for {quoted(rule.prefix)} leaves no ensemble: each that it names would have weight "
                "0. First `parkazoo map rule remove`, and then add the rule with others"
            )

    def shares(self, placement: Sequence[str], rule: Rule | None = None) -> tuple[int, ...]:
        """The weights of the placement's ensembles, in its order; 0 for one that a rule leaves out."""
        on = rule.on if rule is not None else ()
        return tuple(self.weights.get(name, 0) if not on or name in on else 0 for name in placement)

    def to_document(self) -> dict[str, object]:
        return {
            "epoch": self.number,
            "weights": dict(self.weights),
            "rules": [_rule_document(rule) for rule in self.rules],
        }


def verify_known(names: Mapping[str, object], placement: Sequence[str]) -> None:
    """ClusterMapError if a weight is given for an ensemble that is not in the placement."""
    for name in names:
        if name not in placement:
            raise ClusterMapError(f"a weight is given for {quoted(name)}, which is not in the placement")


def verify_later(later: Sequence[Epoch], placement: Sequence[str], form: Form) -> None:
    """ClusterMapError if these epochs cannot come behind the first one, whose number is 1."""
    if later and form is not Form.GROWN:
        raise ClusterMapError(f"its form is {form.word}: only a map of form {Form.GROWN.word} has further epochs")
    last = 1
    for epoch in later:
        verify_known(epoch.weights, placement)
        if epoch.number <= last:
            raise ClusterMapError(f"it is damaged ({quoted(epoch.number)} comes behind {quoted(last)}{IN_EPOCHS})")
        last = epoch.number


def next_epoch(epochs: Sequence[Epoch], weights: Mapping[str, int], rules: Sequence[Rule]) -> Epoch:
    """The epoch behind these. It names each ensemble that one of them names, since they may be forgotten."""
    named = {name: 0 for each in epochs for name in each.weights}
    return Epoch(epochs[-1].number + 1, {**named, **weights}, tuple(rules))


def newest_of(later: Sequence[Epoch]) -> tuple[Epoch, ...]:
    """The epochs behind the first that the map keeps: the last, and the few before it that are small.

    So a map whose newest epoch fits into a znode has room for another one that is no larger.
    """
    kept, size = [later[-1]], _size(later[-1])
    for epoch in reversed(later[-EPOCHS_KEPT:-1]):
        size += _size(epoch)
        if size > BYTES_KEPT:
            break
        kept.append(epoch)
    return tuple(reversed(kept))


def _size(epoch: Epoch) -> int:
    return len(json.dumps(epoch.to_document()))


def follow(later: Sequence[Epoch], before: Sequence[Epoch]) -> bool:
    """Whether a map that has had the epochs `before` behind its first one can have `later`: as many or more, of
    which the older ones may be missing. What both have is the same.
    """
    if not before or not later:
        return not before
    kept = {each.number: each for each in later}
    return later[-1].number >= before[-1].number and all(
        kept.get(each.number) == each for each in before if each.number >= later[0].number
    )


def with_epochs(document: Mapping[str, object], epochs: Sequence[Epoch]) -> str:
    """A map as JSON that people can read, but with a line for each epoch: there may be thousands of rules.

    :param document: the rest of the map.
    """
    lines = ",\n    ".join(json.dumps(each.to_document()) for each in epochs)
    return f'{json.dumps(document, indent=2)[:-2]},\n  "epochs": [\n    {lines}\n  ]\n}}'


def verify_pattern(prefix: str) -> str:
    """The path without EACH; ClusterMapError if it is not absolute or not normalised, whomever it belongs to."""
    path = prefix.removesuffix(EACH)
    names = path.split("/")[1:]
    about = NO_RULE.format(quoted(prefix))
    if prefix == "/":
        raise ClusterMapError(f"{about}: for the whole tree, give weights")
    if prefix[:1] == prefix[-1:] == "/" and "//" not in prefix:
        raise ClusterMapError(f"{about}: leave out the slash at its end")
    if not (path.startswith("/") or prefix == EACH) or not {"", ".", ".."}.isdisjoint(names):
        raise ClusterMapError(f"{about}: its prefix must be an absolute path like /app, or /app/* for each child")
    if "*" in path:
        raise ClusterMapError(f"{about}: a '*' can only be its last name")
    return path


def verify_possible(prefix: str) -> None:
    """ClusterMapError if servers make no znode of that name. Maps may have such a rule from before."""
    if found := IMPOSSIBLE.search(prefix):
        raise ClusterMapError(
            f"{NO_RULE.format(quoted(prefix))}: ZooKeeper has no znode with {quoted(found.group())} in its path"
        )


def _verify_prefix(prefix: str) -> None:
    path = verify_pattern(prefix)
    about = NO_RULE.format(quoted(prefix))
    if is_of_zookeeper(path) or is_reserved(path):
        raise ClusterMapError(f"{about}, which does not belong to users")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ClusterMapError(f"{about}, which is not valid Unicode") from None


def _rule_document(rule: Rule) -> dict[str, object]:
    document: dict[str, object] = {"prefix": rule.prefix, "together": rule.together}
    return document | ({"on": list(rule.on)} if rule.on else {})


class Epochs(NamedTuple):
    """The epochs as they are read. The first one's weights are not validated."""

    form: Form
    first: dict[str, Any]
    later: tuple[Epoch, ...]


def read_epochs(document: Mapping[str, object], placement: Sequence[str]) -> Epochs:
    """:raises ClusterMapError: they are damaged, or made by a later ParKazoo."""
    word, epochs = typed(document, "form", str), typed(document, "epochs", list)
    if word not in FORMS:
        raise ClusterMapError(f"it has form {quoted(word)}; this ParKazoo knows {', '.join(FORMS)}: {UPGRADE}")
    if not epochs or not all(isinstance(each, dict) for each in epochs):
        raise ClusterMapError(f"it is damaged ('epochs' is {quoted(epochs)})")
    first, *later = epochs
    verify_keys(first, KEYS_OF_EPOCH, IN_EPOCHS)
    if (number := typed(first, "epoch", int, IN_EPOCHS)) != 1:
        raise ClusterMapError(f"it is damaged (the first of 'epochs' is {quoted(number)})")
    if typed(first, "rules", list, IN_EPOCHS):
        raise ClusterMapError(f"its first epoch has rules: {UPGRADE}")
    weights = typed(first, "weights", dict, IN_EPOCHS)
    return Epochs(FORMS[word], weights, tuple(_read_epoch(each, placement) for each in later))


def _read_epoch(document: Mapping[str, object], placement: Sequence[str]) -> Epoch:
    verify_keys(document, KEYS_OF_EPOCH, IN_EPOCHS)
    weights = typed(document, "weights", dict, IN_EPOCHS)
    verify_known(weights, placement)
    rules = tuple(map(_read_rule, typed(document, "rules", list, IN_EPOCHS)))
    return Epoch(typed(document, "epoch", int, IN_EPOCHS), weights, rules)


def _read_rule(document: object) -> Rule:
    if not isinstance(document, dict):
        raise ClusterMapError(f"it is damaged (a rule is {quoted(document)})")
    where = " in a rule"
    verify_keys({**document, "together": True}, KEYS_OF_RULE | document.keys() & {"on"}, where)
    together, on = document.get("together", True), ()
    if not isinstance(together, bool):
        raise ClusterMapError(f"it is damaged ('together'{where} is {quoted(together)})")
    if "on" in document:
        on = tuple(typed(document, "on", list, where))
        if not on or not all(isinstance(name, str) for name in on):
            raise ClusterMapError(f"it is damaged ('on'{where} is {quoted(on)})")
    return Rule(typed(document, "prefix", str, where), on, together)
