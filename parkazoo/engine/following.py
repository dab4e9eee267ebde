"""How a client's operations follow a map that grows, from form to form and from epoch to epoch, and shrinks.

docs/design/protocol.md has the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.form_change import POLL_S, FormChange
from parkazoo.engine.gate import Gate
from parkazoo.engine.moves import Moves
from parkazoo.engine.ports import MemberT, OtherSession, Runtime
from parkazoo.engine.rewatching import Rewatching
from parkazoo.engine.roster import Roster
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.standing import Standing
from parkazoo.protocol.where.places import Places, by_first
from parkazoo.types.znodes import Watch


class Following(Generic[MemberT]):
    """Has an open session's operations work by the newest map of its roster, one change of form at a time.

    So too if an ensemble is to leave, is not to leave after all, or has left, or a directory is to move: older
    operations think otherwise.

    All of it is on the loop; any thread may read :attr:`is_changing`.

    :param driver: works by a map of form plain so far. :param gate: through which operations come to it.
    :param report: tells the client its state, if that has changed. :param is_stopping: whether the session is.
    :param acknowledge: is called when nothing is under way by an older map.
    :param part: parts with the ensembles that have left. :param client_state: gives the client's KeeperState.
    :param leave_plain: is called when operations do not work by a plain map any more.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        gate: Gate,
        roster: Roster[MemberT],
        standing: Standing[MemberT],
        report: Callable[[], None],
        is_stopping: Callable[[], bool],
        acknowledge: Callable[[], None],
        part: Callable[[], None],
        client_state: Callable[[], str],
        leave_plain: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._driver = driver
        self._gate = gate
        self._roster = roster
        self._standing = standing
        self._report = report
        self._is_stopping = is_stopping
        self._acknowledge = acknowledge
        self._part = part
        self._client_state = client_state
        self._leave_plain = leave_plain
        self._parting: dict[str, int] = {}  # as operations know it, see :attr:`ClusterMap.parting`
        self._moves = Moves(runtime, driver, roster, client_state, self.go_on, is_stopping)
        self._form_change: FormChange | None = None  # that is under way
        self._changes_to: tuple[Form, dict[str, int], str] | None = None  # if only a directory moves by that
        self._is_rewatching = False
        self._work_by_pins()

    @property
    def is_changing(self) -> bool:
        """Whether the client goes from one form of the map to the next."""
        return self._form_change is not None

    @property
    def has_moving_watches(self) -> bool:
        """Whether the client has watches where a directory moves."""
        return self._moves.has_watches

    def unready(self, name: str) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.unready`.

        If a directory moves, older operations may do harm where its children have been, and nowhere else.
        """
        cluster_map = self._roster.cluster_map
        assert cluster_map is not None
        if self._form_change is None:
            return None
        move = cluster_map.move if self._changes_to == _known_of(cluster_map) else None
        if move is not None and move.source != name:
            return None
        self._form_change.hurry()
        return OtherSession("it would begin with requests of an older form of the map")

    def go_on(self) -> None:
        """Work by the newest map, and then acknowledge it. A form is never given up: others may go on by it."""
        cluster_map, driver = self._roster.cluster_map, self._driver
        assert cluster_map is not None
        if self.is_changing or self._is_rewatching:
            return
        has_ended = self._moves.have_ended(cluster_map)
        is_other = driver.context.form < cluster_map.form or cluster_map.parting != self._parting
        if is_other or cluster_map.last_move != self._moves.last:
            self._changes_to = None if is_other else _known_of(cluster_map)
            self._form_change = FormChange(
                self._runtime,
                driver,
                self._gate,
                self._fail_waiting,
                self._fail_older,
                self._begin_form,
                partial(self._end_older, driver.context.form),
                is_patient=not is_other,
            )
            return
        if not has_ended or not self._moves.have_copies():
            return
        if cluster_map.move is None:
            self._moves.end()
        if driver.context.form is not Form.PLAIN:
            driver.context.places.decide_by(self._guess(driver.context.form))
        self._acknowledge()
        self.part()

    def part(self) -> None:
        """Part with the ensembles that have left, as far as operations know it."""
        cluster_map = self._roster.cluster_map
        assert cluster_map is not None
        if cluster_map.gone and cluster_map.parting == self._parting and not self.is_changing:
            self._part()

    def _fail_waiting(self) -> None:
        """What waits for a connection could come behind the registration of a session that is yet to begin."""
        for member in self._roster.members:
            if not self._standing.is_connected(member):
                member.fail_waiting(None)
        for port in self._roster.unjoined():
            port.drop(ConnectionLoss)

    def _fail_older(self) -> None:
        """Operations of the older form end at their next request."""
        self._driver.on_miss = partial(self._runtime.call, self._have_missed)
        self._driver.fail_older(ConnectionLoss)

    def _have_missed(self) -> None:
        """A read that was to leave a watch has failed: program and watches hear it as if a connection were lost.

        Else a recipe would wait for one to come back, with a watch that is gone.
        """
        if not self._standing.is_failing:
            self._standing.is_failing = True
            self._report()
            self._runtime.call_later(POLL_S, self._await_failed)

    def _await_failed(self) -> None:
        if self._driver.is_failing_older and not self._is_stopping():
            self._runtime.call_later(POLL_S, self._await_failed)
            return
        self._standing.is_failing = False
        self._report()

    def _begin_form(self) -> None:
        """Operations begin by the newest form. If the older ones cannot work beside them, they fail."""
        cluster_map = self._roster.cluster_map
        assert cluster_map is not None and self._form_change is not None
        has_missed = any(name not in self._parting for name in cluster_map.gone)
        if cluster_map.form > self._driver.context.form + 1 or has_missed:
            self._form_change.hurry()
        self._work_by_pins()

    def _end_older(self, older: Form) -> None:
        """Nothing of the older form sends any more.

        Its last requests may be on their way to servers: each registration is set behind them.
        """
        self._form_change = None
        if older is Form.PLAIN:
            self._leave_plain()
            self._is_rewatching = True
            members, call = self._roster.members, self._runtime.call
            Rewatching(self._driver, members, call, self._lose_watch, self._have_rewatched)
        else:
            self.go_on()

    def _lose_watch(self, watch: Watch) -> None:
        self._runtime.deliver(watch, WatchedEvent(EventType.NONE, self._client_state(), None))

    def _have_rewatched(self) -> None:
        self._is_rewatching = False
        self.go_on()

    def _work_by_pins(self) -> None:
        """Pins decide where the children of directories are, unless the map is plain."""
        roster, driver = self._roster, self._driver
        assert roster.cluster_map is not None
        form = roster.cluster_map.form
        self._parting = roster.cluster_map.parting
        if form is not Form.PLAIN:
            leaving, gone = (
                frozenset(map(roster.names.index, names)) for names in (self._parting, roster.cluster_map.gone)
            )
            hold = self._moves.begin(roster.cluster_map)
            moving = "" if hold is None else hold.moving.directory
            places = Places(roster.placement, self._guess(form), self._runtime.make_lock(), leaving, gone, moving)
            if hold is not None and hold.is_over:
                places.trust_pin()
            driver.begin_form(driver.context.risen(form, places, hold))

    def _guess(self, form: Form) -> Callable[[str], int]:
        """The port of the ensemble to which the epoch that decides gives a directory."""
        roster = self._roster
        assert roster.cluster_map is not None
        if form is not Form.GROWN:
            return by_first(roster.placement)
        guess = roster.cluster_map.make_guess().of_children
        ports = [roster.names.index(name) for name in roster.cluster_map.names]
        return guess if ports == [*range(len(ports))] else lambda directory: ports[guess(directory)]


def _known_of(cluster_map: ClusterMap) -> tuple[Form, dict[str, int], str]:
    """What operations know of a map, but for the epochs."""
    return cluster_map.form, cluster_map.parting, cluster_map.last_move
