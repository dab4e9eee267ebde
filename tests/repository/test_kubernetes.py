"""conf/kubernetes.yaml: names fit together, commands are those that there are; without a Kubernetes."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import os
import shlex
import subprocess
import tempfile
import unittest
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from typer.main import get_command

from bench import ROOT
from parkazoo.cli.app import make_app
from parkazoo.cli.options import parse_ensembles

MANIFEST = ROOT / "conf" / "kubernetes.yaml"
VERSIONS = (
    "1.29",
    "1.37",
)  # of Kubernetes: the first that the file needs, and a new one
HAS_SCHEMAS = importlib.util.find_spec("kubernetes_validate") is not None
OPTION = "--"


def items() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = importlib.import_module("yaml").safe_load(MANIFEST.read_text())["items"]
    return found


def validate(item: Mapping[str, Any], version: str) -> None:
    """:raises ValueError: it is not by the schema, or has a field that Kubernetes does not know."""
    schemas = importlib.import_module("kubernetes_validate")
    try:
        schemas.validate(item, version, strict=True)
    except schemas.ValidationError as error:
        raise ValueError(error.message) from error


class TestManifest(unittest.TestCase):
    def setUp(self) -> None:
        self.items = items()
        self.sets = {each["metadata"]["name"]: each["spec"] for each in self.of("StatefulSet")}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.items if each["kind"] == kind]

    def servers(self) -> Iterator[tuple[str, list[str]]]:
        """The ensembles, and the addresses of their pods."""
        for name, spec in self.sets.items():
            pods = [f"{name}-{number}.{spec['serviceName']}:2181" for number in range(spec["replicas"])]
            yield name.removeprefix("zk-"), pods

    def options(self, command: Sequence[str]) -> dict[str, Any]:
        """Of a command of `parkazoo`, as it understands them."""
        program, *arguments = command
        self.assertEqual(program, "parkazoo")
        found: Any = get_command(make_app())
        with mock.patch.dict(os.environ, {"PARKAZOO_HOSTS": "a1:2181"}):
            while not arguments[0].startswith(OPTION):
                found = found.commands[arguments.pop(0)]
            context = found.make_context(found.name, arguments)
        parameters: dict[str, Any] = context.params
        return parameters

    def test_each_ensemble_is_named_throughout(self) -> None:
        self.assertEqual([*self.sets], ["zk-a", "zk-b", "zk-c"])
        services = {each["metadata"]["name"]: each["spec"] for each in self.of("Service")}
        budgets = {each["metadata"]["name"]: each["spec"] for each in self.of("PodDisruptionBudget")}
        self.assertEqual((services.keys(), budgets.keys()), (self.sets.keys(), self.sets.keys()))
        for name, spec in self.sets.items():
            labels = {"app": "zookeeper", "ensemble": name.removeprefix("zk-")}
            pod = spec["template"]
            apart = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            self.assertEqual(spec["serviceName"], name)
            self.assertEqual(pod["metadata"]["labels"], labels)
            self.assertEqual(services[name]["selector"], labels)
            for each in (spec["selector"], budgets[name]["selector"], apart[0]["labelSelector"]):
                self.assertEqual(each, {"matchLabels": labels})
            self.assertEqual((services[name]["clusterIP"], budgets[name]["maxUnavailable"]), ("None", 1))

    def test_the_map_names_all_servers(self) -> None:
        (job,) = self.of("Job")
        options = self.options(job["spec"]["template"]["spec"]["containers"][0]["command"])
        wanted = {name: ",".join(pods) for name, pods in self.servers()}
        self.assertEqual(parse_ensembles("", options["ensemble"]), wanted)
        self.assertEqual(options["bootstrap"], wanted["a"])

    def test_the_program(self) -> None:
        (deployment,) = self.of("Deployment")
        pod = deployment["spec"]["template"]["spec"]
        (waiting,), (program,) = pod["initContainers"], pod["containers"]
        for command in (waiting["command"], program["readinessProbe"]["exec"]["command"]):
            self.assertEqual(self.options(command)["hosts"], "a1:2181")  # of the environment
        self.assertLess(
            self.options(program["readinessProbe"]["exec"]["command"])["timeout"],
            program["readinessProbe"]["timeoutSeconds"],
        )
        self.assertTrue((ROOT / program["command"][1]).exists())
        hosts = program["env"][0]
        self.assertEqual(waiting["env"], [hosts])
        self.assertEqual(hosts["name"], "PARKAZOO_HOSTS")
        everywhere = [address for _, pods in self.servers() for address in pods]
        self.assertLessEqual({*hosts["value"].split(",")}, {*everywhere})

    def test_what_a_server_starts_with(self) -> None:
        """A first start writes the members; a later one keeps those that ZooKeeper has written since."""
        (settings,) = self.of("ConfigMap")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for each in ("settings", "data", "bin"):
                (folder / each).mkdir()
            for file, text in settings["data"].items():
                (folder / "settings" / file).write_text(
                    text.replace("/settings", f"{folder}/settings").replace("/data", f"{folder}/data")
                )
            program = folder / "bin" / "zkServer.sh"
            program.write_text('#!/bin/sh\necho "$@"\n')
            program.chmod(0o755)
            (container,) = self.sets["zk-b"]["template"]["spec"]["containers"]
            shell, script = container["command"]
            environment = {**os.environ, "HOSTNAME": "zk-b-1", "PATH": f"{folder}/bin:{os.environ['PATH']}"}
            config = folder / "data" / "zoo.cfg"

            def start() -> dict[str, str]:
                done = subprocess.run(
                    [shell, f"{folder}{script}"], env=environment, capture_output=True, text=True, check=True
                )
                self.assertEqual((done.stdout, done.stderr), (f"start-foreground {config}\n", ""))
                return dict(line.split("=", 1) for line in config.read_text().splitlines())

            members = Path(start()["dynamicConfigFile"])
            self.assertEqual((folder / "data" / "myid").read_text(), "2\n")
            self.assertEqual(
                members.read_text().splitlines(),
                [f"server.{each}=zk-b-{each - 1}.zk-b:2888:3888;2181" for each in (1, 2, 3)],
            )
            config.write_text(config.read_text().replace(str(members), f"{members}.100000003"))
            self.assertEqual(start()["dynamicConfigFile"], f"{members}.100000003")
            (folder / "settings" / "zoo.cfg").write_text("tickTime=3000\n")
            self.assertEqual(start(), {"tickTime": "3000", "dynamicConfigFile": f"{members}.100000003"})

    def test_shell_takes_the_probe(self) -> None:
        (container,) = self.sets["zk-a"]["template"]["spec"]["containers"]
        shell, _, command = container["readinessProbe"]["exec"]["command"]
        subprocess.run([shell, "-n", "-c", command], check=True)
        self.assertIn("/2181", shlex.split(command)[1])

    @unittest.skipUnless(HAS_SCHEMAS, "pip install kubernetes-validate brings 100 MB of schemas")
    def test_schemas(self) -> None:
        for version in VERSIONS:
            for each in self.items:
                validate(each, version)

    @unittest.skipUnless(HAS_SCHEMAS, "pip install kubernetes-validate brings 100 MB of schemas")
    def test_an_unknown_field_is_refused(self) -> None:
        wrong = copy.deepcopy(self.of("PodDisruptionBudget")[0])
        wrong["spec"]["maxUnavailables"] = wrong["spec"].pop("maxUnavailable")
        with self.assertRaisesRegex(ValueError, "maxUnavailables"):
            validate(wrong, VERSIONS[-1])
