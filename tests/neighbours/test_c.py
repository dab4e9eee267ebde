"""A program in C, on ZooKeeper's own client."""

from __future__ import annotations

from tests.neighbours.builds import c_program
from tests.neighbours.neighbour_case import NeighbourTest


class TestC(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = c_program()

    def test_calls(self) -> None:
        self.check_calls(self.program)
