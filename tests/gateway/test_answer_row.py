"""The order of answers and events."""

from __future__ import annotations

import random
import unittest

from parkazoo.gateway.answer_row import AnswerPlace, AnswerRow


class TestAnswerRow(unittest.TestCase):
    def setUp(self) -> None:
        self.row = AnswerRow()

    def places(self, count: int) -> list[AnswerPlace]:
        places = [AnswerPlace() for _ in range(count)]
        for each in places:
            self.row.enter(each, 100)
        return places

    def test_in_the_order_of_requests(self) -> None:
        a, b, c = self.places(3)
        self.row.answer(b, b"b")
        self.assertEqual(self.row.take(), b"")
        self.row.answer(a, b"a")
        self.assertEqual((self.row.take(), len(self.row), self.row.first), (b"ab", 1, c))
        self.row.answer(c, b"c")
        self.assertEqual((self.row.take(), self.row.take(), self.row.count), (b"c", b"", 3))

    def test_its_size(self) -> None:
        """Requests without an answer, and answers that wait for their turn."""
        a, b, c = self.places(3)
        self.row.answer(b, b"b" * 1000)
        self.row.answer(b, b"late")
        self.assertEqual(self.row.size, 1200)
        self.row.answer(a, b"a")
        self.assertEqual(self.row.size, 100)
        self.row.answer(c, b"c")
        self.assertEqual(self.row.size, 0)

    def test_the_first_answer_counts(self) -> None:
        (a,) = self.places(1)
        self.row.answer(a, b"1")
        self.row.answer(a, b"2")
        self.assertEqual(self.row.take(), b"1")

    def test_an_event_goes_behind_earlier_answers(self) -> None:
        a, b, c = self.places(3)
        self.row.answer(b, b"b")
        self.row.tell(b"!")
        self.row.answer(c, b"c")
        self.row.at_once(b"pong")
        self.row.answer(a, b"a")
        self.assertEqual(self.row.take(), b"pongab!c")

    def test_an_event_goes_before_later_answers(self) -> None:
        a, _ = self.places(2)
        self.row.tell(b"!")
        self.row.answer(a, b"a")
        self.assertEqual(self.row.take(), b"!a")

    def test_an_event_behind_the_answer_that_leaves_its_watch(self) -> None:
        a, b, c = self.places(3)
        self.row.tell(b"!", b)
        self.row.tell(b"?")  # later events stay behind it
        for each, answer in ((c, b"c"), (a, b"a"), (b, b"b")):
            self.row.answer(each, answer)
        self.assertEqual(self.row.take(), b"ab!?c")

    def test_behind_an_answer_that_was_sent(self) -> None:
        a, b = self.places(2)
        self.row.answer(a, b"a")
        self.row.tell(b"!", a)
        self.row.answer(b, b"b")
        self.assertEqual(self.row.take(), b"a!b")

    def test_any_order(self) -> None:
        """Answers are sorted; events keep their order, behind the answers before them."""
        chance = random.Random(2)
        for _ in range(300):
            self.row = AnswerRow()
            places = self.places(6)
            waiting, sent, rules = [*places], b"", []
            for event in (b"u", b"v", b"w", None, None, None, None, None, None):
                if event is not None and chance.random() < 0.7:
                    behind = chance.choice([None, *places])
                    before = [each for each in places if each not in waiting] + ([behind] if behind else [])
                    rules += [(b"%d" % each.number, event) for each in before]
                    self.row.tell(event, behind)
                place = waiting.pop(chance.randrange(len(waiting))) if waiting else None
                if place is not None:
                    self.row.answer(place, b"%d" % place.number)
                sent += self.row.take()
            for place in waiting:
                self.row.answer(place, b"%d" % place.number)
            sent += self.row.take()
            self.assertEqual(bytes(each for each in sent if each in b"123456"), b"123456")
            events = bytes(each for each in sent if each in b"uvw")
            self.assertEqual(events, bytes(sorted(events)))
            for answer, event in rules:
                self.assertLess(sent.index(answer), sent.index(event), (sent, rules))
