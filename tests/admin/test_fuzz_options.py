"""Whatever a user of the command types: arbitrary paths, hosts, passwords and files raise what is documented."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import typer
from hypothesis import given
from hypothesis import strategies as st

from parkazoo.admin.agreement import plan_map
from parkazoo.admin.identity import encode_identity, is_identity
from parkazoo.cli.map_commands import _read_plan
from parkazoo.cli.options import connection_options, normalised, parse_ensembles
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.cluster_map import ClusterMap, describe_record
from parkazoo.protocol.placement import is_reserved
from tests.arbitrary import JSON, TEXT, fuzzed

MAP = ClusterMap("test", {"a": "h1:2181,h2:2181", "b": "[::1]:2181", "c": "h3:1"}, ("a", "b"), "c")


class TestMap(unittest.TestCase):
    @given(TEXT, st.dictionaries(TEXT, st.one_of(TEXT, st.sampled_from(["h:1", "h:1,g:2", "i:3"]))))
    @fuzzed
    def test_plan(self, bootstrap: str, ensembles: dict[str, str]) -> None:
        for each in (bootstrap, "h:1", "j:9"):
            try:
                made = plan_map(each, ensembles)
            except ClusterMapError:
                continue
            self.assertEqual(ClusterMap.from_json(made.to_json()), made)

    @given(st.binary())
    @fuzzed
    def test_record_of_an_ensemble(self, data: bytes) -> None:
        self.assertFalse(is_identity(data, MAP, "a"))
        self.assertTrue(describe_record(data))
        self.assertTrue(is_identity(encode_identity(MAP, "a"), MAP, "a"))


class TestCommand(unittest.TestCase):
    @given(TEXT)
    @fuzzed
    def test_where(self, path: str) -> None:
        try:
            znode = normalised(path)
        except ClusterMapError:
            return
        self.assertEqual(normpath(znode), znode)
        self.assertFalse(is_reserved(znode))

    @given(st.lists(st.one_of(TEXT, st.just("digest:u:p")), max_size=3))
    @fuzzed
    def test_auth(self, options: list[str]) -> None:
        try:
            found = connection_options(options, 1.0, None, None, None)
        except typer.BadParameter as error:
            self.assertNotIn("digest:u:p", str(error))
            return
        self.assertEqual([f"{scheme}:{credential}" for scheme, credential in found["auth"]], options)

    @given(st.lists(st.one_of(TEXT, st.sampled_from(["a=h:1", "b=h:2", "="])), max_size=4))
    @fuzzed
    def test_ensembles(self, options: list[str]) -> None:
        try:
            ensembles = parse_ensembles("--ensemble ", options)
            plan_map("h:1", ensembles)
        except (typer.BadParameter, ClusterMapError):
            pass

    @given(st.one_of(st.binary(), JSON.map(lambda value: json.dumps(value).encode())))
    @fuzzed
    def test_file(self, data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "plan.json")
            file.write_bytes(data)
            try:
                bootstrap, ensembles = _read_plan(file)
                plan_map(bootstrap, ensembles)
            except ClusterMapError:
                pass
