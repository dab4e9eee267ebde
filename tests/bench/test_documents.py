"""How results are saved."""

from __future__ import annotations

import json
import unittest
from typing import Any

from bench.documents import as_text


class TestDocument(unittest.TestCase):
    def test_a_line_for_each_record(self) -> None:
        document: dict[str, Any] = {
            "about": {"seed": 1},
            "runs": [{"rate": 1.5, "plan": {"size": 100}}, {"rate": 2, "text": "two\nlines"}],
            "trials": [],
            "order": [1, 2, 3],
            "crowd": None,
        }
        text = as_text(document)
        self.assertEqual(json.loads(text), document)
        self.assertEqual(
            text.splitlines(),
            [
                "{",
                '"about": {"seed": 1},',
                '"runs": [',
                '{"rate": 1.5, "plan": {"size": 100}},',
                r'{"rate": 2, "text": "two\nlines"}',
                "],",
                '"trials": [],',
                '"order": [1, 2, 3],',
                '"crowd": null',
                "}",
            ],
        )
