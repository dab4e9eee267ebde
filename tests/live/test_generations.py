"""A pin that names a generation, made by hand on real servers: clients follow it, fsck finds no fault."""

from __future__ import annotations

from parkazoo.admin import find_whereabouts
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import Place, mirror_path
from tests.live.grow_case import GrowCase

U = "0123456789abcdef" * 2


class TestGeneration(GrowCase):
    def test_a_life_in_it_and_the_next(self) -> None:
        client, _ = self.client(self.a)
        client.create("/m/x", b"1", makepath=True)
        d = find_whereabouts(self.map, "/m").d
        client.stop()
        to, path = 1 - d.mirror.ensemble, mirror_path("/m", U)
        copy, home, old = self.plain[to], self.plain[d.home.ensemble], self.plain[d.mirror.ensemble]
        copy.ensure_path(d.fence)  # only as many are made as a test needs
        copy.create(path)
        copy.create(f"{path}/x", b"1")
        acl, _ = home.get_acls(d.pin)
        switch = home.transaction()
        switch.delete(d.pin)
        switch.create(d.pin, encode_pin(copy.set(d.fence, b""), "ab"[to], U), acl)
        self.assertEqual(switch.commit(), [True, d.pin])
        old.delete(d.mirror.path, recursive=True)

        client, _ = self.client(self.b)
        self.assertEqual((client.get("/m/x")[0], client.exists("/m").numChildren), (b"1", 1))
        client.create("/m/y")
        self.assertEqual((sorted(copy.get_children(path)), client.get_children("/m")), (["x", "y"], ["x", "y"]))
        self.assertEqual(find_whereabouts(self.map, "/m").d.mirror, Place(to, path))
        self.assert_grown("ab")
        client.delete("/m", recursive=True)
        self.assertIsNone(copy.exists(path))
        client.create("/m/z", makepath=True)
        self.assertEqual(find_whereabouts(self.map, "/m").d.mirror.path, mirror_path("/m"))
        self.assert_grown("ab")
