"""How the drill `restore` judges what it finds, without servers."""

from __future__ import annotations

import io
import unittest

from rich.console import Console

from bench import ROOT
from parkazoo.admin.backup.compare import BOTH, CHILDREN, HOME, PINNED_HOME
from parkazoo.cli.plain_text import plain
from parkazoo.protocol.placement import PIN, Directory, Place
from tests.drills.page import commands, commands_in_text
from tests.drills.restore import (
    BACK,
    FOLDER,
    PAGE,
    Lost,
    cannot_be_lost,
    is_broken,
    judge_list,
    judge_user,
    lost_in,
)

OTHER = 0
HOME_AT, MIRROR_AT = Place(OTHER, "/d"), Place(BACK, "/parkazoo/mirrors/%2Fd")
OVER_TWO = Directory("/d", HOME_AT, MIRROR_AT, True)
NATIVE = Directory("/d", Place(BACK, "/d"), Place(BACK, "/d"), True)
NATIVE_ELSEWHERE = Directory("/d", HOME_AT, HOME_AT, True)
PIN_AT = Place(OTHER, f"/d/{PIN}")


class TestPage(unittest.TestCase):
    def test_the_commands(self) -> None:
        page = (ROOT / PAGE).read_text()
        backup, compare, accept = commands(page, {})
        self.assertEqual((backup[:2], compare[:3]), (["backup", FOLDER], ["backup", FOLDER, "--compare"]))
        self.assertEqual(accept[:3], ["map", "accept-restore", "b"])
        self.assertEqual([each for each in commands_in_text(page) if each[0] == "fsck"], [["fsck", "--repair"]])

    def test_what_the_command_prints(self) -> None:
        """A line for each directory, as `parkazoo backup --compare` makes it."""
        words = HOME, CHILDREN, BOTH, PINNED_HOME
        told = [Lost(what, "b", f"/user 1/{number}") for number, what in enumerate(words)]
        shown = io.StringIO()
        console = Console(file=shown, width=40)
        for each in told:
            console.print(plain(f"{each.what:<17} lost by {each.ensemble}  {each.path}"), soft_wrap=True)
        console.print(plain("older             on b  /user2  (3 children at the backup, 2 now)"), soft_wrap=True)
        console.print("4 directories are lost, 1 are older, since the backup of 2026-11-26T21:00:00Z")
        self.assertEqual(lost_in(shown.getvalue()), told)


class TestJudged(unittest.TestCase):
    def test_a_directory(self) -> None:
        for there, expected in (
            ((HOME_AT, PIN_AT, MIRROR_AT), False),
            ((HOME_AT, PIN_AT), True),
            ((HOME_AT, MIRROR_AT), True),
            ((MIRROR_AT,), True),
            ((HOME_AT,), False),  # no child was made yet
            ((), False),  # of which nobody can know
        ):
            with self.subTest(there):
                self.assertIs(is_broken(OVER_TWO, there.__contains__), expected)
        self.assertFalse(is_broken(NATIVE, ().__contains__))

    def test_the_list(self) -> None:
        self.assertEqual(judge_list(["/a", "/b"], ["/b", "/a"]), [])
        told = ["/c is lost, and is not named", "/b is named, and is not lost"]
        self.assertEqual(judge_list(["/a", "/b"], ["/a", "/c"]), told)

    def test_what_cannot_be_lost(self) -> None:
        """What was copied, and what was never on the ensemble that goes back."""
        places = {"/copied": NATIVE, "/new": NATIVE, "/over-two": OVER_TWO, "/elsewhere": NATIVE_ELSEWHERE}
        self.assertEqual(cannot_be_lost({*places}, {"/copied"}, places.__getitem__), {"/copied", "/elsewhere"})

    def test_a_client(self) -> None:
        states = ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]
        self.assertEqual(judge_user(states, {"ConnectionLoss": 3, "WentBackError": 1}, []), [])
        for seen, words in (
            ((states[:2], {}, []), "it was LOST 0 times, not once"),
            ((states * 2, {}, []), "it was LOST 2 times, not once"),
            ((states, {"NoNodeError": 2}, []), "2 calls: NoNodeError"),
            ((states, {}, ["/x"]), "it did not read its own write in /x"),
        ):
            with self.subTest(words):
                self.assertEqual(judge_user(*seen), [words])
