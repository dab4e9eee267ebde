"""What servers say twice, as rates. ZooKeeper 3.9.5 said it, three seconds apart; ``mntr`` is shortened."""

from __future__ import annotations

import io
import json
import unittest
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from rich.console import Console

from parkazoo.admin.answers import ServerConnection
from parkazoo.admin.rates import ClusterLook, Rates, parse_look, rates_between
from parkazoo.admin.registrations import Registrations
from parkazoo.cli.top_screen import remarks, screen
from parkazoo.cli.top_tables import sparkline

SAID = json.loads((Path(__file__).parent / "looks.json").read_text())
SECONDS = 3.0
PLAIN, OURS = "0x3000205720b0002", "0x3000205720b0001"  # on a3
CLIENT = "0x1021000000000001"
NOT_LISTED = "{} is not executed because it is not in the whitelist.\n"
Said = Mapping[str, Mapping[str, str]]  # by server and word


def look(
    number: int,
    said: Said,
    registered: Mapping[str, Registrations] | None = None,
    own: Collection[str] = (),
    unread: Mapping[str, str] | None = None,
) -> ClusterLook:
    servers = [
        parse_look(server[0], server, SECONDS * number, 1 + 3 * number, words) for server, words in said.items()
    ]
    return ClusterLook(
        1795680752.7 + SECONDS * number, SECONDS * number, "zk", 1, servers, registered or {}, unread or {}, own
    )


def rates(before: Said, now: Said, **about: Mapping[str, Registrations]) -> Rates:
    return rates_between(look(0, before), look(1, now, **about))


def changed(said: Said, server: str, **words: str) -> Said:
    return {**said, server: {**said[server], **words}}


REGISTERED: dict[str, Registrations] = {
    "a": [(OURS, {"client": CLIENT, "host": "web1", "pid": 7, "version": "0.1.0", "epoch": 1, "since": "2026"})]
}
FIRST, SECOND = SAID["plain"]


class TestRates(unittest.TestCase):
    def test_servers(self) -> None:
        found = {each.server: each for each in rates(FIRST, SECOND).servers}
        self.assertEqual([each.role for each in found.values()], ["follower", "follower", "leader"])
        # from 469 to 1,183 requests, of which the three words of a look are this command's own
        self.assertEqual(found["a3"].requests, round((1183 - 469 - 3) / SECONDS, 2))
        self.assertEqual([each.requests for each in found.values()], [0.0, 0.0, 237.0])
        self.assertEqual([each.clients for each in found.values()], [0, 0, 2])
        self.assertEqual([each.watches for each in found.values()], [0.0, 0.0, 2.0])
        self.assertEqual([each.share for each in found.values()], [0.0, 0.0, 1.0])
        self.assertEqual({each.trouble for each in found.values()}, {""})

    def test_an_ensemble(self) -> None:
        (found,) = rates(FIRST, SECOND).ensembles
        self.assertEqual((found.serving, found.servers, found.leader), (3, 3, "a3"))
        self.assertEqual(found.writes, round((0x214 - 0xF1) / SECONDS, 2))  # by the zxid
        self.assertEqual((found.requests, found.share, found.p99_ms), (237.0, 1.0, 31.0))
        self.assertEqual((found.queue, found.clients, found.watches, found.znodes), (1, 2, 2.0, 1047))
        assert found.reads is not None and found.requests is not None
        self.assertLess(found.reads, found.requests)

    def test_the_names_of_prometheus(self) -> None:
        (found,) = rates(*SAID["prometheus"]).servers
        self.assertEqual((found.role, found.p99_ms, found.watches, found.clients), ("standalone", 3.0, 2.0, 2))
        assert found.reads is not None and found.writes is not None and found.requests is not None
        self.assertGreater(found.writes, 0)
        self.assertAlmostEqual(found.reads + found.writes, found.requests, delta=5)

    def test_clients(self) -> None:
        """One is registered, the other is not; the busier is first."""
        found = rates(FIRST, SECOND, registered=REGISTERED).clients
        self.assertEqual([each.client for each in found], [CLIENT, PLAIN])
        self.assertEqual([each.is_registered for each in found], [True, False])
        self.assertEqual((found[0].host, found[0].pid, found[0].ensembles), ("web1", 7, ("a",)))
        self.assertRegex(str(found[1].host), r"^127\.0\.0\.1:\d+$")
        assert found[0].requests is not None and found[1].requests is not None
        self.assertAlmostEqual(found[0].requests + found[1].requests, 237, delta=1)
        self.assertAlmostEqual(sum(each.share or 0.0 for each in found), 1.0, places=3)

    def test_own_sessions_are_left_out(self) -> None:
        found = rates_between(look(0, FIRST), look(1, SECOND, REGISTERED, own={OURS}))
        self.assertEqual([each.client for each in found.clients], [PLAIN])
        self.assertEqual(found.servers[2].clients, 1)

    def test_a_session_elsewhere(self) -> None:
        """It has come from another server: its connection counts from its begin. The other has none: nothing."""
        moved = SECOND["a3"]["cons"]
        now = changed(changed(SECOND, "a1", cons=moved), "a3", cons=SECOND["a2"]["cons"])
        found = {each.client: each.requests for each in rates(FIRST, now).clients}
        self.assertEqual({*found}, {OURS, PLAIN})
        before = {each.client: each.requests for each in rates(FIRST, SECOND).clients}
        for client, requests in found.items():
            assert requests is not None
            self.assertGreater(requests, before[client] or 0)
        gone = changed(SECOND, "a3", cons=SECOND["a2"]["cons"])
        (client,) = rates(FIRST, gone, registered=REGISTERED).clients
        self.assertEqual(client.requests, 0.0)

    def test_many_connections(self) -> None:
        """Those before are gone through once, not once for each."""
        times: Counter[int] = Counter()

        class Listed(list[ServerConnection]):
            def __iter__(self) -> Iterator[ServerConnection]:
                times[id(self)] += 1
                return super().__iter__()

        before, now = look(0, FIRST), look(1, SECOND)
        listed = [each._replace(connections=Listed(each.connections or ())) for each in before.servers]
        self.assertEqual(rates_between(before._replace(servers=listed), now), rates_between(before, now))
        self.assertEqual({*times.values()}, {1})


