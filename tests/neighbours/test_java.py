"""A program in Java, on Curator: its calls, and its recipes."""

from __future__ import annotations

from tests.neighbours.builds import java_program
from tests.neighbours.neighbour_case import NeighbourTest


class TestCurator(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = java_program()

    def test_calls(self) -> None:
        self.check_calls(self.program)
