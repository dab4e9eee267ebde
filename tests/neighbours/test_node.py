"""A program in JavaScript, on node-zookeeper-client."""

from __future__ import annotations

from tests.neighbours.builds import node_program
from tests.neighbours.neighbour_case import NeighbourTest


class TestNode(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = node_program()

    def test_calls(self) -> None:
        self.check_calls(self.program)
