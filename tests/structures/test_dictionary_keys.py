"""Keys of a DistributedDict as names of znodes."""

from __future__ import annotations

import re
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from parkazoo.protocol.placement import OURS, is_reserved
from parkazoo.structures.keys import key_of, name_of

# What ZooKeeper's PathUtils refuses, in UTF-16.
REFUSED = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
KEYS = st.text(st.one_of(st.characters(), st.sampled_from("/%.\x00\ud83d\ude00\U0001f600 parkazoo")), max_size=12)


class TestNames(unittest.TestCase):
    def test_most_keys_are_their_names(self) -> None:
        for key in ("hello", "a b", "a.b", "2026-11-24", "straße", "名前", "a:b=c,d"):
            self.assertEqual((name_of(key), key_of(key)), (key, key))

    def test_others(self) -> None:
        for key, name in (
            ("", "%"),
            ("%", "%25"),
            ("/", "%2F"),
            ("a/b", "a%2Fb"),
            (".", "%2E"),
            ("..", "%2E."),
            (".parkazoo", "%2Eparkazoo"),
            ("\n", "%0A"),
            ("\U0001f600", "%F0%9F%98%80"),
            ("\ud83d", "%ED%A0%BD"),
            ("%41", "%2541"),
        ):
            with self.subTest(key):
                self.assertEqual((name_of(key), key_of(name)), (name, key))

    def test_what_no_key_has(self) -> None:
        for name in (".", "..", ".hidden", "%41", "%2f", "%zz", "a%", "%ff", "%FF", "%%", "%2Ea%"):
            with self.subTest(name):
                self.assertIsNone(key_of(name))

    def test_no_str(self) -> None:
        for key in (None, 5, b"a", ("a",)):
            with self.subTest(key), self.assertRaisesRegex(TypeError, "keys are str"):
                name_of(key)  # type: ignore[arg-type]

    @settings(derandomize=True, max_examples=500, deadline=None)
    @given(KEYS)
    def test_there_and_back(self, key: str) -> None:
        name = name_of(key)
        self.assertEqual(key_of(name), key)
        self.assertIsNone(REFUSED.search(name.encode("utf-16", "surrogatepass").decode("utf-16")))
        self.assertNotIn(name, (".", "..", "", *OURS))
        self.assertFalse(is_reserved(f"/d/{name}"))

    @settings(derandomize=True, max_examples=500, deadline=None)
    @given(st.text("%2EF4.a/", max_size=6))
    def test_back_and_there(self, name: str) -> None:
        key = key_of(name)
        if key is not None and "/" not in name and name:
            self.assertEqual(name_of(key), name)
