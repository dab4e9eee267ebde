"""taskflow's own tests of its persistence, with transactions over several directories: one rule is enough."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from kazoo.exceptions import NoNodeError
from taskflow.exceptions import NotFound
from taskflow.persistence.backends.impl_zookeeper import ZkBackend
from taskflow.tests.unit.persistence.base import PersistenceTestMixin

from parkazoo import CrossEnsembleError
from parkazoo.admin import add_rule
from parkazoo.protocol.epochs import Rule
from tests.live.grow_case import GrowCase

TOP = "/taskflow"


class TestTaskflow(PersistenceTestMixin, GrowCase):
    """Its directories are on two ensembles, but for the rule."""

    def setUp(self) -> None:
        super().setUp()
        add_rule(self.a, Rule(TOP))
        self.zk, _ = self.client()
        self.backend = ZkBackend({"path": f"{TOP}/{uuid.uuid4()}"}, client=self.zk)
        self.addCleanup(self.backend.close)
        with contextlib.closing(self.backend.get_connection()) as connection:
            connection.upgrade()

    def _get_connection(self) -> Any:
        return self.backend.get_connection()

    def tearDown(self) -> None:
        with contextlib.closing(self.backend.get_connection()) as connection, contextlib.suppress(NotFound):
            connection.clear_all()
        with contextlib.suppress(NoNodeError):
            self.zk.delete(TOP, recursive=True)


class TestWithoutARule(GrowCase):
    def test_refused(self) -> None:
        """A logbook with its flows is saved in one transaction."""
        client, _ = self.client()
        client.ensure_path(TOP)
        with self.assertRaises(CrossEnsembleError):
            for number in range(40):  # of two ensembles each directory has one
                transaction = client.transaction()
                transaction.create(f"{TOP}/book{number}")
                transaction.create(f"{TOP}/book{number}/flow")
                self.assertNotIsInstance(transaction.commit()[0], Exception)
