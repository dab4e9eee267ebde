"""A DistributedDict against a dict: any calls, by two clients."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from parkazoo.structures.policies import Always, Watch
from tests.live.world import LiveTest, wait_until

EXAMPLES, STEPS = 12, 10
KEYS = st.sampled_from(["a", "", "a/b", "%", "..", "\n", "\U0001f600", "straße"]) | st.text(max_size=2)
VALUES = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.lists(st.integers(0, 1), max_size=2)
)
WHO = st.sampled_from([0, 1])


class Calls(RuleBasedStateMachine):
    """One is kept by watches, one asks each time. Both see what either does, and raise what a dict raises."""

    clients: ClassVar[list[Any]]

    @initialize(shards=st.sampled_from([1, 3]))
    def begin(self, shards: int) -> None:
        path = f"/model-{uuid.uuid4().hex}"
        policies = Watch(), Always()
        self.both = [
            client.DistributedDict(path, policy, shards=shards)
            for client, policy in zip(self.clients, policies, strict=True)
        ]
        self.model: dict[str, Any] = {}

    def call(self, who: int, call: Callable[[Any], Any]) -> None:
        """The same, by one of the two and by the model."""
        expected, found = _outcome(call, self.model), _outcome(call, self.both[who])
        assert found == expected, f"{found}, not {expected}"
        wait_until(lambda: self.both[0].copy() == self.model, f"{self.model}, not {self.both[0].copy()}")

    @rule(who=WHO, key=KEYS, value=VALUES)
    def set(self, who: int, key: str, value: Any) -> None:
        self.call(who, lambda found: found.__setitem__(key, value))

    @rule(who=WHO, key=KEYS)
    def delete(self, who: int, key: str) -> None:
        self.call(who, lambda found: found.__delitem__(key))

    @rule(who=WHO, key=KEYS, value=VALUES, has_default=st.booleans())
    def pop(self, who: int, key: str, value: Any, has_default: bool) -> None:
        self.call(who, lambda found: found.pop(key, value) if has_default else found.pop(key))

    @rule(who=WHO, key=KEYS, value=VALUES)
    def setdefault(self, who: int, key: str, value: Any) -> None:
        self.call(who, lambda found: found.setdefault(key, value))

    @rule(who=WHO, items=st.dictionaries(KEYS, VALUES, max_size=4))
    def update(self, who: int, items: dict[str, Any]) -> None:
        self.call(who, lambda found: found.update(items))

    @rule(who=WHO, key=KEYS, value=VALUES)
    def read(self, who: int, key: str, value: Any) -> None:
        self.call(who, lambda found: found[key])
        self.call(who, lambda found: (found.get(key, value), key in found, value in found.values(), len(found)))

    @rule(who=WHO)
    def clear(self, who: int) -> None:
        self.call(who, lambda found: found.clear())

    @invariant()
    def same(self) -> None:
        for found in self.both:
            assert found == self.model
            assert sorted(found.keys()) == sorted(self.model)

    def teardown(self) -> None:
        for found in getattr(self, "both", ()):
            found.close()
            found.clear()


def _outcome(call: Callable[[Any], Any], found: Any) -> Any:
    try:
        return call(found)
    except KeyError as error:
        return KeyError, error.args


class TestModel(LiveTest):
    def test_any_calls(self) -> None:
        Calls.clients = [self.joined(), self.joined()]
        examples = int(os.environ.get("PARKAZOO_FUZZ", EXAMPLES))
        run_state_machine_as_test(
            Calls,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                derandomize=examples == EXAMPLES,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
