"""A plain map with weights."""

from __future__ import annotations

import contextlib
import dataclasses

from parkazoo import ParKazooClient
from parkazoo.admin import change_hosts, init_map
from parkazoo.protocol.placement import MAP, MIRRORS
from tests.live.map_case import MapCase, check_but_strangers, other_spelling, run_command

PATHS = [f"/{number}" for number in range(12)]


class TestWeights(MapCase):
    def test_none_and_more(self) -> None:
        """It was written by hand: commands show it and keep the weights, clients place by them."""
        made = dataclasses.replace(init_map(self.a, self.all), weights={"b": 0, "c": 3})
        self.publish(made)
        out = run_command("map", "show", "--hosts", self.a)[1]
        for pattern in (
            r"a .*znodes, the map ",
            r"b .*znodes, weight 0 ",
            r"c .*znodes, weight 3 ",
            "format 2, hash rend",
        ):
            self.assertRegex(out, pattern)
        self.assertIn("b  none: its weight is 0", run_command("where", "/app", "--hosts", self.a)[1])
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            for path in PATHS:
                client.create(f"{path}/child", makepath=True)
            client.stop()
        self.assertEqual(set(self.plain[1].get_children("/")), {"parkazoo", "zookeeper"})
        mirrors = [bool(client.get_children(MIRRORS)) for client in self.plain]
        self.assertEqual(mirrors, [True, False, False])  # the children of / are on c, and so are most of theirs
        self.assertEqual(check_but_strangers(self.a), [])
        changed = change_hosts(self.a, {"b": other_spelling(self.b)})
        self.assertEqual((changed.weights, changed.epoch), (made.weights, 2))
        self.plain[0].delete(MAP)
        self.assertEqual(init_map(self.a, changed.ensembles, replace=["a"]), changed)
