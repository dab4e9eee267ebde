"""`parkazoo export` and `parkazoo import` on real ensembles: what arrives, what is refused, what is continued."""

from __future__ import annotations

import io
import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.admin.transfer.export_file import ExportWriter, Header, Record
from parkazoo.admin.transfer.export_tree import export_tree
from parkazoo.admin.transfer.import_tree import import_tree
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import MAP, MIRRORS, ROOT
from tests.handlers import make_handler
from tests.live.map_case import FEW_FENCES, IDENTITY, MapCase, dump, run_command, wipe
from tests.live.world import DEADLINE_S, LiveTest

AUTH = (f"--auth={':'.join(IDENTITY)}", f"--timeout={DEADLINE_S:g}")
OPTIONS: dict[str, Any] = {"auth": [IDENTITY], "timeout_s": DEADLINE_S}
COUNTED = ("", "/queue", "/worn")  # directories whose next number is looked at
LONGEST_S = 60.0  # of a session: no ephemeral goes because the machine is slow
OURS = make_digest_acl(*IDENTITY[1].split(":"), all=True)
MANY = 300  # more than between two calls of `progress`


class InterruptionError(Exception):
    """The test's."""


def fill(client: Any, root: str, many: int = 20) -> None:
    """Makes znodes of every kind that a file carries."""
    for path in ("queue", "e m%2F/x", "\u00fc/y/z", "\u00fc.b", "many"):
        client.create(f"{root}/{path}", path.encode()[-3:], makepath=True)
    made = [client.create_async(f"{root}/many/{number:03}", b"%03d" % number) for number in range(many)]
    for each in made:
        each.get(timeout=DEADLINE_S)
    for _ in range(7):
        client.create(f"{root}/queue/n-", sequence=True)
    client.delete(f"{root}/queue/n-0000000006")
    client.create(f"{root}/large", b"x" * 500_000)
    client.create(f"{root}/closed", b"secret", acl=[OURS])
    client.create(f"{root}/closed/below", acl=[OURS])
    client.create(f"{root}/worn", None)
    for _ in range(30):
        client.create(f"{root}/worn/x")
        client.delete(f"{root}/worn/x")


def next_numbers(client: Any, root: str) -> list[str]:
    return [client.create(f"{root}{path}/n-", sequence=True)[-10:] for path in COUNTED]


class ExportCase(MapCase):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "app.export"

    def has_map(self, names: str, form: str = "plain") -> ParKazooClient:
        """Makes a new cluster of these ensembles, the first the bootstrap's; a client of it."""
        hosts = {name: self.all[name] for name in names}
        init_map(hosts[names[0]], hosts, form=form)
        client = ParKazooClient(hosts[names[0]], timeout=LONGEST_S, auth_data=[IDENTITY], handler=make_handler())
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start(DEADLINE_S)
        return client

    def wipe_all(self, *clients: ParKazooClient) -> None:
        for client in clients:
            client.stop()
        for each in self.plain:
            wipe(each)

    def export(self, path: str, hosts: str, *more: str, status: int = 0) -> str:
        """Writes the file; what the command says."""
        ended, out, err = run_command("export", path, "--hosts", hosts, *AUTH, *more)
        self.assertEqual(ended, status, err)
        self.file.write_text(out)
        return err

    def digest(self, path: str, hosts: str, *more: str) -> str:
        return self.export(path, hosts, *more).partition("digest ")[2].split()[0]

    def imports(self, hosts: str, *more: str) -> str:
        status, out, err = run_command("import", str(self.file), "--hosts", hosts, *AUTH, *more)
        self.assertEqual((status, err), (0, ""))
        return out

    def dump(self) -> list[dict[str, Any]]:
        """Of each ensemble all but registrations, which come and go."""
        found = []
        for client in self.plain:
            tops = [f"/{name}" for name in client.get_children("/") if name not in ("zookeeper", ROOT[1:])]
            tops += [path for path in (MAP, MIRRORS) if client.exists(path)]
            found.append({path: dump(client, path) for path in tops})
        return found

    def import_refused(self, hosts: str, pattern: str, *more: str) -> None:
        """The command says why, and nothing is written."""
        before = self.dump()
        status, out, err = run_command("import", str(self.file), "--hosts", hosts, *AUTH, *more)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, f"^error: .*{pattern}")
        self.assertEqual(self.dump(), before)


