"""An ensemble that is restored from an older copy, as one client remembers it."""

from __future__ import annotations

import json
import unittest

from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.went_back import MOST_PAUSE_S, PERIOD_S, Memory, Verdict, is_notice, restores
from parkazoo.types.znodes import ZnodeStat

DATA = b"which ensemble"
NONE = ZnodeStat(3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 3)


def stat(version: int, mzxid: int, noted: int = 0, accepted: int = 0) -> ZnodeStat:
    """The znode's: each notice is a create, each accepted one a delete."""
    return NONE._replace(version=version, mzxid=mzxid, cversion=noted + accepted, numChildren=noted - accepted)


class TestJudge(unittest.TestCase):
    def setUp(self) -> None:
        self.memory = Memory()
        self.memory.take(stat(7, 70, noted=2, accepted=1))

    def judges(self, found: ZnodeStat, expected: Verdict) -> None:
        self.assertIs(self.memory.judge(found), expected)

    def test_it_goes_on(self) -> None:
        self.judges(stat(7, 70, noted=2, accepted=1), Verdict.GOES_ON)
        self.judges(stat(9, 95, noted=2, accepted=1), Verdict.GOES_ON)

    def test_nothing_is_remembered(self) -> None:
        self.assertIs(Memory().judge(stat(1, 10)), Verdict.GOES_ON)

    def test_a_lower_version(self) -> None:
        self.judges(stat(6, 60, noted=2, accepted=1), Verdict.WENT_BACK)

    def test_the_same_version_of_another_past(self) -> None:
        """It went back, and somebody has had the version rise again."""
        self.judges(stat(7, 71, noted=2, accepted=1), Verdict.WENT_BACK)

    def test_fewer_notices(self) -> None:
        self.judges(stat(8, 80, noted=1), Verdict.WENT_BACK)

    def test_another_client_has_noted_it(self) -> None:
        """Even after the version has risen beyond the one that is remembered."""
        self.judges(stat(9, 95, noted=3, accepted=1), Verdict.NOTED)
        self.judges(stat(9, 95, noted=3, accepted=3), Verdict.NOTED)

    def test_another_client_has_noted_it_before(self) -> None:
        """Clients come back one after the other: each would note it again, and those before it were LOST again."""
        self.judges(stat(6, 60, noted=3, accepted=1), Verdict.NOTED)
        self.judges(stat(7, 71, noted=3, accepted=1), Verdict.NOTED)
        copy_without_notices = stat(6, 60, noted=1)
        self.judges(copy_without_notices, Verdict.WENT_BACK)
        self.judges(copy_without_notices._replace(pzxid=NONE.pzxid + 1), Verdict.NOTED)

    def test_to_accept_is_no_news(self) -> None:
        self.judges(stat(7, 70, noted=2, accepted=2), Verdict.GOES_ON)

    def test_an_ensemble_that_was_made_anew(self) -> None:
        self.judges(stat(0, 1)._replace(czxid=1), Verdict.GOES_ON)

    def test_an_ensemble_that_has_seen_less_than_the_client(self) -> None:
        """By the zxid of its writes. The stat shows nothing if no change but lost ones came since the copy."""
        found = stat(7, 70, noted=2, accepted=1)
        self.assertIs(self.memory.judge(found, is_behind=True), Verdict.WENT_BACK)
        self.assertIs(self.memory.judge(stat(7, 70, noted=3, accepted=1), is_behind=True), Verdict.NOTED)
        self.assertIs(self.memory.judge(stat(0, 1)._replace(czxid=1), is_behind=True), Verdict.GOES_ON)

    def test_a_notice(self) -> None:
        """Two clients that find the same make one."""
        found = stat(6, 60, noted=2, accepted=1)
        first, second = self.memory.notice(found), Memory().notice(found)
        self.assertEqual(first.path, f"{ENSEMBLE}/3")
        self.assertEqual(second.path, first.path)
        self.assertTrue(is_notice(first.path.rpartition("/")[2]))
        self.assertEqual(json.loads(first.data), {"seen": 7, "found": 6})
        self.assertFalse(is_notice("x"))

    def test_how_often(self) -> None:
        self.assertEqual([restores(stat(0, 1, *each)) for each in ((0, 0), (1, 0), (1, 1), (3, 1))], [0, 1, 1, 3])


