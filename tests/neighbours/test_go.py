"""A program in Go, on go-zookeeper."""

from __future__ import annotations

from tests.neighbours.builds import go_program
from tests.neighbours.neighbour_case import NeighbourTest


class TestGo(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = go_program()

    def test_calls(self) -> None:
        self.check_calls(self.program)
