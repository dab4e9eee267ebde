"""How busy this machine's processors are."""

from __future__ import annotations

from pathlib import Path

STAT = Path("/proc/stat")


class Busy:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._total, self._idle = _ticks()

    def share(self) -> float:
        """0 to 1, since the last call or since it was made; 0 where the system does not say."""
        before, idle_before = self._total, self._idle
        self._total, self._idle = _ticks()
        return 1 - (self._idle - idle_before) / (self._total - before) if self._total > before else 0.0


def _ticks() -> tuple[int, int]:
    """All of the processors' time, and that in which they had nothing to do."""
    try:
        ticks = [int(each) for each in STAT.read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return 0, 0
    return sum(ticks), ticks[3] + ticks[4]