class TestUnknown(unittest.TestCase):
    def test_words_that_are_not_listed(self) -> None:
        silent = changed(SECOND, "a3", mntr=NOT_LISTED.format("mntr"), cons=NOT_LISTED.format("cons"))
        found = rates(FIRST, silent, registered=REGISTERED)
        (ensemble,) = found.ensembles
        self.assertEqual((ensemble.reads, ensemble.watches), (None, None))
        self.assertEqual((ensemble.requests, ensemble.writes, ensemble.clients), (237.0, 97.0, 2))
        (client,) = found.clients
        self.assertEqual((client.client, client.requests, client.share), (CLIENT, None, None))
        why = "it is not in its 4lw.commands.whitelist"
        self.assertEqual(found.servers[2].trouble, f"mntr, cons: {why}")
        self.assertIn(f"not told by a3: mntr, cons: {why}", remarks(found))

    def test_a_server_that_has_started(self) -> None:
        """Its counters begin anew. A new leader gives transactions another epoch."""
        anew = changed(
            SECOND, "a3", srvr=SECOND["a3"]["srvr"].replace("1183", "20").replace("0x100000214", "0x200000002")
        )
        found = rates(FIRST, anew)
        self.assertIsNone(found.servers[2].requests)
        self.assertEqual((found.ensembles[0].requests, found.ensembles[0].writes), (None, None))

    def test_a_server_that_has_started_and_works_hard(self) -> None:
        """One number that goes back is enough, or its time since the start: the others may be greater again."""

        def monitor(**numbers: int) -> str:
            return "".join(f"zk_{name}\t{number}\n" for name, number in numbers.items())

        before = changed(FIRST, "a3", mntr=monitor(cnt_readlatency=100, cnt_updatelatency=100, uptime=60_000))
        for reads, writes, up_ms, is_known in (
            (200, 200, 63_000, True),
            (90, 200, 63_000, False),
            (200, 90, 63_000, False),
            (200, 200, 2_900, False),
        ):
            said = monitor(cnt_readlatency=reads, cnt_updatelatency=writes, uptime=up_ms)
            found = rates(before, changed(SECOND, "a3", mntr=said)).servers[2]
            known = [each is not None for each in (found.requests, found.reads, found.writes)]
            self.assertEqual(known, [is_known] * 3)

    def test_an_idle_cluster(self) -> None:
        """Its shares are known: none."""
        found = rates(FIRST, FIRST)
        shares = [each.share for each in (*found.ensembles, *found.clients)]
        self.assertEqual({*shares}, {0.0})

    def test_a_role_without_srvr(self) -> None:
        """A server that does not list ``srvr`` tells it by ``mntr``; without both it is not away."""
        found = rates(FIRST, changed(SECOND, "a3", srvr=NOT_LISTED.format("srvr")))
        self.assertEqual((found.servers[2].role, found.ensembles[0].serving), ("leader", 3))
        self.assertIsNone(found.ensembles[0].requests)
        neither = {word: NOT_LISTED.format(word) for word in ("srvr", "mntr")}
        console = Console(width=80, file=io.StringIO())
        console.print(screen(rates(FIRST, changed(SECOND, "a3", **neither)), 80, ""))
        assert isinstance(console.file, io.StringIO)
        self.assertRegex(console.file.getvalue(), r"\na3 +a +- +- ")

    def test_a_server_that_is_away(self) -> None:
        away = {**SECOND, "a3": dict.fromkeys(("srvr", "mntr", "cons"), "Connection refused")}
        found = rates(FIRST, away)
        self.assertEqual((found.servers[2].role, found.servers[2].requests), (None, None))
        (ensemble,) = found.ensembles
        self.assertEqual((ensemble.serving, ensemble.leader, ensemble.requests), (2, None, 0.0))
        back = rates(away, SECOND)
        self.assertEqual((back.servers[2].role, back.servers[2].requests), ("leader", None))

    def test_nothing_is_told(self) -> None:
        found = rates({}, {"a1": {"srvr": "", "mntr": "", "cons": "\0"}})
        self.assertEqual(found.servers[0].requests, None)
        self.assertEqual((found.requests(), found.writes(), found.clients), (None, None, []))
        json.dumps(found.to_json())

    def test_registrations_that_cannot_be_read(self) -> None:
        found = rates_between(look(0, FIRST), look(1, SECOND, unread={"a": "no connection to it"}))
        self.assertEqual(found.unseen, ["who the sessions on a belong to: no connection to it"])


