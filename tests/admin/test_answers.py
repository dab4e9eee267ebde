"""What servers say, read. The answers are those of ZooKeeper 3.9.5, three servers on one machine, shortened."""

from __future__ import annotations

import unittest

from parkazoo.admin.answers import (
    ServerConnection,
    answers_word,
    count_ephemerals,
    count_in_directories,
    count_voters,
    count_watches,
    is_forbidden,
    parse_admin_answer,
    parse_configuration,
    parse_connections,
    parse_monitor,
)

CONF = """clientPort=26501
secureClientPort=-1
dataDir=/data/1/./data/version-2
dataDirSize=67109546
dataLogDir=/data/1/./data/version-2
dataLogSize=67109546
tickTime=500
maxClientCnxns=60
minSessionTimeout=1000
maxSessionTimeout=10000
clientPortListenBacklog=-1
serverId=1
initLimit=40
syncLimit=10
electionAlg=3
electionPort=26521
quorumPort=26511
peerType=0
membership: 
server.1=127.0.0.1:26511:26521:participant;127.0.0.1:26501
server.2=127.0.0.1:26512:26522:participant;127.0.0.1:26502
server.3=127.0.0.1:26513:26523:participant;127.0.0.1:26503
version=100000000"""  # noqa: W291 - so it says
CONS = """ /127.0.0.1:54886[0](queued=0,recved=1,sent=0)
 /127.0.0.1:47232[1](queued=0,recved=8,sent=8,sid=0x10001afa7df0000,lop=GETC,est=1795675135868,to=10000,lcxid=0x7,lzxid=0x100000005,lresp=28301809,llat=21,minlat=0,avglat=373,maxlat=1380)

"""
FOLLOWERS_DUMP = """SessionTracker dump:
Global Sessions(1):
0x10001afa7df0000\t10000ms
ephemeral nodes dump:
Sessions with Ephemerals (1):
0x10001afa7df0000:
\t/jobs/1
\t/jobs/0
\t/jobs/2
Connections dump:
Connections Sets (2)/(2):
0 expire at Thu Nov 26 06:39:08 UTC 2026:
2 expire at Thu Nov 26 06:39:18 UTC 2026:
\tip: /127.0.0.1:54892 sessionId: 0x0
\tip: /127.0.0.1:47232 sessionId: 0x10001afa7df0000
"""
LEADERS_DUMP = FOLLOWERS_DUMP.replace(
    "Global Sessions(1):\n0x10001afa7df0000\t10000ms\n",
    "Session Sets (2)/(1):\n0 expire at Thu Nov 26 06:39:17 UTC 2026:\n1 expire at Thu Nov 26 06:39:26 UTC 2026:\n"
    "\t0x10001afa7df0000\n",
)
WCHC = "0x10001afa7df0000\n\t/nothing\n\t/jobs\n\n"
NOT_LISTED = "{} is not executed because it is not in the whitelist.\n"
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
MNTR = """zk_version\t3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC
zk_server_state\tleader
zk_peer_state\tleading - broadcast
zk_synced_followers\t2
zk_max_file_descriptor_count\t20000
zk_open_file_descriptor_count\t63
zk_avg_quorum_ack_latency\t264.4
"""
HEAD = """HTTP/1.1 200 OK\r
Date: Thu, 26 Nov 2026 06:39:05 GMT\r
Content-Type: application/json\r
Server: Jetty(9.4.58.v20250814)\r
\r
"""
CONFIGURATION = """{
  "client_port" : 26501,
  "data_dir" : "/data/1/./data/version-2",
  "data_log_dir" : "/data/1/./data/version-2",
  "tick_time" : 500,
  "max_client_cnxns" : 60,
  "min_session_timeout" : 1000,
  "max_session_timeout" : 10000,
  "server_id" : 1,
  "client_port_listen_backlog" : -1,
  "command" : "configuration",
  "error" : null
}"""
SESSION = "0x10001afa7df0000"


