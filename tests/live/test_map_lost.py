"""Ensembles that have lost their data: told, refused, replaced."""

from __future__ import annotations

import contextlib
import re

from kazoo.security import CREATOR_ALL_ACL

from parkazoo import ParKazooClient
from parkazoo.admin import Loss, abort_growth, change_hosts, grow_map, init_map, read_map
from parkazoo.admin.contents import DRAFT
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, no_map_error
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import ENSEMBLE, FENCES, MAP, MIRRORS, Placement
from tests.live.copies_case import rise_to
from tests.live.map_case import MapCase, check_but_strangers, run_command, wipe
from tests.where_is import where_is


class LostTest(MapCase):
    """An ensemble that was part of a cluster has been emptied: as new machines behind its old name."""

    def setUp(self) -> None:
        super().setUp()
        self.made = init_map(self.a, self.all)
        self.placement = Placement(3)
        paths = [f"/{number}" for number in range(12)]
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            for path in paths:
                client.create(f"{path}/child", makepath=True)
            client.stop()
        self.mirrored = sorted(path for path in paths if not self.placement.is_native(path))
        self.told: list[Loss] = []

    def replace(self, *names: str) -> ClusterMap:
        return init_map(self.a, self.all, replace=names, tell=self.told.append)

    def loss(self, name: str) -> Loss:
        index = "abc".index(name)
        childless = [path for path in self.mirrored if self.placement.of_children(path) == index]
        homeless = [path for path in self.mirrored if self.placement.of(path) == index]
        self.assertTrue(childless or homeless)
        return Loss((name,), tuple(childless), tuple(homeless), 0)

    def lose(self, name: str) -> Loss:
        wipe(self.plain["abc".index(name)])
        return self.loss(name)

    def test_clients_of_the_others(self) -> None:
        """They start, and what needs it fails; one that begins there has no map."""
        loss = self.lose("b")
        with contextlib.closing(ParKazooClient(f"{self.a},{self.c}")) as client:
            client.start(30)
            for number in range(12):
                path = f"/{number}"
                if path in loss.childless:
                    with self.assertRaisesRegex(ClusterMapError, "not ensemble b .*they have lost their data"):
                        client.get_children(path)
                elif path not in loss.homeless:
                    self.assertEqual(client.get_children(path), ["child"])
            self.assertTrue(client.connected)
            client.stop()
        with (
            contextlib.closing(ParKazooClient(self.b)) as client,
            self.assertRaisesRegex(ClusterMapError, "no cluster map at .* it has lost its data"),
        ):
            client.start(30)

    def test_refused_until_it_is_given_up(self) -> None:
        loss = self.lose("b")
        paths = ", ".join(loss.childless)
        count = len(loss.childless)
        with self.refused(
            rf"^the data of this cluster on ensemble b \({self.b}\) is lost: the children of {count} "
            rf"director(y|ies) \({paths}\).* Bring back .* --replace b$"
        ):
            init_map(self.a, self.all)
        with self.refused("--replace b$"):
            self.replace("c")
        with self.refused("no ensemble of the map is called 'x': there are a, b, c"):
            self.replace("x", "b")
        self.assertEqual(self.told, [])
        self.assertEqual(self.replace("b"), self.made)
        self.assertEqual(self.told, [loss])
        self.assertEqual(check_but_strangers(self.a), [])
        self.assertEqual(self.replace("b"), self.made)  # again: there is nothing to give up
        self.assertEqual(self.told, [loss])

    def replace_on_the_way(self, form: Form, name: str) -> None:
        """It holds the growth up, which goes on when it is replaced."""
        rising = rise_to(self.a, form)
        loss = self.lose(name)
        with self.refused(f"--replace {name}$"):
            init_map(self.a, self.all)
        self.assertEqual(self.replace(name), rising)
        self.assertEqual(self.told, [loss])
        self.assertEqual(check_but_strangers(self.a), [])
        self.assertIs(grow_map(self.a, {}, yes=True, strangers_gone=True).form, Form.GROWN)
        self.assertEqual(check_but_strangers(self.a), [])

    def test_while_tolerant(self) -> None:
        self.replace_on_the_way(Form.TOLERANT, "b")

    def test_while_guarded(self) -> None:
        self.replace_on_the_way(Form.GUARDED, "c")

    def test_bootstrap_while_guarded(self) -> None:
        self.replace_on_the_way(Form.GUARDED, "a")

    def test_pins_of_a_guarded_client(self) -> None:
        """Of directories that are below their homes: they are where such a client leaves them."""
        rising = rise_to(self.a, Form.GUARDED)
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            for number in range(8):
                client.create(f"/new{number}/child", makepath=True)
            client.stop()
        self.lose("a")
        with self.refused("--replace a$"):
            init_map(self.a, self.all)
        self.assertEqual(self.replace("a"), rising)
        self.assertIs(grow_map(self.a, {}, yes=True, strangers_gone=True).form, Form.GROWN)
        self.assertEqual(check_but_strangers(self.a), [])

    def test_bootstrap_while_tolerant(self) -> None:
        """What is lost may have been guarded: the copies are brought up before the next form is published."""
        rising = rise_to(self.a, Form.TOLERANT)
        self.lose("a")
        self.assertEqual(self.replace("a"), rising.with_form(Form.GUARDED))
        self.assertEqual(check_but_strangers(self.a), [])
        with self.refused("nothing to abort"):
            abort_growth(self.a)

    def test_top_level(self) -> None:
        """The ensemble of / is lost: so are the directories in it, whose children others have."""
        name = "abc"[self.placement.of_children("/")]
        loss = self.lose(name)
        self.assertEqual(loss.homeless, tuple(self.mirrored))
        self.assertEqual(self.replace(name), self.made)
        self.assertEqual(self.told, [loss])

    def test_bootstrap(self) -> None:
        """It has lost the map: made again, from the same arguments, it is the same cluster."""
        loss = self.lose("a")
        with self.refused(
            f"^no cluster map at {MAP} on ensemble a .*, which is the bootstrap ensemble of cluster "
            f"{self.made.cluster}, says the copy of its map on b and c: the data of this cluster on"
        ):
            init_map(self.a, self.all)
        for client in self.plain[1:]:  # as in a cluster that was made without copies
            client.delete(MAP)
        for replaced in ((), ("b",)):
            with self.refused(
                rf"^no cluster map at {MAP} on ensemble a .*, but ensemble b, c are of cluster "
                rf"{self.made.cluster}\. If a was not its bootstrap ensemble, give that one as --bootstrap\. "
                rf"If it was, the data of this cluster on ensemble a \({self.a}\) is lost: "
                rf"{re.escape(str(loss))}\. Bring back the old servers or a backup, or give up what was there "
                "with --replace a$"
            ):
                self.replace(*replaced)
        for names in ("acb", "bac", "cba"):
            for replaced in ((), ("a",)):
                with self.refused("out of reach.*in their old order$"):
                    init_map(
                        self.a,
                        {name: self.all[name] for name in names},
                        replace=replaced,
                        tell=self.told.append,
                    )
        self.assertEqual(self.told, [])
        with self.refused("no ensemble of the map"):
            init_map(self.a, self.all, replace=["bootstrap"])
        self.assertEqual(self.replace("a"), self.made)
        self.assertEqual(self.told, [loss])
        self.assertEqual(read_map(self.a), self.made)

    def test_an_ensemble_is_not_given(self) -> None:
        """The map and its copies are lost: the pins name the ensemble, even if all else would fit."""
        for client in self.plain:
            client.delete(MAP)
        names = {name: [path for path in self.mirrored if self.holder(path) == name] for name in "abc"}
        self.assertTrue(names["c"])
        for given in ("ab", "ba", "a"):
            fewer = {name: self.all[name] for name in given}
            for replaced in ((), ("a",)):
                with self.refused(
                    rf"^cluster {self.made.cluster} has ensembles that are not given: .*on ensemble c are the "
                    rf"children of {names['c'][0]}.* give all its ensembles, .*c too, by their old names and in "
                    "their old order"
                ):
                    init_map(self.a, fewer, replace=replaced, tell=self.told.append)
        self.assertEqual(self.told, [])
        self.assertEqual([client.exists(MAP) or client.exists(DRAFT) for client in self.plain], [None] * 3)
        self.assertEqual(self.replace("a"), self.made)
        self.assertEqual(check_but_strangers(self.a), [])

    def holder(self, path: str) -> str:
        return "abc"[self.placement.of_children(path)]

    def test_bootstrap_and_a_mark(self) -> None:
        """Of an ensemble with mirrors the mark is lost too: no message says to delete the mirrors."""
        self.lose("a")
        self.plain[1].delete(ENSEMBLE)
        for replaced in ((), ("a", "b")):
            with self.refused(
                f"ensemble b .* has znodes below {MIRRORS}, but no {ENSEMBLE}: .* make that znode again"
            ):
                self.replace(*replaced)

    def test_only_the_map(self) -> None:
        self.plain[0].delete(MAP)
        with self.refused("no cluster map .* the copy of its map on b and c: .* is lost: nothing that the other"):
            init_map(self.a, self.all)
        with self.refused("these servers are ensemble a .*If none has the map, it is lost"):
            read_map(self.a)
        self.assertEqual(self.replace("a"), self.made)
        self.assertEqual(self.told, [Loss(("a",), (), (), 0)])

    def test_only_the_identity(self) -> None:
        self.plain[1].delete(ENSEMBLE)
        with self.refused("ensemble b .* is lost: nothing that the other ensembles know of.*--replace b$"):
            init_map(self.a, self.all)
        self.assertEqual(self.replace("b"), self.made)

    def test_only_the_mirrors(self) -> None:
        self.plain[1].delete(MIRRORS, recursive=True)
        with self.refused("ensemble b .* is lost: the children of .*--replace b$"):
            init_map(self.a, self.all)
        with self.refused(f"has lost {MIRRORS} but not {FENCES}: .* delete {FENCES}"):
            self.replace("b")
        self.plain[1].delete(FENCES, recursive=True)
        self.assertEqual(self.replace("b"), self.made)
        self.assertEqual([loss.childless for loss in self.told], [self.loss("b").childless])

    def test_two(self) -> None:
        self.lose("b")
        self.lose("c")
        with self.refused("ensemble b .* and ensemble c .*--replace b --replace c$"):
            init_map(self.a, self.all)
        with self.refused("--replace c$"):
            self.replace("b")
        self.assertEqual(self.replace("c", "b"), self.made)
        self.assertEqual([loss.ensembles for loss in self.told], [("b", "c")])

    def test_what_may_not_be_read(self) -> None:
        home = where_is(self.placement, "/secret").home
        self.plain[home.ensemble].create(home.path, acl=CREATOR_ALL_ACL)
        lost = next(name for name in "bc" if "abc".index(name) != home.ensemble)
        self.lose(lost)
        self.replace(lost)
        self.assertEqual([loss.hidden for loss in self.told], [1])
        self.assertIn("1 znodes could not be looked at", str(self.told[0]))

    def test_never_finished(self) -> None:
        """A draft, and marks without a map: that is a crash of the first time, and nothing is lost."""
        for client in self.plain:
            wipe(client)
        self.plain[0].create(DRAFT, self.made.to_json(), makepath=True)
        self.assertEqual(init_map(self.a, self.all), self.made)

    def test_command(self) -> None:
        loss = self.lose("b")
        init = ("map", "init", "--bootstrap", self.a, *(f"--ensemble={n}={h}" for n, h in self.all.items()))
        status, out, err = run_command(*init)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(
            err, f"^error: the data .* on ensemble b .* is lost: .*{loss.childless[0]}.*--replace b\n$"
        )
        status, out, err = run_command(*init, "--replace", "b")
        self.assertEqual((status, err), (0, ""))
        self.assertIn(f"lost with b: {loss}\n", out)
        status, out, err = run_command(*init, "--replace", "b")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("--replace b: no loss was found there, so nothing was given up\n", out)
        self.assertNotIn("lost with", out)
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 0)

    def test_commands_with_the_bootstrap_ensemble_emptied(self) -> None:
        """They cannot know what was there; they say that something may have been, and how to learn it."""
        loss = self.lose("a")
        for command in (("map", "check"), ("map", "show"), ("where", "/x"), ("fsck",), ("fsck", "--repair")):
            with self.subTest(command):
                status, out, err = run_command(*command, "--hosts", self.a)
                self.assertEqual((status, out, err), (1, "", f"error: {no_map_error(self.a, None)}\n"))
                self.assertRegex(err, "none has been made, or .* lost its data. `parkazoo map init` .* finds out")
        init = ("map", "init", "--bootstrap", self.a, *(f"--ensemble={n}={h}" for n, h in self.all.items()))
        status, out, err = run_command(*init)
        self.assertEqual((status, out), (1, ""))
        self.assertIn(str(loss), err)
        self.assertNotIn("delete", err)


class GoneTest(MapCase):
    """The machines of an ensemble are gone. Others cannot take its place before they have its addresses."""

    def test_new_machines(self) -> None:
        init_map(self.a, {"a": self.a, "b": self.b})
        for replace in ((), ("b",)):
            with self.refused(
                "its ensemble b is .* `parkazoo map hosts` changes .* its old addresses, .* --replace"
            ):
                init_map(self.a, {"a": self.a, "b": self.c}, replace=replace)
        with self.refused("or has lost its data: .* its old addresses, .* `parkazoo map init` .* --replace b$"):
            change_hosts(self.a, {"b": self.c})

    def test_a_strange_server(self) -> None:
        """Which the map did not name that is lost."""
        init_map(self.a, {"a": self.a, "b": self.b})
        self.plain[0].delete(MAP)
        for given in ({"a": f"{self.a},{self.c}", "b": self.b}, {"a": self.a, "b": f"{self.b},{self.c}"}):
            with self.refused("is not in one ensemble with the other servers of"):
                init_map(self.a, given, replace=["a", "b"])  # it may be the stranger that is asked what it has