class TestRise(unittest.TestCase):
    def setUp(self) -> None:
        self.memory = Memory()
        self.memory.take(stat(7, 70))
        self.memory.connected(0.0, 0, 100)

    def test_to_connect_is_free(self) -> None:
        self.assertIsNone(self.memory.look(PERIOD_S, 100))

    def test_a_client_that_does_nothing(self) -> None:
        """Nor does it pay when it connects again."""
        self.memory.connected(PERIOD_S, 100, 200)
        self.assertIsNone(self.memory.look(3 * PERIOD_S, 200))

    def test_a_change_from_before_another_connection(self) -> None:
        self.memory.connected(PERIOD_S, 101, 200)
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 200))

    def test_it_rises_once_in_a_period(self) -> None:
        self.assertIsNone(self.memory.look(PERIOD_S / 2, 101))
        look = self.memory.look(PERIOD_S, 101)
        assert look is not None
        self.assertEqual(look.path, ENSEMBLE)
        rise = self.memory.rise(DATA, stat(7, 70), 101)
        assert rise is not None
        self.assertEqual((rise.path, rise.data, rise.version), (ENSEMBLE, DATA, 7))
        self.memory.take(stat(8, 102))
        self.assertIsNone(self.memory.look(2 * PERIOD_S, 102))  # nothing has happened since
        self.assertIsNone(self.memory.look(PERIOD_S * 3 / 2, 103))
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 103))

    def test_another_client_has_had_it_rise(self) -> None:
        """If that was before this client's last change, it looks again."""
        self.assertIsNotNone(self.memory.look(PERIOD_S, 110))
        self.assertIsNone(self.memory.rise(DATA, stat(8, 105), 110))
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 110))
        self.assertIsNotNone(self.memory.rise(DATA, stat(8, 105), 110))

    def test_behind_this_client_s_last_change(self) -> None:
        """It looks no more, although the look's own answer has shown that others go on."""
        self.assertIsNotNone(self.memory.look(PERIOD_S, 110))
        self.assertIsNone(self.memory.rise(DATA, stat(8, 115), 120))
        self.assertIsNone(self.memory.look(2 * PERIOD_S, 120))
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 121))

    def test_other_answers_with_the_look(self) -> None:
        """They may have shown a change behind the rise."""
        self.assertIsNotNone(self.memory.look(PERIOD_S, 110))
        self.memory.expect_others()
        self.assertIsNone(self.memory.rise(DATA, stat(8, 115), 120))
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 120))

    def test_one_of_many_clients(self) -> None:
        """It looks ever less often while others have the version rise, and as often as at first when it has to."""
        at_s, pauses = 0.0, []
        for version in range(8, 14):
            before_s, at_s = at_s, self.next_look_s(at_s)
            pauses.append(at_s - before_s)
            self.assertIsNone(self.memory.rise(DATA, stat(version, 10 * version), 1000))
        self.assertEqual(pauses, [PERIOD_S, PERIOD_S, 2 * PERIOD_S, 4 * PERIOD_S, MOST_PAUSE_S, MOST_PAUSE_S])
        at_s = self.next_look_s(at_s)
        self.assertIsNotNone(self.memory.rise(DATA, stat(version, 10 * version), 1000))
        at_s = self.next_look_s(at_s)
        self.assertEqual(self.next_look_s(at_s) - at_s, PERIOD_S)

    def test_one_that_was_idle(self) -> None:
        """The others may be gone: it looks as often as at first."""
        at_s = 0.0
        for version in range(8, 14):
            at_s = self.next_look_s(at_s)
            self.assertIsNone(self.memory.rise(DATA, stat(version, 10 * version), 1000))
        at_s = self.next_look_s(at_s + 3 * MOST_PAUSE_S)
        self.assertIsNone(self.memory.rise(DATA, stat(14, 140), 1000))
        self.assertEqual(self.next_look_s(at_s) - at_s, PERIOD_S)

    def next_look_s(self, now_s: float) -> float:
        while not self.memory.look(now_s, 1000):
            now_s += PERIOD_S
        return now_s

    def test_without_the_right(self) -> None:
        """It looks on, because the stat shows what others note; and tries again on the next connection."""
        self.memory.may_not()
        self.assertIsNotNone(self.memory.look(PERIOD_S, 110))
        self.assertIsNone(self.memory.rise(DATA, stat(7, 70), 120))
        self.assertIsNone(self.memory.look(2 * PERIOD_S, 120))
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 121))
        self.memory.connected(2 * PERIOD_S, 121, 130)
        self.assertIsNotNone(self.memory.look(3 * PERIOD_S, 130))
        self.assertIsNotNone(self.memory.rise(DATA, stat(7, 70), 130))

    def test_a_session_that_has_ended(self) -> None:
        """The next one begins without a zxid; what was seen before still needs a rise."""
        self.memory.ended(100)
        self.memory.connected(PERIOD_S, 0, 200)
        self.assertIsNone(self.memory.look(2 * PERIOD_S, 200))
        self.memory.ended(201)
        self.memory.connected(2 * PERIOD_S, 0, 300)
        self.assertIsNotNone(self.memory.look(3 * PERIOD_S, 300))

    def test_lower_zxids(self) -> None:
        """Of an ensemble that went back: a new session sees changes there too."""
        self.memory.connected(PERIOD_S, 0, 50)
        self.assertIsNone(self.memory.look(2 * PERIOD_S, 50))
        self.assertIsNotNone(self.memory.look(2 * PERIOD_S, 51))

    def test_whether_it_was_there(self) -> None:
        """Before the connection that it has."""
        self.assertFalse(self.memory.was_there)
        self.memory.connected(PERIOD_S, 100, 200)
        self.assertTrue(self.memory.was_there)
        memory = Memory()
        memory.connected(0.0, 0, 100)  # to a server that can only read: it is not asked
        memory.take(stat(7, 70))
        memory.connected(PERIOD_S, 100, 200)
        self.assertFalse(memory.was_there)

    def test_before_it_is_connected(self) -> None:
        self.assertIsNone(Memory().look(PERIOD_S, 1))
