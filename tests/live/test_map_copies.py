"""The map on every ensemble: copies made, finished, compared, and refused."""

from __future__ import annotations

import dataclasses
from unittest import mock

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo.admin import check_map, init_map, read_status
from parkazoo.admin.clients import connect_to
from parkazoo.admin.copies import update_copies
from parkazoo.admin.publish import change_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from tests.live.copies_case import CopiesCase, CrashError, crash_at_write, overtaken_at
from tests.live.map_case import IDENTITY, assert_found, run_command, wipe

WAIT_S = 15.0


class InitTest(CopiesCase):
    def test_copies_have_the_bytes_and_the_acl(self) -> None:
        self.assert_stored(self.map)
        self.assertEqual([client.get_acls(MAP)[0] for client in self.plain], [OPEN_ACL_UNSAFE] * 3)
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        acl = [make_digest_acl("admin", "secret-of-admin", all=True)]
        self.assertEqual([client.get_acls(MAP)[0] for client in self.plain], [acl] * 3)

    def test_made_without_copies(self) -> None:
        self.write(b=None, c=None)
        self.assertEqual(init_map(self.a, self.all), self.map)
        self.assert_stored(self.map)

    def test_bytes_that_somebody_has_written(self) -> None:
        """The copies are what is published, to the byte."""
        odd = self.map.to_json() + b"\n"
        self.write(a=odd, b=None, c=None)
        init_map(self.a, self.all)
        self.assertEqual(self.stored(), [odd] * 3)

    def test_older_copies_are_finished(self) -> None:
        self.write(a=self.epoch(4), b=self.epoch(3))
        self.assertEqual(init_map(self.a, self.all), self.epoch(4))
        self.assert_stored(self.epoch(4))

    def test_crash_between_copies(self) -> None:
        for copies in (None, self.map):
            self.publish(self.epoch(2))
            self.write(b=copies, c=copies)
            with crash_at_write(1), self.assertRaises(CrashError):
                init_map(self.a, self.all)
            self.assertEqual(self.stored(), [*[self.epoch(2).to_json()] * 2, copies and copies.to_json()])
            init_map(self.a, self.all)
            self.assert_stored(self.epoch(2))

    def test_a_copy_does_not_go_back(self) -> None:
        """Another command publishes and writes the copies, after this one has read the primary or a copy."""
        for name in "abc":
            with self.subTest(name):
                self.write(a=self.epoch(2), b=self.map, c=self.map)
                with overtaken_at(name, lambda: self.publish(self.epoch(3))):
                    self.update()
                self.assert_stored(self.epoch(3))

    def test_a_copy_that_lags_refuses_nothing(self) -> None:
        self.write(a=self.epoch(2), b=self.map, c=self.map)

        def change(known: ClusterMap) -> ClusterMap:
            if known.epoch == self.map.epoch:
                raise ClusterMapError("not with this map")
            return known

        self.assertEqual(change_map(self.map, change, {}, WAIT_S), self.epoch(2))
        self.assert_stored(self.epoch(2))
        with self.assertRaisesRegex(ClusterMapError, "not with this map"):
            change_map(self.map, lambda known: change(self.map), {}, WAIT_S)

    def update(self) -> None:
        with connect_to(self.all, {}, WAIT_S) as (clients, _):
            update_copies(clients, "a")

    def test_copies_that_no_command_has_written(self) -> None:
        other = dataclasses.replace(self.map, cluster="other")
        for data, pattern in (
            (b"{", r"cannot use the copy of the cluster map at /parkazoo/map on ensemble b \(.*: it is damaged"),
            (other, r"ensemble b \(.* carries another cluster map, at /parkazoo/map: it is of cluster other"),
            (self.epoch(1, c="h:1"), r"the copy of the map on ensemble b \(.* is wrong: it is map 1 too"),
            (
                self.epoch(2),
                r"the map on ensemble a \(.* is behind its copy on ensemble b \(.*: it is map 2, newer",
            ),
        ):
            with self.subTest(pattern):
                self.write(b=data)
                with self.refused(pattern):
                    init_map(self.a, self.all)

    def test_one_wrong_copy_does_not_hold_up_the_others(self) -> None:
        self.write(a=self.epoch(2), b=self.epoch(2, b="h:1"))
        with self.assertRaisesRegex(ClusterMapError, "ensemble b .* is wrong"):
            init_map(self.a, self.all)
        self.assertEqual(self.stored()[2], self.epoch(2).to_json())
        self.write(b=None)  # as the message says
        init_map(self.a, self.all)
        self.assert_stored(self.epoch(2))


