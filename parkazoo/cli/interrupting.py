"""Commands that go on until ^C is pressed, and those that take back what they have begun then."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from parkazoo.cli.step_times import Steps


@contextmanager
def until_interrupted() -> Iterator[Callable[[], bool]]:
    """Ends its block at ^C, and yields whether that was pressed: a block that missed the exception has to ask.

    Python drops an exception that is raised in a weak reference's callback, and kazoo's client some others.
    """
    pressed: list[int] = []  # not an event: a handler that interrupts one's wait must not ask for its lock

    def interrupt(number: int, frame: object) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before == signal.default_int_handler:  # otherwise somebody wants it ignored, or sees to it
        signal.signal(signal.SIGINT, interrupt)
    try:
        with suppress(KeyboardInterrupt):
            yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted_by_signals(steps: Steps) -> Iterator[None]:
    """Has SIGTERM, and the end of the terminal, interrupt its block as ^C does, and tells if nothing was begun."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    before = {number: handler for number, handler in before.items() if handler == signal.SIG_DFL}
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    except KeyboardInterrupt:
        if steps.are_none:
            with suppress(OSError):  # of a terminal that is gone
                steps("interrupted: nothing was begun")
        raise
    finally:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
