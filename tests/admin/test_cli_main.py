"""The command's beginning and end."""

from __future__ import annotations

import unittest
from unittest import mock

from parkazoo import cli


class TestMain(unittest.TestCase):
    def test_interrupted_before_it_has_begun(self) -> None:
        """Without a traceback: to be imported and put together takes a moment."""
        for name in ("parkazoo.cli._import_run", "parkazoo.cli.app.make_app"):
            with (
                self.subTest(name),
                mock.patch(name, side_effect=KeyboardInterrupt),
                self.assertRaises(SystemExit) as raised,
            ):
                cli.main()
            self.assertEqual(raised.exception.code, cli.INTERRUPTED)
