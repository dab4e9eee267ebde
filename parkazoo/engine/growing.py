"""How a client follows a map that grows, from form to form and from epoch to epoch (docs/design/growing.md)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss

from parkazoo.engine.driver import Driver
from parkazoo.engine.form_change import POLL_S, FormChange
from parkazoo.engine.gate import Gate
from parkazoo.engine.ports import MemberT, OtherSession
from parkazoo.engine.rewatching import Rewatching
from parkazoo.engine.roster import Roster
from parkazoo.engine.unjoined import Unjoined
from parkazoo.engine.watching import Watching
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.places import Places, by_first


class Growing(Roster[MemberT]):
    """The members of a session, which work by the newest map that any of them has seen.

    :ivar gate: through which operations come to the driver, once there is one. :ivar watching: theirs.
    """

    gate: Gate
    watching: Watching | None = None
    _form_change: FormChange | None = None  # that is under way
    _is_rewatching = False

    @property
    def is_changing(self) -> bool:
        """Whether the client goes from one form of the map to the next."""
        return self._form_change is not None

    def unready(self) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.unready`."""
        if self._form_change is None:
            return None
        self._form_change.hurry()
        return OtherSession("it would begin with requests of an older form of the map")

    def _go_on(self) -> None:
        """A form is never given up: others may go on by it."""
        assert self.cluster_map is not None
        driver = self.driver
        if self.is_changing or self._is_rewatching:
            return
        if driver is not None and driver.context.form < self.cluster_map.form:
            self._form_change = FormChange(
                self._runtime,
                driver,
                self.gate,
                self._fail_waiting,
                partial(self._fail_older, driver),
                partial(self._begin_form, driver),
                partial(self._end_older, driver, driver.context.form),
            )
            return
        if driver is not None and isinstance(driver.context, GrownContext):
            driver.context.places.guess = self._guess(driver.context.form)
        self._acknowledge()

    def _fail_waiting(self) -> None:
        """What waits for a connection could come behind the registration of a session that is yet to begin."""
        for member in self.members:
            if not self._standing.is_connected(member):
                member.fail_waiting(None)
        for port in self._unjoined():
            port.drop(ConnectionLoss)

    def _fail_older(self, driver: Driver) -> None:
        """What is under way by the older form ends at its next request."""
        driver.on_miss = partial(self._runtime.call, partial(self._have_missed, driver))
        driver.fail_older(ConnectionLoss)

    def _have_missed(self, driver: Driver) -> None:
        """What was to leave a watch has failed: program and watches hear it as if a connection were lost.

        Else a recipe would wait for one to come back, with a watch that is gone.
        """
        if not self._standing.is_failing:
            self._standing.is_failing = True
            self._report()
            self._runtime.call_later(POLL_S, partial(self._await_failed, driver))

    def _await_failed(self, driver: Driver) -> None:
        if driver.is_failing_older and not self.is_stopping:
            self._runtime.call_later(POLL_S, partial(self._await_failed, driver))
            return
        self._standing.is_failing = False
        self._report()

    def _begin_form(self, driver: Driver) -> None:
        """Operations begin by the newest form. If those of the older one cannot work beside them, they fail."""
        assert self.cluster_map is not None and self._form_change is not None
        if self.cluster_map.form > driver.context.form + 1:
            self._form_change.hurry()
        self._work_by_pins(driver)

    def _end_older(self, driver: Driver, older: Form) -> None:
        """Nothing of the older form sends any more.

        Its last requests may be on their way to servers: each registration is set behind them.
        """
        self._form_change = None
        if older is Form.PLAIN:
            self._is_rewatching = True
            Rewatching(driver, self.members, self._runtime.call, self._have_rewatched)
        else:
            self._go_on()

    def _have_rewatched(self) -> None:
        self._is_rewatching = False
        self._go_on()

    def _work_by_pins(self, driver: Driver) -> None:
        """Pins decide where the children of directories are, unless the map is plain."""
        assert self.cluster_map is not None
        form = self.cluster_map.form
        if form is not Form.PLAIN:
            places = Places(self._placement, self._guess(form), self._runtime.make_lock())
            driver.begin_grown(GrownContext(form, driver.context, places, self._is_joined, self._take_beside))

    def _guess(self, form: Form) -> Callable[[str], int]:
        """The port of the ensemble to which the epoch that decides gives a directory."""
        assert self.cluster_map is not None
        if form is not Form.GROWN:
            return by_first(self._placement)
        guess = self.cluster_map.make_guess().of_children
        ports = [self.names.index(name) for name in self.cluster_map.names]
        return guess if ports == [*range(len(ports))] else lambda directory: ports[guess(directory)]

    def _is_joined(self, ensemble: int) -> bool:
        return not isinstance(self.ports[ensemble], Unjoined)

    def _take_beside(self, ensemble: int, copy: Any) -> None:
        """The copy of the map on an ensemble that has shown a pin with an unknown name."""
        name = self.names[ensemble]
        for member in self.members:
            if member.name == name:
                self.take_copy(member, copy, f"ensemble {name}")