class CopyTest(ExportCase):
    def test_cluster_to_cluster(self) -> None:
        """A plain map's tree arrives on a grown map, and a grown map's on a plain one of other ensembles."""
        for form, names, other_form, other_names in (
            ("plain", "abc", "grown", "ba"),
            ("grown", "abc", "plain", "cb"),
        ):
            with self.subTest(form):
                source = self.has_map(names, form)
                fill(source, "/app/of us")
                source.create("/app/of us/queue/ephemeral", ephemeral=True)
                said = self.export("/app/of us", self.all[names[0]])
                digest = said.partition("digest ")[2].split()[0]
                self.assertRegex(said, r"^39 znodes, 500,\d+ bytes, digest .*\nephemerals left out: 1\n$")
                numbers = next_numbers(source, "/app/of us")
                self.wipe_all(source)

                target = self.has_map(other_names, other_form)
                hosts = self.all[other_names[0]]
                self.assertIn("39 znodes to create, 0 there", self.imports(hosts, "--dry-run"))
                self.assertIsNone(target.exists("/app"))
                self.assertRegex(
                    self.imports(hosts),
                    r"39 znodes created, 0 there and equal\n[0-9]+ counters raised; read back: digest " + digest,
                )
                self.assertIn("0 znodes created, 39 there and equal\n0 counters", self.imports(hosts))
                self.assertEqual(target.get_acls("/app/of us/closed/below")[0], [OURS])
                self.assertEqual(target.get("/app/of us/worn")[0], None)
                self.assertEqual(self.digest("/app/of us", hosts), digest)
                self.assertEqual(next_numbers(target, "/app/of us"), numbers)
                self.wipe_all(target)

    def test_zookeeper_to_cluster(self) -> None:
        zk, target = self.plain[2], self.has_map("ab", "grown")
        fill(zk, "/app")
        zk.create("/app/.parkazoo", b"a name that ParKazoo reserves")
        said = self.export("/app", self.c, "--plain", status=1)
        self.assertIn("/app/.parkazoo: its name is reserved for ParKazoo", said)
        self.import_refused(self.a, "is not complete: /app/.parkazoo could not be read")
        zk.delete("/app/.parkazoo")
        digest = self.digest("/app", self.c, "--plain")
        self.imports(self.a)
        self.assertEqual(self.digest("/app", self.a), digest)
        self.assertEqual(next_numbers(target, "/app"), next_numbers(zk, "/app"))

    def test_the_wrong_kind_of_system(self) -> None:
        self.has_map("a")
        for path, options, about in (
            ("/x", ("--plain", f"--hosts={self.a}"), "is an ensemble of ParKazoo: leave --plain out"),
            ("/x", (f"--hosts={self.b}",), "no cluster map"),
            ("/x", (f"--hosts={self.a}",), "there is no znode /x of yours"),
            ("/parkazoo", (f"--hosts={self.a}",), "is no znode of yours"),
            ("/zookeeper", (f"--hosts={self.a}",), "there is no znode /zookeeper of yours"),
        ):
            status, out, err = run_command("export", path, *options, *AUTH)
            self.assertIn(status, (1, 2))
            self.assertEqual(out, "")
            self.assertIn(about, err)

    def test_without_rights(self) -> None:
        fill(self.has_map("ab"), "/app")
        status, out, err = run_command("export", "/app", "--hosts", self.a, AUTH[1])
        self.assertEqual(status, 1)
        self.assertIn("/app/closed: ", err)
        self.assertIn("1 could not be read: import refuses this file", err)
        self.file.write_text(out)
        self.import_refused(self.a, "is not complete: /app/closed could not be read")
        self.file.write_text("".join(out.splitlines(keepends=True)[:-2]))
        status, _, err = run_command("export", "/app", "--hosts", self.a, "--resume", str(self.file), AUTH[1])
        self.assertEqual(status, 1)
        self.assertIn("1 could not be read", err)

    def test_chroots(self) -> None:
        """A copy below another chroot, which does not exist; the root of both is "/"."""
        client = self.has_map("ab")
        fill(client, "/app")
        client.set("/app", b"the root's data")
        client.set_acls("/app", [OURS])
        digest = self.digest("/", f"{self.a}/app")
        numbers = next_numbers(client, "/app")
        target = f"{self.a}/deep/copy"
        self.assertIn("39 znodes created", self.imports(target))
        self.assertEqual(client.get_acls("/deep")[0], OPEN_ACL_UNSAFE)
        self.assertEqual(client.get_acls("/deep/copy")[0], [OURS])
        self.assertEqual(client.get("/deep/copy")[0], b"the root's data")
        self.assertEqual(self.digest("/", target), digest)
        self.assertEqual(next_numbers(client, "/deep/copy"), numbers)
        self.assertRegex(self.export("/app/queue", self.a), "^8 znodes")
        self.assertIn("8 znodes created", self.imports(f"{self.a}/deep/other"))
        self.assertEqual(len(client.get_children("/deep/other/app/queue")), 7)

    def test_the_whole_tree(self) -> None:
        """The root is the tree's; what belongs to ZooKeeper and ParKazoo stays."""
        source = self.has_map("abc", "grown")
        fill(source, "/app")
        source.create("/other/x", makepath=True)
        digest = self.digest("/", self.a)
        self.wipe_all(source)
        target = self.has_map("cb")
        self.assertIn("41 znodes created, 1 there and equal", self.imports(self.c))
        self.assertEqual(self.digest("/", self.c), digest)
        self.assertEqual(sorted(target.get_children("/")), ["app", "other", "zookeeper"])
        self.wipe_all(target)
        self.plain[0].ensure_path("/app/x")
        said = self.export("/", self.a, "--plain")
        self.assertRegex(said, "^3 znodes")

    def test_what_has_changed_since(self) -> None:
        client = self.has_map("ab")
        fill(client, "/app")
        self.export("/app", self.a)
        since = ("export", "/app", "--hosts", self.a, "--changes", str(self.file), *AUTH)
        self.assertEqual(run_command(*since), (0, "", ""))
        client.set("/app/many/007", b"new")
        client.create("/app/many/007/child")
        client.delete("/app/\u00fc/y/z")
        status, out, err = run_command(*since)
        expected = [
            ["data and counter", "/app/many/007"],
            ["new", "/app/many/007/child"],
            ["gone", "/app/\u00fc/y/z"],
        ]
        self.assertEqual((status, [line.rsplit(None, 1) for line in out.splitlines()], err), (1, expected, ""))

    def test_what_differs(self) -> None:
        client = self.has_map("ab")
        fill(client, "/app")
        self.export("/app", self.a)
        client.set("/app/many/007", b"theirs")
        self.import_refused(self.a, r"1 znodes exist and differ, the first is /app/many/007 \(data\)")
        self.assertIn("1 overwritten", self.imports(self.a, "--overwrite"))
        self.assertEqual(client.get("/app/many/007")[0], b"007")


