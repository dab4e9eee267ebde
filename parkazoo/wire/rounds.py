"""Which server a member tries next, and when it tries all of them again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from kazoo.retry import KazooRetry

from parkazoo.engine.ports import Timer
from parkazoo.wire.handshake import Address
from parkazoo.wire.names import LookUp
from parkazoo.wire.running import RunningLoop

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

MOST_DELAY_S = 2.0  # between two rounds of attempts; and at most a third of the session's timeout
LEAST_DELAY = 0.5  # of the delay: this much is certain, the rest is random
FAILED_S = 10.0  # so long a server that has failed is tried after the others


class Backoff:
    """The pauses of a KazooRetry between attempts, but never so long that the session expires.

    :param most_s: the longest delay, whatever the policy says.
    """

    def __init__(self, retry: KazooRetry, most_s: float) -> None:
        self._policy = retry
        self._most_s = most_s
        self.reset()

    def reset(self) -> None:
        self.attempts = 0
        self._delay_s = self._policy.delay
        self._began_s: float | None = None  # the first attempt has failed

    def next_delay_s(self) -> float | None:
        """None if there is not to be another attempt."""
        retry = self._policy
        self.attempts += 1
        delay_s = self._delay_s * random.uniform(1 - retry.max_jitter, 1 + retry.max_jitter)
        self._delay_s = min(self._delay_s * retry.backoff, retry.max_delay)
        if delay_s > self._most_s:
            delay_s = self._most_s * random.uniform(LEAST_DELAY, 1)
        if self.attempts == retry.max_tries:
            return None
        now_s = time.monotonic()
        if self._began_s is None:
            self._began_s = now_s
        if retry.deadline is not None and now_s + delay_s >= self._began_s + retry.deadline:
            return None
        return float(delay_s)


class Rounds:
    """A round begins with a look-up of the names. When each address has been tried, comes a pause, then the next.

    Attempts of earlier rounds may still be under way then. All of it is for the loop's own thread.

    :param retry: a KazooRetry.
    :param on_ready: called when the names have been looked up.
    """

    def __init__(self, member: Member, loop: RunningLoop, retry: KazooRetry, on_ready: Callable[[], None]) -> None:
        self._member = member
        self._loop = loop
        self._on_ready = on_ready
        self._backoff = Backoff(retry, min(MOST_DELAY_S, member._session_timeout / 1000 / 3))
        self._pause: Timer | None = None
        self._is_looking_up = False
        self._is_last = False  # by connection_retry
        self._changes = 0  # of the servers
        self._are_new = False  # the servers: they have not been looked up yet
        self._known: list[Address] = []
        self._untried: list[Address] = []
        self._failed_s: dict[Address, float] = {}  # when

    @property
    def is_waiting(self) -> bool:
        """For the end of a pause, or of a look-up."""
        return self._is_looking_up or self._pause is not None

    @property
    def in_vain(self) -> int:
        """How many have ended since there was a connection."""
        return self._backoff.attempts

    def begin(self) -> None:
        self._pause = None
        self._is_looking_up = True
        self._look_up(self._have_looked_up)

    def begin_later(self) -> bool:
        """After a pause; at once if the servers have changed. False if there is not to be another round."""
        if self._are_new:
            self.begin()
            return True
        delay_s = None if self._is_last else self._backoff.next_delay_s()
        if delay_s is not None:
            self._pause = self._loop.call_later(delay_s, self.begin)
        self._is_last = delay_s is None
        return not self._is_last

    def next_server(self, busy: Container[Address]) -> Address | None:
        """
        :param busy: these are being tried. While one of them is among the hosts, it may only be slow: no spare
            server is next.
        """
        hosts = [each for each in self._known if not self._is_spare(each)]
        while self._untried:
            if self._is_spare(self._untried[0]) and any(each in busy for each in hosts):
                return None
            address = self._untried.pop(0)
            if address not in busy:
                return address
        return None

    def is_over(self, busy: Container[Address]) -> bool:
        """Whether another round would try any server: not while all of them are being tried."""
        return not self._untried and (not self._known or any(each not in busy for each in self._known))

    def failed(self, address: Address) -> None:
        self._failed_s[address] = time.monotonic()

    def succeeded(self, address: Address) -> None:
        self._failed_s.pop(address, None)
        self.reset()
        self.cancel()

    def reset(self) -> None:
        """The pauses are short again."""
        self._backoff.reset()
        self._is_last = False

    def cancel(self) -> None:
        """No other round begins."""
        self._is_looking_up = False
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def look_again(self) -> None:
        """In the middle of a round: have all addresses changed?"""
        if not self._is_looking_up:
            self._look_up(self._have_looked_again)

    def take_hosts(self) -> None:
        """The member's servers have changed. Only they are tried from now on.

        Attempts that are under way go on. A pause or a look-up ends, and a round begins at once.
        """
        self._changes += 1
        self._are_new = True
        self._known, self._untried = [], []
        if self.is_waiting:
            self.cancel()
            self.begin()

    def _look_up(self, on_end: Callable[[list[Address], dict[tuple[str, int], str]], None]) -> None:
        """Look up the member's servers. The answer does not count if they change meanwhile."""
        changes = self._changes

        def end(addresses: list[Address], troubles: dict[tuple[str, int], str]) -> None:
            if changes == self._changes:
                on_end(addresses, troubles)

        LookUp(self._loop, self._member.servers, end)

    def _have_looked_up(self, addresses: list[Address], troubles: dict[tuple[str, int], str]) -> None:
        if not self._is_looking_up:  # cancelled
            return
        self._is_looking_up = self._are_new = False
        self._member.troubles.update(troubles)
        for trouble in troubles.values():
            self._member._connection.report.failed(trouble)
        self._known = self._shuffled(addresses)
        since_s = time.monotonic() - FAILED_S
        self._failed_s = {each: at_s for each, at_s in self._failed_s.items() if at_s > since_s}
        self._untried = sorted(self._known, key=self._comes_late)
        self._on_ready()

    def _comes_late(self, address: Address) -> tuple[bool, bool]:
        return self._is_spare(address), address in self._failed_s

    def _is_spare(self, address: Address) -> bool:
        return (address.host, address.port) in self._member.spare_hosts

    def _have_looked_again(self, addresses: list[Address], troubles: dict[tuple[str, int], str]) -> None:
        """New addresses come first. Old ones are not tried."""
        new = [each for each in self._shuffled(addresses) if each not in self._known]
        if new and not self._is_looking_up:
            self._known = [*new, *self._known] if troubles else addresses
            self._untried = [*new, *(each for each in self._untried if each in self._known)]
            self._on_ready()

    def _shuffled(self, addresses: list[Address]) -> list[Address]:
        if self._member.randomize_hosts:
            random.shuffle(addresses)
        return addresses
