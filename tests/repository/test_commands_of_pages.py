"""The pages' commands: each is a sub-command of `parkazoo`, with options that it has."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from typer.main import get_command

from bench import ROOT
from parkazoo.cli.app import make_app
from tests.drills.page import commands, commands_in_text


class CommandsOfPagesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.app: Any = get_command(make_app())

    def wrong(self, arguments: Sequence[str]) -> list[str]:
        """Returns those of the words that name nothing."""
        command, rest = self.app, [*arguments]
        while rest and hasattr(command, "commands") and not rest[0].startswith(("-", "...")):
            name = rest.pop(0)
            if name not in command.commands:
                return [name]
            command = command.commands[name]
        known = {name for each in command.params for name in each.opts} | {"--help"}
        return [each for each in rest if each.startswith("--") and each.partition("=")[0] not in known]

    def test_all(self) -> None:
        wrong, count = [], 0
        for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))):
            text = page.read_text()
            for each in (*commands(text, {}), *commands_in_text(text)):
                count += 1
                wrong += [
                    f"{page.relative_to(ROOT)}: parkazoo {' '.join(each)}: {word}" for word in self.wrong(each)
                ]
        self.assertGreater(count, 100)
        self.assertEqual(wrong, [])

    def test_a_wrong_one_is_found(self) -> None:
        self.assertEqual(self.wrong(["map", "grow", "--hosts=a1", "--ensemble", "c=c1"]), [])
        self.assertEqual(self.wrong(["map", "shrink", "--hosts", "a1"]), ["shrink"])
        self.assertEqual(self.wrong(["status", "--host", "a1"]), ["--host"])
        self.assertEqual(commands_in_text("Run `parkazoo map\ncheck`."), [["map", "check"]])
        self.assertEqual(
            commands("    parkazoo status   # x\n    $ parkazoo top \\\n        --once   a look\n", {}),
            [["status"], ["top", "--once"]],
        )