class ContinuedTest(ExportCase):
    def test_an_export(self) -> None:
        client = self.has_map("ab", "grown")
        fill(client, "/app", MANY)
        client.create("/app/closed/ephemeral", ephemeral=True)
        whole: list[bytes] = []
        export_tree(self.a, "/app", whole.append, **OPTIONS)
        lines = itertools.count()

        def write_some(line: bytes) -> None:
            if next(lines) == MANY // 2:
                cut.write(line[:-5])
                raise InterruptionError
            cut.write(line)

        with self.file.open("wb") as cut, self.assertRaises(InterruptionError):
            export_tree(self.a, "/app", write_some, **OPTIONS)
        self.import_refused(self.a, "was cut off behind /app/many/")
        resume = ("--hosts", self.a, "--resume", str(self.file), *AUTH)
        status, out, err = run_command("export", "/app", *resume)
        self.assertEqual((status, out), (0, ""), err)
        self.assertIn("ephemerals left out: 1", err)
        self.assertEqual(self.file.read_bytes().splitlines()[1:-1], b"".join(whole).splitlines()[1:-1])
        for path, about in (("/app", "is whole: there is nothing to continue"), ("/", "of /app, not of /")):
            if path == "/":
                self.file.write_bytes(b"".join(whole[:9]))
            status, _, err = run_command("export", path, *resume)
            self.assertEqual(status, 1)
            self.assertIn(about, err)

    def test_an_import(self) -> None:
        source = self.has_map("ab")
        fill(source, "/app", MANY)
        digest = self.digest("/app", self.a)
        self.wipe_all(source)
        target = self.has_map("bc", "grown")

        def interrupt(step: str, count: int, path: str) -> None:
            if step == "writing" and count:
                raise InterruptionError

        with self.file.open("rb") as file, self.assertRaises(InterruptionError):
            import_tree(self.b, file, progress=interrupt, **OPTIONS)
        self.assertIsNone(target.exists(f"/app/many/{MANY - 1}"))
        self.imports(self.b)
        self.assertEqual(self.digest("/app", self.b), digest)


