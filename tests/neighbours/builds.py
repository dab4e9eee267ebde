"""How each program is built, and the command that runs it."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jgo
from jgo.maven import MavenContext

from parkazoo.local import find_java, find_zookeeper
from tests.neighbours.neighbour_case import BUILT, HERE, Tool

JARS = "org.apache.curator:curator-recipes:5.9.0+org.apache.zookeeper:zookeeper:3.9.5"
KAFKA_VERSION = "3.8.1"
OWN_TESTS = ("org.apache.zookeeper", "zookeeper", "3.9.5", "tests")
RUN_BY = (
    ("org.junit.platform", "junit-platform-console-standalone", "1.12.2", ""),
    ("org.hamcrest", "hamcrest", "2.2", ""),
)
SHELL_NEEDS = "commons-cli:commons-cli:1.5.0"  # besides what servers need
JAVA = "11"  # with which the servers run too
JDK = "install a JDK 11 or later, for example Debian's package default-jdk-headless"
CARGO = "install Rust 1.85 or later, for example Debian 13's package cargo"
NODE = "install Node 18 or later with npm, for example Debian's packages nodejs and npm"
C = "install a C compiler and ZooKeeper's C client, for example Debian's packages gcc and libzookeeper-mt-dev"
GO = "install Go 1.21 or later, for example Debian's package golang-go"
GO_FOLDERS = ["/usr/local/go/bin"]
ZK_IN_GO = "github.com/go-zookeeper/zk"


@cache
def c_program() -> list[str]:
    program = BUILT / "c-neighbour"
    BUILT.mkdir(parents=True, exist_ok=True)
    compiler = Tool("cc", C)
    compiler.run(
        "-Wall", "-Werror", "-o", program, "neighbour.c", "-lzookeeper_mt", "-lpthread", folder=HERE / "c"
    )
    return [str(program)]


@cache
def go_program() -> list[str]:
    program = BUILT / "go" / "neighbour"
    Tool("go", GO, GO_FOLDERS).run("build", "-mod=readonly", "-o", program, ".", folder=HERE / "go")
    return [str(program)]


@cache
def go_tests() -> list[str]:
    """go-zookeeper's own tests, which start their servers by what is in the folder of `server_script`.

    They wait for servers by a word whose answer they cannot read, of ZooKeeper 3.9 either; here by ruok.
    """
    go, folder = Tool("go", GO, GO_FOLDERS), BUILT / "go-tests"
    found = json.loads(go.run("mod", "download", "-json", ZK_IN_GO, folder=HERE / "go"))
    folder.mkdir(parents=True, exist_ok=True)
    for file in Path(found["Dir"]).glob("[!.]*.*"):
        (folder / file.name).write_text(file.read_text())
    helper = folder / "server_help_test.go"
    before, waits, after = helper.read_text().partition("_, ok := FLWSrvr(serverAddrs, time.Second)")
    assert waits, f"{helper} does not wait for servers as it did"
    ruok = 'ok := !strings.Contains(fmt.Sprint(FLWRuok(serverAddrs, time.Second)), "false")'
    helper.write_text(f"{before}{ruok}{after}")
    program = BUILT / "go-zookeeper.test"
    go.run("test", "-c", "-o", program, ".", folder=folder)
    return [str(program)]


def server_script(name: str) -> Path:
    """The folder with a script of that name, which runs a gateway in the place of a server."""
    script = BUILT / "bin" / name
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.neighbours.as_server "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script.parent


@cache
def java_program() -> list[str]:
    classes = BUILT / "java"
    jars = ":".join(jars_of(JARS))
    sources = sorted((HERE / "java").glob("*.java"))
    java = find_java()
    javac = Tool("javac", JDK, [str(java.resolve().parent)])
    javac.run("--release", JAVA, "-d", classes, "-cp", jars, *sources, folder=HERE)
    return [str(java), "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}", "Neighbour"]


@cache
def own_tests_command() -> list[str]:
    """What runs classes of ZooKeeper's own tests, with ``java_own/`` before them."""
    classes = BUILT / "java_own"
    shutil.copytree(HERE / "java_own", classes, dirs_exist_ok=True)
    jars = [*map(str, find_zookeeper()), *jars_of(SHELL_NEEDS), *map(jar_of, (OWN_TESTS, *RUN_BY))]
    java = find_java()
    javac = Tool("javac", JDK, [str(java.resolve().parent)])
    sources = sorted(classes.glob("org/**/*.java"))
    javac.run("--release", JAVA, "-d", classes, "-cp", ":".join(jars), *sources, folder=classes)
    path = ":".join([str(classes), *jars])
    properties = {
        "junit.jupiter.extensions.autodetection.enabled": "true",
        "logback.configurationFile": silent_logging(),
        "zookeeper.serverCnxnFactory": "org.apache.zookeeper.test.DoorFactory",
    }
    defined = [f"-D{name}={value}" for name, value in properties.items()]
    return [str(java), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *defined, "-cp", path]


def jar_of(coordinates: Sequence[str]) -> str:
    """One jar without what it needs.

    :param coordinates: group, artifact, version, classifier.
    """
    group, name, version, classifier = coordinates
    artifact = MavenContext().project(group, name).at_version(version).artifact(classifier=classifier)
    return str(artifact.resolve())


def jars_of(coordinates: str) -> list[str]:
    return [str(artifact.resolve()) for artifact in jgo.resolve(coordinates)]


@cache
def zkcli_program() -> list[str]:
    jars = ":".join([*map(str, find_zookeeper()), *jars_of(SHELL_NEEDS)])
    shell = [
        str(find_java()),
        "-XX:TieredStopAtLevel=1",
        f"-Dlogback.configurationFile={silent_logging()}",
        "-cp",
        jars,
    ]
    shell += ["org.apache.zookeeper.ZooKeeperMain"]
    return [sys.executable, "-m", "tests.neighbours.zkcli", *shell]


def silent_logging() -> Path:
    """A configuration with which ZooKeeper's client does not say every packet."""
    BUILT.mkdir(parents=True, exist_ok=True)
    file = BUILT / "logback.xml"
    file.write_text("<configuration/>\n")
    return file


@cache
def kafka_command() -> list[str]:
    """What runs a class of Kafka's. Of its tools, those that need nothing that a broker does not."""
    tools = jar_of(("org.apache.kafka", "kafka-tools", KAFKA_VERSION, ""))
    jars = [tools, *jars_of(f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}")]
    return [str(find_java()), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(jars)]


@cache
def node_program() -> list[str]:
    folder = BUILT / "node"
    shutil.copytree(HERE / "node", folder, dirs_exist_ok=True)
    Tool("npm", NODE).run("ci", "--ignore-scripts", "--no-audit", "--no-fund", folder=folder)
    return [Tool("node", NODE).path, str(folder / "neighbour.js")]


@cache
def rust_program() -> list[str]:
    target = BUILT / "rust"
    Tool("cargo", CARGO, ["~/.cargo/bin"]).run("build", "--locked", "--target-dir", target, folder=HERE / "rust")
    return [str(target / "debug" / "neighbour")]
