"""What the journals of each load must say: a function ``judge`` of a run, in a module of the load's name.

It is pure: no server, no clock, no file. The tests beside it give it journals that are written by hand.
"""

from __future__ import annotations

import importlib

from tests.faults.load import Judgement, Run


def judge(name: str, run: Run) -> Judgement:
    """
    :param name: the load's.
    """
    judgement: Judgement = importlib.import_module(f"tests.faults.judges.{name}").judge(run)
    return judgement
