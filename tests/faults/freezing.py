"""A client process that is frozen, through a part of a change of the map or all of it."""

from __future__ import annotations

import random
import time

from tests.faults.crew import Crew
from tests.faults.load import Fault

KIND = "freeze client"
FREEZE = (0.3, 2.0)  # of the session timeout


def freeze_one(crew: Crew, session_timeout_s: float, dice: random.Random) -> Fault:
    """Returns when it goes on."""
    lasts_s = session_timeout_s * dice.uniform(*FREEZE)
    with crew.one(dice.random()) as member:
        began_s = time.monotonic()
        crew.freeze(member)
        time.sleep(lasts_s)
        until_s = time.monotonic()
        crew.thaw(member)
        manner = "long" if lasts_s > session_timeout_s else "brief"
        return Fault(began_s, time.monotonic(), KIND, member.name, manner, began_s, until_s)
