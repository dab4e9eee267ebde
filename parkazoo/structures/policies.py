"""When a DistributedDict asks the servers. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

IsDue = Callable[[float], bool]


@dataclass
class Policy:
    """Decides what a read of a DistributedDict does before it answers from the copy.

    :cvar is_narrow: whether each read asks the servers for its own answer only.
    """

    is_narrow = False

    def begin(self) -> IsDue:
        """Returns, for one dictionary, a function that says whether a read at this moment reads everything anew.

        The moment is in seconds of a steady clock. The function is called once for each read.
        """
        raise NotImplementedError


@dataclass
class Watch(Policy):
    """Keeps the copy up to date by watches: a read costs no request. The default.

    :param raises: raise ConnectionLoss from reads while an ensemble that has entries is not connected, and until
        everything is read again. By default reads answer from the copy.
    """

    raises: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.raises, bool):
            raise TypeError(f"raises must be True or False, not {self.raises!r}")

    def begin(self) -> IsDue:
        return lambda now_s: False


@dataclass
class Always(Policy):
    """Asks the servers at each read."""

    is_narrow = True

    def begin(self) -> IsDue:
        return lambda now_s: True


@dataclass
class Linearizable(Always):
    """Asks the servers at each read, after a write that changes nothing, so that it sees every earlier write.

    A server may lag behind its leader. A sync does not help if a leader does not know yet that it was deposed.
    """


@dataclass
class Lock(Policy):
    """Asks the servers for everything at each read, unless `lock` is set.

    :param lock: may be set and cleared at any time.
    """

    lock: bool = False

    def begin(self) -> IsDue:
        return lambda now_s: not self.lock


@dataclass
class Count(Policy):
    """Asks the servers for everything at each n-th read.

    :raises ValueError: `reads` is below 1.
    """

    reads: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.reads, bool) or not isinstance(self.reads, int):
            raise TypeError(f"reads must be a whole number, not {self.reads!r}")
        if self.reads < 1:
            raise ValueError(f"reads must be at least 1, not {self.reads!r}")

    def begin(self) -> IsDue:
        numbers = count(1)
        return lambda now_s: next(numbers) % self.reads == 0


@dataclass
class Time(Policy):
    """Asks the servers for everything at a read that comes `seconds` or more after the last such read.

    :raises ValueError: `seconds` is below 0.
    """

    seconds: float = 60.0

    def __post_init__(self) -> None:
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, int | float):
            raise TypeError(f"seconds must be a number, not {self.seconds!r}")
        if not self.seconds >= 0:
            raise ValueError(f"seconds must not be below 0, not {self.seconds!r}")

    def begin(self) -> IsDue:
        last: list[float] = []

        def is_due(now_s: float) -> bool:
            if last and now_s - last[0] < self.seconds:
                return False
            last[:] = [now_s]
            return True

        return is_due
