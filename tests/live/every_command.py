"""Every command that connects, one after the other on one cluster that grows; what each prints is judged."""

from __future__ import annotations

import json
import unittest
from collections.abc import Mapping, Sequence
from typing import Any

from parkazoo import ParKazooClient
from parkazoo.protocol.registration import format_session
from tests.live.map_case import other_spelling, run_command
from tests.live.world import DEADLINE_S, wait_until


class EveryCommand:
    """:param hosts: of empty ensembles a and b.
    :param connection: options of every command.
    :param options: the same for a client.
    :param has_strangers: the servers have sessions that are not registered.
    """

    def __init__(
        self,
        case: unittest.TestCase,
        hosts: Mapping[str, str],
        connection: Sequence[str],
        options: Mapping[str, Any],
        has_strangers: bool,
    ) -> None:
        self._case = case
        self._hosts = dict(hosts)
        self._connection = connection
        self._options = options
        self._has_strangers = has_strangers

    def run(self) -> None:
        a, b = self._hosts["a"], self._hosts["b"]
        self._says(
            f'Use it: ParKazooClient\\("{a}"\\)',
            "map",
            "init",
            "--closed",
            f"--bootstrap={a}",
            f"--ensemble=a={a}",
        )
        client = ParKazooClient(a, **self._options)
        self._case.addCleanup(client.close)
        self._case.addCleanup(client.stop)
        client.start(DEADLINE_S)
        client.create("/app/jobs/7", makepath=True)
        assert client.client_id is not None
        if "use_ssl" not in self._options:  # where each connection takes its time
            self._looks(client, {"a": a})
        self._grows(a, b)
        self._case.assertEqual(client.get_children("/app/jobs"), ["7"])
        self._looks(client, {"a": a, "b": b})
        self._changes(a, b)
        self._rotates()

    def _checks(self, is_grown: bool) -> None:
        may_lose = self._has_strangers and is_grown
        out = self._says("sessions? (is|are) not registered" if may_lose else "agree", "map", "check")
        self._case.assertNotIn("what is wrong", out)

    def _looks(self, client: ParKazooClient, hosts: Mapping[str, str]) -> None:
        """The commands that write nothing."""
        case = self._case
        case.assertEqual(json.loads(self._says("^{", "map", "show", "--json"))["ensembles"], hosts)
        self._says("a .*znodes.*the map", "map", "show")
        self._checks(is_grown=len(hosts) > 1)
        servers = "(?s)" + ".*".join(
            rf"{name} +{server} +standalone +3\.[0-9.]+ +[0-9.]+, " for name, server in hosts.items()
        )
        out = self._says(servers, "status")
        case.assertNotIn("does not serve", out)
        case.assertIn("registered clients: 1; by version", out)
        found = json.loads(self._says("^{", "status", "--json"))
        case.assertEqual(
            [(each["serves"], each["trouble"]) for each in found["servers"]], [(True, None)] * len(hosts)
        )
        assert client.client_id is not None
        self._says(format_session(client.client_id[0]), "clients")
        if "sasl_options" not in self._options:  # which `ready` does not do
            self._says(format_session(client.client_id[0]), "clients", "--holdings")
            out = self._says(r"quorum +fine", "check")
            case.assertRegex(out, r"clock +fine")
            self._says(f"^ready: {', '.join(hosts)}\n", "ready", f"--timeout={DEADLINE_S:g}")
        self._says(format_session(client.client_id[0]), "top", "--once", "--interval=0.5")
        sample = ("advise", "--sample", "--seconds=1")  # fails if a server stands still for 2 s
        wait_until(lambda: self._says("^Looked for [0-9]+ s, by two looks at each znode", *sample), "the advice")
        self._says("registered clients: map", "map", "epochs")
        self._says("made, with ensemble", "map", "log")
        self._says("children +│ a +│ /app/jobs", "where", "/app/jobs")
        # The tests have most fences left out.
        self._says("all of it has been repaired|nothing is wrong", "fsck", "--repair")
        self._says("nothing is wrong", "fsck")

    def _grows(self, a: str, b: str) -> None:
        grow = ("map", "grow", f"--ensemble=b={b}")
        refusal = "[0-9]+ session.* not registered"
        status, out, err = self._run([*grow, "--dry-run"])
        self._case.assertEqual((status, err), (int(self._has_strangers), ""), out)
        self._case.assertIn("would publish map 5 with epoch 2 when all", out)
        if self._has_strangers:
            self._case.assertRegex(out, f"would be refused: {refusal}")
            self._fails(f"the map is not changed: {refusal}", *grow)
            grow = (*grow, "--strangers-gone")
        else:
            self._case.assertNotIn("would be refused", out)
        self._says("(?s)map 4: clients write pins.*map 5 with epoch 2: pins decide", *grow)
        self._says("nothing to do: the map has b already", *grow)
        self._fails("nothing to abort", "map", "abort")

    def _changes(self, a: str, b: str) -> None:
        self._says("(?s)published map 6 with epoch 3\n.*b .* 3 .* 75.0%", "map", "weight", "b=3")
        self._says(
            "(?s)published map 7 with epoch 4\n.*b .* 0 .* 0.0%.*have their place on b", "map", "drain", "b"
        )
        self._says(
            "(?s)published map 8 .*new directories at and below /x: on a", "map", "rule", "add", "/x", "--on=a"
        )
        self._says("/x .*together.* a ", "map", "rule", "list")
        self._says("published map 9 ", "map", "rule", "remove", "/x")
        moved = f"b={other_spelling(b)}"
        self._says(
            f"would give ensemble b {other_spelling(b)}, instead of {b}", "map", "hosts", moved, "--dry-run"
        )
        self._says(f"(?s){other_spelling(b)}.*map 10, format", "map", "hosts", moved)
        self._checks(is_grown=True)

    def _rotates(self) -> None:
        identity = "digest:next:hush"
        would = "(?s)a: would be given to .*b: would be given to .*nothing was written"
        self._says(would, "map", "identity", "add", identity, "--dry-run")
        self._says("(?s)a: given to .*b: given to ", "map", "identity", "add", identity)
        self._says("nothing to do: this identity has all rights", "map", "identity", "add", identity)
        self._says("(?s)a: would be taken off .*written", "map", "identity", "remove", identity, "--dry-run")
        self._says("(?s)taken off /parkazoo\n.*b: taken off ", "map", "identity", "remove", identity, "--yes")
        self._says("nothing to do: no znode", "map", "identity", "remove", identity, "--yes")
        out = self._says("map identity add .*digest:next: add begun", "map", "log")
        self._case.assertEqual((out.count("digest:next"), out.count("hush")), (4, 0), out)

    def _says(self, pattern: str, *command: str) -> str:
        """The command succeeds, and prints that on stdout alone; all that it prints."""
        status, out, err = self._run(command)
        self._case.assertEqual((status, err), (0, ""), (command, out))
        self._case.assertRegex(out, pattern, command)
        return out

    def _fails(self, pattern: str, *command: str) -> None:
        """The command ends with one error."""
        status, _, err = self._run(command)
        self._case.assertEqual(status, 1, (command, err))
        self._case.assertRegex(err, f"(?s)^error: .*{pattern}", command)

    def _run(self, command: Sequence[str]) -> tuple[int, str, str]:
        hosts = () if "init" in command else ("--hosts", self._hosts["a"])
        return run_command(*command, *hosts, *self._connection)
