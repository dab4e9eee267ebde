"""Four-letter words."""

from __future__ import annotations

import re
import unittest

from parkazoo.gateway.status_words import WORDS, GatewayStatus, ProgramStatus, answer_word

STATUS = GatewayStatus([ProgramStatus("127.0.0.1:5", -2, 4000, 3, 20, 10)], 2, 255, 21, 11, 2181)


class TestWords(unittest.TestCase):
    def said(self, word: str) -> str:
        return answer_word(word.encode(), STATUS).decode()

    def test_each(self) -> None:
        self.assertEqual(self.said("ruok"), "imok")
        self.assertEqual(self.said("isro"), "rw")
        self.assertEqual(self.said("conf"), "clientPort=2181\n")
        for word in ("srvr", "stat", "envi"):
            self.assertRegex(
                self.said(word), r"(Zookeeper version: |zookeeper.version=)\d+\.\d+\.\d+-\S+, built on "
            )
        self.assertIn("Zxid: 0xff\nMode: standalone\n", self.said("srvr"))
        self.assertIn(" /127.0.0.1:5[1](queued=3,recved=20,sent=10)\n", self.said("stat"))
        self.assertIn("sent=10,sid=0xfffffffffffffffe,to=4000)", self.said("cons"))
        facts = dict(line.split("\t") for line in self.said("mntr").splitlines())
        self.assertEqual((facts["zk_num_alive_connections"], facts["zk_outstanding_requests"]), ("1", "3"))

    def test_words_of_servers_alone(self) -> None:
        self.assertEqual(self.said("dump"), "dump is not executed because it is not in the whitelist.\n")

    def test_no_word_is_the_length_of_a_frame(self) -> None:
        for word in WORDS:
            self.assertTrue(re.fullmatch(rb"[a-z]{4}", word))
            self.assertGreater(int.from_bytes(word, "big"), 1 << 30)
