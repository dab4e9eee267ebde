"""Who does not say the published map: each registration is asked for until it does, many in one request."""

from __future__ import annotations

import random
import unittest
from dataclasses import replace

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.moving.multi_read import MultiRead
from parkazoo.admin.registrations import AT_ONCE, read_sessions
from parkazoo.admin.rise import Said, Waiting, find_behind
from parkazoo.kazoo_private import Create, Delete, GetData, SetData
from parkazoo.protocol.placement import CLIENTS, MAP, ROOT
from parkazoo.protocol.registration import encode_registration, registration_path
from tests.explore.znodes import EPHEMERAL
from tests.fakes.ensemble import FakeAdminClient, FakeEnsemble
from tests.protocol.test_leaving import MAP as KNOWN


class TestFindBehind(unittest.TestCase):
    def setUp(self) -> None:
        self.published = replace(KNOWN, epoch=7)
        self.ensemble = FakeEnsemble(random.Random(1), ROOT, CLIENTS)
        self.client = FakeAdminClient(self.ensemble, "a")
        self.ensemble.write(Create(MAP, self.published.to_json(), OPEN_ACL_UNSAFE, 0))
        self.said: Said = {}

    def register(self, session: int, epoch: object) -> None:
        path, data = registration_path(session), encode_registration(session, {"epoch": epoch})
        if path in self.ensemble.znodes:
            self.ensemble.write(SetData(path, data, -1))
        else:
            self.ensemble.write(Create(path, data, OPEN_ACL_UNSAFE, EPHEMERAL), session=session)

    def look(self) -> tuple[list[str | None], int, set[str]]:
        """Who is behind, how many sessions there are, and whose registrations were read."""
        self.ensemble.requests.clear()
        found = find_behind({"a": self.client}, self.published, self.said)
        assert isinstance(found, Waiting)
        reads = [
            read
            for each in self.ensemble.requests
            for read in (each.requests if isinstance(each, MultiRead) else [each])
            if isinstance(read, GetData) and read.path != MAP
        ]
        return [each.client for each in found.behind], found.sessions, {each.path for each in reads}

    def test_only_those_that_have_not_said_it(self) -> None:
        paths = {session: registration_path(session) for session in (16, 17, 18)}
        for session, epoch in ((16, 6), (17, 7), (18, "7")):
            self.register(session, epoch)
        self.assertEqual(self.look(), (["0x10", "0x12"], 3, {*paths.values()}))
        self.register(16, 8)
        self.assertEqual(self.look(), (["0x12"], 3, {paths[16], paths[18]}))
        self.assertEqual(self.look(), (["0x12"], 3, {paths[18]}))
        self.register(19, 6)
        self.ensemble.write(Delete(paths[17], -1))
        self.ensemble.write(Delete(paths[18], -1))
        self.assertEqual(self.look(), (["0x13"], 2, {registration_path(19)}))

    def test_of_this_ensemble(self) -> None:
        """Another one may have a session with the same number."""
        other = FakeEnsemble(random.Random(1), ROOT, CLIENTS)
        other.write(Create(MAP, self.published.to_json(), OPEN_ACL_UNSAFE, 0))
        for ensemble, epoch in ((self.ensemble, 7), (other, 6)):
            self.ensemble = ensemble
            self.register(16, epoch)
        clients = {"a": self.client, "b": FakeAdminClient(other, "b")}
        for _ in range(2):
            found = find_behind(clients, self.published, self.said)
            assert found is not None
            self.assertEqual([each.sessions for each in found.behind], [{"b": "0x10"}])

    def test_another_map(self) -> None:
        self.ensemble.write(SetData(MAP, replace(self.published, epoch=8).to_json(), -1))
        self.assertIsNone(find_behind({"a": self.client}, self.published, self.said))

    def test_few_requests(self) -> None:
        """One by one, where the servers know no others; the client learns it once."""
        many = 2 * AT_ONCE + 1
        for session in range(many):
            self.register(100 + session, 6)
        for has_multi_read, counts in ((True, (3, 3)), (False, (many + 3, many))):
            self.ensemble.has_multi_read, client = has_multi_read, FakeAdminClient(self.ensemble, "a")
            for count in counts:
                self.ensemble.requests.clear()
                self.assertEqual(len(read_sessions(client)), many)
                reads = [each for each in self.ensemble.requests if isinstance(each, (MultiRead, GetData))]
                self.assertEqual(len(reads), count)
            self.assertEqual(client.has_multi_read, has_multi_read)
