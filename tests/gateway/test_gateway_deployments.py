"""The files of conf/ by which a gateway is deployed: what they run is a command that there is."""

from __future__ import annotations

import asyncio
import configparser
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from bench import ROOT
from parkazoo.cli.app import make_app
from tests.aio.aio_case import AioCase
from tests.gateway.gateway_case import RawProgram

UNIT = ROOT / "conf" / "parkazoo-gateway.service"
SIDECAR = ROOT / "conf" / "gateway-sidecar.yaml"
LISTEN = "127.0.0.1:2181"
MOST_SESSION_S = 40  # 20 ticks of two seconds
VERIFY = shutil.which("systemd-analyze")


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(UNIT)
    return found


def command_of_unit(state: str) -> list[str]:
    """:param state: the folder that systemd makes for it."""
    return shlex.split(unit()["Service"]["ExecStart"].replace("${STATE_DIRECTORY}", state))


def sidecar() -> Mapping[str, Any]:
    """What the pod is made of."""
    found: Mapping[str, Any] = importlib.import_module("yaml").safe_load(SIDECAR.read_text())["spec"]["template"][
        "spec"
    ]
    return found


class TestDeployments(unittest.TestCase):
    def options(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Of ``parkazoo gateway``, as it understands them."""
        program, name, *others = arguments
        self.assertEqual((Path(program).name, name), ("parkazoo", "gateway"))
        group: Any = typer.main.get_command(make_app())
        with mock.patch.dict(os.environ, {"PARKAZOO_HOSTS": "a1:2181"}):
            context = group.commands[name].make_context(name, others)
        found: dict[str, Any] = context.params
        return found

    def test_the_unit(self) -> None:
        found = unit()["Service"]
        options = self.options(command_of_unit("/var/lib/parkazoo"))
        self.assertEqual((options["listen"], options["table"]), (LISTEN, Path("/var/lib/parkazoo/sessions")))
        self.assertEqual((found["StateDirectory"], found["Restart"]), ("parkazoo", "always"))
        self.assertEqual(options["hosts"], "a1:2181")  # of the environment, as EnvironmentFile sets it

    @unittest.skipIf(VERIFY is None, "systemd-analyze is missing")
    def test_systemd_takes_the_unit(self) -> None:
        assert VERIFY is not None
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, UNIT.name)
            program = command_of_unit("")[0]
            file.write_text(UNIT.read_text().replace(program, sys.executable))
            done = subprocess.run([VERIFY, "verify", str(file)], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_sidecar(self) -> None:
        pod = sidecar()
        (gateway,), (program,) = pod["initContainers"], pod["containers"]
        options = self.options(gateway["command"])
        self.assertEqual([each["name"] for each in gateway["env"]], ["PARKAZOO_HOSTS"])
        self.assertEqual(program["env"], [{"name": "ZOOKEEPER", "value": options["listen"]}])
        (mount,), (volume,) = gateway["volumeMounts"], pod["volumes"]
        self.assertEqual((str(options["table"].parent), mount["name"]), (mount["mountPath"], volume["name"]))
        self.assertEqual(gateway["startupProbe"]["exec"], gateway["livenessProbe"]["exec"])

    def test_strict_parsers_take_the_sidecar(self) -> None:
        """Those of Kubernetes take a key that is merged and then given again for one given twice."""
        self.assertNotIn("<<", SIDECAR.read_text())

    def test_a_frozen_gateway_ends_within_a_session(self) -> None:
        """Within the longest time-out that servers grant by default, or no session would go on."""
        probe = sidecar()["initContainers"][0]["livenessProbe"]
        ended_s = probe["periodSeconds"] + probe["terminationGracePeriodSeconds"]
        ended_s += probe["failureThreshold"] * max(probe["periodSeconds"], probe["timeoutSeconds"])
        self.assertLess(ended_s, MOST_SESSION_S)


class TestTheyRun(AioCase):
    async def run_code(self, code: str) -> int:
        """Run a program of Python; returns its status."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, stderr=asyncio.subprocess.DEVNULL
        )
        return await process.wait()

    async def test_commands_and_probe(self) -> None:
        """At another port, with a folder of the test's."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        gateway = sidecar()["initContainers"][0]
        in_pod = [each.replace("/sessions", folder) for each in gateway["command"]]
        _, _, probe = gateway["startupProbe"]["exec"]["command"]
        self.assertIn(LISTEN.split(":")[1], probe)
        for command in (command_of_unit(folder), in_pod):
            arguments = [each.replace(LISTEN, "127.0.0.1:0") for each in command[1:]]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "parkazoo", *arguments),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PARKAZOO_HOSTS": self.cluster.hosts},
            )
            assert process.stdout is not None
            port = int((await process.stdout.readline()).rpartition(b":")[2])
            zk = await (await RawProgram.connect(port)).begin()
            await zk.ping()
            zk.drop()
            probing = probe.replace("2181", str(port))
            self.assertEqual(await self.run_code(probing), 0)
            process.terminate()
            await process.communicate()
            self.assertEqual((process.returncode, await self.run_code(probing)), (0, 1))
            self.assertTrue(Path(arguments[-1]).exists())  # the table
