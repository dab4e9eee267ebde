"""Whatever clients read: arbitrary maps, pins, paths, hosts and client ids raise what is documented."""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from kazoo.exceptions import BadArgumentsError, KazooException, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import (
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol import cluster_map
from parkazoo.protocol.client_id import pack_sessions, unpack_sessions
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.pin import Pin, decode_pin
from parkazoo.protocol.placement import MIRRORS, Placement, escape, is_reserved, logical, unescape
from parkazoo.protocol.server_list import parse_config
from tests.arbitrary import ANY_PATH, JSON, PATH, TEXT, fuzzed
from tests.explore.alone import must, prepared
from tests.explore.client import Client
from tests.where_is import where_is

NAMES = st.from_regex(cluster_map.NAME, fullmatch=True)
ENSEMBLES = st.integers(1, 5)
MAP = ClusterMap("test", {"a": "h1:2181,h2:2181", "b": "[::1]:2181", "c": "h3:1"}, ("a", "b"), "c")
VALID = json.loads(MAP.to_json())
SERVER_PARTS = (
    ["server.1=", "server.2=", "server.2"],
    ["a", "b", "[::1]", "0.0.0.0", "[a]", "é"],
    [":1:2", ":1:2|c:1:2", ":1"],
    ["", ":participant", ":observer", ":leader"],
    [";", ""],
    ["", "d:", "[::]:", "0.0.0.0:", "[b]:"],
    ["3", "4", "70000", "x"],
)
SERVER_LINE = st.tuples(*map(st.sampled_from, SERVER_PARTS)).map("".join)

PLACES: list[tuple[Any, ...]] = [(key,) for key in VALID]
PLACES += [("ensembles", name) for name in VALID["ensembles"]] + [("placement", 0), ("placement", 1)]
PLACES += [("epochs", 0), *(("epochs", 0, key) for key in VALID["epochs"][0])]
PLACES += [("epochs", 0, "weights", name) for name in VALID["placement"]]


def damaged(where: tuple[Any, ...], value: Any) -> bytes:
    """A good map with something exchanged."""
    document = json.loads(MAP.to_json())
    *outer, last = where
    place = document
    for key in outer:
        place = place[key]
    place[last] = value
    return json.dumps(document).encode()


@st.composite
def damaged_bytes(draw: Any) -> bytes:
    """A good map with some bytes cut out and others put in."""
    good = MAP.to_json()
    start = draw(st.integers(0, len(good)))
    return good[:start] + draw(st.binary(max_size=8)) + good[start + draw(st.integers(0, 20)) :]


def server_lines(drawn: tuple[list[str], str]) -> bytes:
    """What looks like a configuration of ZooKeeper."""
    servers, rest = drawn
    return "\n".join([*servers, "version=1f", rest]).encode(errors="ignore")


@st.composite
def requests(draw: Any) -> Any:
    """As kazoo's public methods make them: of a path normalised, or with a slash at its end for a number alone."""
    path, data, version = draw(ANY_PATH), draw(st.binary(max_size=4)), draw(st.integers(-1, 2))
    kind = draw(st.sampled_from([Create, Create2, Delete, Exists, GetACL, GetChildren, GetChildren2, GetData,
                                 SetACL, SetData, Sync]))  # fmt: skip
    if kind in (Create, Create2):
        path = draw(st.sampled_from([path, path.rstrip("/") + "/"]))
        return kind(path, data, OPEN_ACL_UNSAFE, draw(st.integers(0, 3)))
    more = {Delete: (version,), SetACL: (OPEN_ACL_UNSAFE, version), SetData: (data, version), Sync: (), GetACL: ()}
    return kind(path, *more.get(kind, (None,)))


class TestMap(unittest.TestCase):
    def parse(self, data: bytes) -> None:
        try:
            found = ClusterMap.from_json(data)
        except ClusterMapError as error:
            self.assertLess(len(str(error)), 2000)
            return
        self.assertEqual(ClusterMap.from_json(found.to_json()), found)
        placement = found.make_placement()
        self.assertLess(placement.of("/a/b"), len(found.names))

    @given(st.one_of(st.binary(), JSON.map(lambda value: json.dumps(value).encode())))
    @fuzzed
    def test_anything(self, data: bytes) -> None:
        self.parse(data)

    @given(st.sampled_from(PLACES), st.one_of(JSON, st.sampled_from(["a", "h1:2181", "", 0, 1, 2, -1, 10**30])))
    @fuzzed
    def test_exchanged(self, where: tuple[Any, ...], value: Any) -> None:
        self.parse(damaged(where, value))

    @given(damaged_bytes())
    @fuzzed
    def test_damaged(self, data: bytes) -> None:
        self.parse(data)

    @given(st.binary() | st.sampled_from([b'{"fence": [1, 2]}', b'{"fence": [1e999, 1], "on": "a"}']))
    @fuzzed
    def test_data_of_a_pin(self, data: bytes) -> None:
        self.assertIsNone(decode_pin(data))

    @given(JSON | st.sampled_from(["a", "b-2.c", "", "-a", "a\n", "\ud800", "a" * 64]))
    @fuzzed
    def test_what_a_pin_names(self, on: Any) -> None:
        data = json.dumps({"fence": [1, 2], "on": on, "later": on}).encode()
        is_name = isinstance(on, str) and cluster_map.NAME.fullmatch(on)
        self.assertEqual(decode_pin(data), Pin(1, 2, on) if is_name else None)


class TestHosts(unittest.TestCase):
    @given(st.one_of(TEXT, st.text("h1:,.[] -_0fé", max_size=30)))
    @fuzzed
    def test_hosts(self, text: str) -> None:
        try:
            servers = parse_hosts(text)
        except ClusterMapError:
            return
        self.assertEqual(parse_hosts(format_hosts(servers)), servers)

    @given(st.binary() | st.tuples(st.lists(SERVER_LINE, max_size=3), TEXT).map(server_lines))
    @fuzzed
    def test_config(self, data: bytes) -> None:
        """What the servers say at /zookeeper/config: hosts that can be looked up, or None."""
        found = parse_config(data)
        if found is not None:
            self.assertGreaterEqual(found.version, 0)
            self.assertEqual(parse_hosts(format_hosts(found.servers)), found.servers)


class TestPaths(unittest.TestCase):
    @given(TEXT)
    @fuzzed
    def test_any_text_has_a_logical_path(self, text: str) -> None:
        """What a server sends, whatever client wrote it."""
        for path in (text, f"{MIRRORS}/{text}", f"{MIRRORS}/{escape(text)}/{text}"):
            self.assertIsInstance(logical(path), str)
        self.assertEqual(unescape(escape(text)), text)
        self.assertNotIn("/", escape(text))

    @given(ENSEMBLES, PATH)
    @fuzzed
    def test_physical_and_back(self, ensembles: int, path: str) -> None:
        if is_reserved(path):
            return
        placement = Placement(ensembles)
        d = where_is(placement, path)
        home, children = d.home, d.mirror
        self.assertEqual(logical(home.path), path)
        self.assertEqual(logical(children.path), path)
        self.assertEqual(home.ensemble, placement.of(path))
        self.assertIn(children.ensemble, range(ensembles))
        self.assertTrue(home.path == path or home.path.startswith(MIRRORS + "/"))
        self.assertTrue(is_reserved(d.pin))
        self.assertTrue(is_reserved(d.fence))

    @given(ENSEMBLES, st.lists(requests(), min_size=1, max_size=4), st.booleans())
    @example(2, [Delete("/0*", 0), Delete("/\ud800", 0)], False)  # the second while the first is under way
    @fuzzed
    def test_operations(self, ensembles: int, several: list[Any], is_transaction: bool) -> None:
        """Each is answered, none raises; nothing of ours is touched, and nothing is held up afterwards."""
        placement = Placement(ensembles)
        client = Client(placement, prepared(placement))
        if is_transaction:
            kinds = (Create, Delete, SetData)
            several = [Transaction([each for each in several if isinstance(each, kinds)])]
        results = [client.call(request) for request in several]
        client.run()
        for request, result in zip(several, results, strict=True):
            value = result.value
            if isinstance(value, Exception):
                self.assertIsInstance(value, (KazooException, UnicodeEncodeError))
            path = getattr(request, "path", "/")
            if is_reserved(path) and not isinstance(request, Exists):
                self.assertIsInstance(value, (BadArgumentsError, NoNodeError, UnicodeEncodeError))
        self.assertFalse(client.driver.order, "something is still claimed")
        must(client.get(GetChildren("/", None)))


class TestClientIds(unittest.TestCase):
    SESSION = st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(min_size=16, max_size=16))

    @given(st.dictionaries(NAMES, SESSION, max_size=5))
    @fuzzed
    def test_round_trip(self, sessions: dict[str, tuple[int, bytes]]) -> None:
        self.assertEqual(unpack_sessions(pack_sessions(sessions)), sessions)

    @given(st.binary(max_size=150))
    @fuzzed
    def test_anything(self, packed: bytes) -> None:
        found = unpack_sessions(packed)
        if found is not None:
            self.assertEqual(unpack_sessions(pack_sessions(found)), found)

    @given(st.dictionaries(NAMES, SESSION, min_size=1, max_size=3), st.data())
    @fuzzed
    def test_damaged(self, sessions: dict[str, tuple[int, bytes]], data: st.DataObject) -> None:
        """Bytes of it are other ones, or missing."""
        packed = bytearray(pack_sessions(sessions))
        for index in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=4)):
            packed[index] = data.draw(st.integers(0, 255))
        unpack_sessions(bytes(packed[: data.draw(st.integers(0, len(packed)))]))
