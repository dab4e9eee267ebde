"""A program in Rust, on zookeeper-client."""

from __future__ import annotations

from tests.neighbours.builds import rust_program
from tests.neighbours.neighbour_case import NeighbourTest


class TestRust(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = rust_program()

    def test_calls(self) -> None:
        self.check_calls(self.program)