class TestWords(unittest.TestCase):
    def test_cons(self) -> None:
        self.assertEqual(
            parse_connections(CONS),
            [
                ServerConnection("127.0.0.1:54886", None, 1, None),
                ServerConnection("127.0.0.1:47232", SESSION, 8, 1795675135868),
            ],
        )

    def test_other_addresses(self) -> None:
        """IPv6, and with the name that Java has found."""
        for shown in ("[0:0:0:0:0:0:0:1]:4711", "10.0.0.7:4711"):
            said = f" host/{shown}[1](queued=0,recved=3,sent=3,sid=0x7,lop=PING,est=5,to=9)\n"
            self.assertEqual(parse_connections(said), [ServerConnection(shown, "0x7", 3, 5)])

    def test_conf(self) -> None:
        found = parse_configuration(CONF)
        self.assertEqual((found["maxClientCnxns"], found["syncLimit"], found["serverId"]), ("60", "10", "1"))
        self.assertEqual(count_voters(CONF), 3)

    def test_members_that_do_not_vote(self) -> None:
        self.assertEqual(count_voters(CONF.replace("26513:26523:participant", "26513:26523:observer")), 2)
        self.assertIsNone(count_voters(CONF.partition("membership")[0]))  # standalone

    def test_before_3_6(self) -> None:
        """``conf`` has no clientPortListenBacklog; ``mntr`` has fewer values, all whole."""
        self.assertEqual(parse_configuration(CONF.replace("clientPortListenBacklog=-1\n", ""))["serverId"], "1")
        self.assertEqual(
            parse_monitor("zk_server_state\tleader\nzk_synced_followers\t2\n")["synced_followers"], "2"
        )

    def test_mntr(self) -> None:
        found = parse_monitor(MNTR)
        self.assertEqual((found["synced_followers"], found["peer_state"]), ("2", "leading - broadcast"))

    def test_dump(self) -> None:
        for said in (FOLLOWERS_DUMP, LEADERS_DUMP):
            self.assertEqual(count_ephemerals(said), {SESSION: 3})
            self.assertEqual(sum(count_in_directories(said).values()), 3)

    def test_wchc(self) -> None:
        self.assertEqual(count_watches(WCHC), {SESSION: 2})
        self.assertEqual(count_watches("\n"), {})

    def test_which_are_answered(self) -> None:
        answers = {"conf": CONF, "cons": CONS, "mntr": MNTR, "dump": FOLLOWERS_DUMP, "wchc": WCHC}
        for word, said in answers.items():
            self.assertTrue(answers_word(word, said), word)
            for other in (NOT_LISTED.format(word), NOT_SERVING):
                self.assertFalse(answers_word(word, other), word)
            self.assertTrue(is_forbidden(NOT_LISTED.format(word)))
            self.assertFalse(is_forbidden(said))
        self.assertTrue(answers_word("wchc", "\n"))

    def test_rubbish(self) -> None:
        for said in ("", "\n", "=", "\t/x\n", "0x", "zk_\t", " /[", "\0"):
            self.assertEqual((parse_connections(said), count_ephemerals(said), count_watches(said)), ([], {}, {}))
            parse_configuration(said)
            parse_monitor(said)


class TestAdminServer(unittest.TestCase):
    def test_configuration(self) -> None:
        found = parse_admin_answer(HEAD + CONFIGURATION)
        assert found is not None and found.date is not None
        self.assertEqual((found.values["server_id"], found.date.isoformat()), (1, "2026-11-26T06:39:05+00:00"))

    def test_others(self) -> None:
        """An error, another program at the port, an answer that was cut off."""
        error = '{\n  "command" : "nonsense",\n  "error" : "Unknown command: nonsense"\n}'
        for said in (
            HEAD + error,
            HEAD + CONFIGURATION[:40],
            HEAD + '{"status": "UP"}',
            HEAD + "[]",
            HEAD.replace("200 OK", "404 Not Found") + CONFIGURATION,
            CONFIGURATION,
            "SSH-2.0-OpenSSH_9.2\r\n",
            "",
        ):
            self.assertIsNone(parse_admin_answer(said), said)

    def test_dates(self) -> None:
        for date in ("Date: soon\r\n", ""):
            head = HEAD.replace("Date: Thu, 26 Nov 2026 06:39:05 GMT\r\n", date)
            found = parse_admin_answer(head + CONFIGURATION)
            assert found is not None
            self.assertIsNone(found.date)
