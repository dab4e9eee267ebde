"""When a DistributedDict asks the servers. Pure: the clock is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

IsDue = Callable[[float], bool]


@dataclass
class Policy:
    """What a read of a DistributedDict does before it answers from the copy.

    :cvar is_narrow: each read asks for what it answers, and for no more; there is nothing to load in front.
    """

    is_narrow = False

    def begin(self) -> IsDue:
        """For one dictionary: whether the read at this moment, in seconds of a steady clock, reads everything
        anew.

        It is asked once for each read.
        """
        raise NotImplementedError


@dataclass
class Watch(Policy):
    """Watches keep the copy like the servers' entries: a read costs no request. The default.

    :param raises: reads raise ConnectionLoss while an ensemble that has entries is not connected, and until all is
        read again. Otherwise they answer from the copy as it was.
    """

    raises: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.raises, bool):
            raise TypeError(f"raises must be True or False, not {self.raises!r}")

    def begin(self) -> IsDue:
        return lambda now_s: False


@dataclass
class Always(Policy):
    """Each read asks the servers."""

    is_narrow = True

    def begin(self) -> IsDue:
        return lambda now_s: True


@dataclass
class Linearizable(Always):
    """Each read asks the servers behind a write that changes nothing, so that it sees all that has been done
    before.

    A server may lag behind its leader. A sync does not help where a leader does not know yet that it is none any
    more.
    """


@dataclass
class Lock(Policy):
    """Each read asks the servers for everything, but while `lock` is set none does.

    :param lock: may be set and cleared at any time.
    """

    lock: bool = False

    def begin(self) -> IsDue:
        return lambda now_s: not self.lock


@dataclass
class Count(Policy):
    """Each n-th read asks the servers for everything.

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
    """The first read asks the servers for everything, and each that comes so long after the last that did.

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