class TestScreen(unittest.TestCase):
    def setUp(self) -> None:
        self.rates = rates(FIRST, SECOND, registered=REGISTERED)

    def shown(self, width: int, found: Rates | None = None) -> str:
        console = Console(width=width, file=io.StringIO())
        console.print(screen(found or self.rates, width, "every 2 s", {"a": [0.0, None, 50.0, 100.0]}))
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        self.assertLessEqual(max(map(len, text.splitlines())), width)
        return text

    def test_80_columns(self) -> None:
        text = self.shown(80)
        self.assertRegex(
            text, r"^parkazoo top  map 1  3 of 3 servers  237 req/s  97 writes/s\n[0-9:]{8}  every 2 s\n"
        )
        self.assertRegex(text, r"\na +3/3 +237 +\d+ +97 +100% ████████ +31 +1 +2 *\n")
        self.assertRegex(text, r"\na3 +a +leader +237 ")
        self.assertRegex(text, rf"\nweb1:7 {CLIENT} +a +\d+\.\d +\d+% █")
        self.assertRegex(text, rf"\nnot registered 127\.0\.0\.1:\d+ {PLAIN} +a ")
        self.assertNotIn("znodes", text)

    def test_120_columns(self) -> None:
        text = self.shown(120)
        self.assertRegex(text, r"\na +3/3 .* 2 +2 +1,047 +▁▁▅█ *\n")

    def test_few_columns(self) -> None:
        """Names stay; the last columns are left out."""
        text = self.shown(30)
        self.assertRegex(text, r"\nensemble +serve +req/s +read/s\na +3/3 +237 +140\n")
        self.assertRegex(text, rf"\nweb1:7 {CLIENT[:4]}.* +a +\d+\.\d *\n")
        self.assertRegex(self.shown(12), r"\nensemble *\na *\n")

    def test_many_ensembles(self) -> None:
        """A client's name has room beside theirs."""
        on = tuple(f"frankfurt-{number}" for number in range(9))
        clients = [each._replace(ensembles=on) for each in self.rates.clients]
        text = self.shown(80, self.rates._replace(clients=clients))
        self.assertRegex(text, rf"\nweb1:7 {CLIENT} +frankfurt-0 frankfurt-1… +\d+\.\d +\d+% █")

    def test_what_others_write_is_escaped(self) -> None:
        said: Registrations = [(OURS, {"client": CLIENT, "host": "[red]\x1b[31mx", "pid": 7})]
        srvr = {
            number: each["a1"]["srvr"].replace("follower", "[/x]\x1b")
            for number, each in enumerate((FIRST, SECOND))
        }
        before, now = (changed(each, "a1", srvr=srvr[number]) for number, each in enumerate((FIRST, SECOND)))
        text = self.shown(80, rates(before, now, registered={"a": said}))
        self.assertNotIn("\x1b", text)
        self.assertIn(" [/x]", text)

    def test_sparkline(self) -> None:
        self.assertEqual(sparkline([]), "")
        self.assertEqual(sparkline([0.0, None]), "▁▁")
        self.assertEqual(len(sparkline([1.0] * 100)), 15)


if __name__ == "__main__":
    unittest.main()