class LostPrimaryTest(CopiesCase):
    """The bootstrap ensemble has lost its data; the copies know more than marks."""

    def setUp(self) -> None:
        super().setUp()
        self.publish(self.epoch(3))
        self.write(c=self.epoch(2))
        wipe(self.plain[0])

    def test_the_newest_copy_counts(self) -> None:
        with self.refused("^no cluster map .* ensemble a .* the copy of its map on b and c: .* --replace a$"):
            init_map(self.a, self.all)
        self.assertEqual(init_map(self.a, self.all, replace=["a"]), self.epoch(3))
        self.assert_stored(self.epoch(3))
        self.assertEqual(check_map(self.a), [])

    def test_other_servers(self) -> None:
        """The map says something new: so it has an epoch that no copy has."""
        self.publish_without_a(self.epoch(3, a="127.0.0.1:1"))
        self.assertEqual(init_map(self.a, self.all, replace=["a"]), self.epoch(4))
        self.assert_stored(self.epoch(4))

    def test_in_another_order(self) -> None:
        for names in ("acb", "ab"):
            with self.refused(
                "^there is no cluster map on ensemble a, and the copy of it on ensemble b .*placement"
            ):
                init_map(self.a, {name: self.all[name] for name in names}, replace=["a"])

    def test_a_crash(self) -> None:
        """What was begun is finished by the same command, though it has another epoch than the copies."""
        self.publish_without_a(self.epoch(3, a="127.0.0.1:1"))
        with (
            mock.patch("parkazoo.admin.make._publish", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            init_map(self.a, self.all, replace=["a"])
        self.assertIsNone(self.plain[0].exists(MAP))
        with self.refused("--replace a$"):
            init_map(self.a, self.all)
        self.assertEqual(init_map(self.a, self.all, replace=["a"]), self.epoch(4))
        self.assert_stored(self.epoch(4))

    def publish_without_a(self, changed: ClusterMap) -> None:
        self.write(b=changed, c=changed)


class CheckTest(CopiesCase):
    def assert_found(self, name: str, problem: str, remedy: str, is_warning: bool = False) -> None:
        (finding,) = check_map(self.a)
        self.assertEqual((finding.ensemble, finding.is_warning), (name, is_warning), finding)
        self.assertRegex(finding.problem, problem)
        self.assertRegex(finding.remedy, remedy)
        self.assertEqual(read_status(self.a).findings, [finding])

    def test_missing(self) -> None:
        self.write(b=None)
        self.assert_found(
            "b", "^its copy of the map: it is missing$", "`parkazoo map init` again", is_warning=True
        )
        status, out, _ = run_command("map", "check", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertRegex(out, "warnings: the cluster serves")

    def test_older(self) -> None:
        self.publish(self.epoch(2))
        self.write(c=self.map)
        self.assert_found("c", "it is map 1, older than 2$", "`parkazoo map init` again", is_warning=True)

    def test_wrong(self) -> None:
        other = dataclasses.replace(self.map, cluster="other")
        for found, problem in (
            (b"{", "its copy of the map is wrong: it is damaged"),
            (other, "its copy of the map is wrong: it is of cluster other$"),
            (self.epoch(1, c="h:1"), "its copy of the map is wrong: it is map 1 too, and says something else$"),
        ):
            self.write(b=found)
            self.assert_found("b", problem, f"delete {MAP} on ensemble b .* `parkazoo map init` again")

    def test_the_primary_has_gone_back(self) -> None:
        self.write(b=self.epoch(2))
        primary, behind = check_map(self.a)
        self.assertEqual((primary.ensemble, primary.is_warning), ("a", False))
        self.assertRegex(primary.problem, "not the newest of its cluster: it is map 1, older than 2$")
        self.assertEqual((behind.ensemble, behind.is_warning), ("c", True))

    def test_an_emptied_ensemble_has_one_finding(self) -> None:
        wipe(self.plain[1])
        self.assert_found("b", f"^{ENSEMBLE} and .* it has lost its data", "--replace b")

    def test_closed_copy(self) -> None:
        self.plain[1].set_acls(MAP, CREATOR_ALL_ACL)
        assert_found(self, self.a, ("b", f"^cannot be read: no right to use {MAP} on ensemble b", False))
        self.assertEqual(check_map(self.a, auth=[IDENTITY]), [])

    def test_newer_addresses_are_asked(self) -> None:
        """The map that was read first is not the newest: what the newest names is what is checked."""
        self.publish(self.epoch(2))
        self.write(a=self.epoch(3, c="127.0.0.1:1"))
        problems = {finding.ensemble: finding.problem for finding in check_map(self.a)}
        self.assertRegex(problems["c"], "cannot be reached: 127.0.0.1:1")

    def test_fsck_knows_copies(self) -> None:
        self.assertNotIn(MAP, run_command("fsck", "--hosts", self.a)[1])
        self.plain[1].create(f"{MAP}/below")
        self.assertIn(f"b  {MAP}/below", run_command("fsck", "--hosts", self.a)[1])