class HostileFileTest(ExportCase):
    def test_refused_before_anything_is_written(self) -> None:
        client = self.has_map("ab")
        fill(client, "/app")
        self.export("/app", self.a)
        good = self.file.read_bytes()
        client.delete("/app", recursive=True)
        lines = good.splitlines(keepends=True)
        for content, about in (
            (good[: len(good) // 2], "was cut off"),
            (b"".join(lines[:-1]), "was cut off"),
            (good.replace(b'"path":"/app/queue"', b'"path":"/app/queuf"', 1), "was changed or damaged"),
            (b"".join(lines[:5] + lines[6:]), "was changed or damaged"),
            (good + lines[-1], "goes on behind its footer"),
            (
                good.replace(b'"parkazoo-export":1', b'"parkazoo-export":2', 1),
                "has format 2; this version reads 1",
            ),
            (b"", "is no export of ParKazoo"),
            (bytes(1000), "is no export of ParKazoo"),
            (b'{"znodes": []}\n', "is no export of ParKazoo"),
        ):
            self.file.write_bytes(content)
            self.import_refused(self.a, about)

    def test_a_path_outside(self) -> None:
        """Digests are right: somebody made the file so."""
        self.has_map("ab")
        for paths, about in (
            (("/app", "/other"), "was changed or damaged in line 3"),
            (("/app", "/app/../other"), "was changed or damaged in line 3"),
            (("/parkazoo", "/parkazoo/map"), "/parkazoo is reserved: nothing was written"),
            (("/parkazoo/mirrors/x",), "is reserved: nothing was written"),
            (("/app", "/app/.parkazoo"), "/app/.parkazoo is reserved: nothing was written"),
            (("/zookeeper/config",), "is reserved: nothing was written"),
        ):
            writer = ExportWriter()
            made = [writer.header(Header(paths[0], None, "", {}))]
            made += [writer.entry(Record(path, b"", (OURS,))) for path in paths]
            self.file.write_bytes(b"".join([*made, writer.footer("", {})]))
            self.import_refused(self.a, about, "--overwrite")


class KilledTest(LiveTest):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=2, servers=1, make_map=False)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        with mock.patch("parkazoo.admin.contents.FENCE_COUNT", FEW_FENCES):
            init_map(cls.cluster.hosts, {each.name: each.hosts for each in cls.cluster.ensembles}, form="grown")

    @contextmanager
    def killing(self, name: str) -> Iterator[Callable[[int, str], None]]:
        """Gives a progress that kills an ensemble's server at its second call, and starts it again.

        The other ensemble stays.
        """
        server = self.cluster.ensembles["ab".index(name)].servers[0]
        before = server.pid
        calls = itertools.count()

        def kill(count: int, path: str) -> None:
            if next(calls) == 1:
                server.kill()
                server.start()

        yield kill
        self.assertNotEqual(server.pid, before)
        self.cluster.start(name)  # waits until it serves

    def test_a_server_is_killed_meanwhile(self) -> None:
        hosts = self.cluster.hosts
        fill(self.parkazoo(auth_data=[IDENTITY]), "/app", 2 * MANY)
        with tempfile.TemporaryDirectory() as folder, (Path(folder) / "app.export").open("w+b") as whole:
            expected = export_tree(hosts, "/app", whole.write, **OPTIONS)
            with self.killing("b") as kill:
                found = export_tree(hosts, "/app", io.BytesIO().write, progress=kill, **OPTIONS)
            self.assertEqual((found.content, found.unread), (expected.content, []))
            for step, name in (("writing", "b"), ("reading back", "a")):
                with self.killing(name) as kill:

                    def kill_in_step(
                        now: str, *about: Any, step: str = step, kill: Callable[..., None] = kill
                    ) -> None:
                        if now == step:
                            kill(*about)

                    target = f"{hosts}/{name}"
                    imported = import_tree(target, whole, progress=kill_in_step, **OPTIONS)
                    self.assertEqual((imported.content, imported.equal), (expected.content, 0))
                again = export_tree(target, "/app", io.BytesIO().write, **OPTIONS)
                self.assertEqual(again.content, expected.content)
