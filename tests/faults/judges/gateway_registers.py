"""What the journals of loads/gateway_registers.py must say: those of its programs what registers' do."""

from __future__ import annotations

from tests.faults.judges import registers
from tests.faults.load import Judgement, Run


def judge(run: Run) -> Judgement:
    found = registers.judge(run)
    gateways = {(each.worker, each.life) for each in run.records if each.what == "serves"}
    problems = [*found.problems, *([] if gateways else ["no gateway has served"])]
    return found._replace(problems=problems, figures={**found.figures, "gateways begun": len(gateways)})
