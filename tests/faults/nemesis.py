"""Carries out the schedule: causes faults of servers and clients, and ends them."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from parkazoo.local import LocalCluster, LocalClusterError, LocalEnsemble, LocalServer, role_of
from tests.faults.crew import Crew, Member
from tests.faults.load import Fault
from tests.faults.network import CLIENTS, Network, NetworkError, both_ways
from tests.faults.schedule import ENSEMBLE_KINDS, HEARING_KINDS, KINDS, Pace, Plan, Step, schedule
from tests.relay import Relay

RECOVERY_TIMEOUT_S = 120.0
WORD_TIMEOUT_S = 0.5
EXPIRE_TIMEOUT_S = 5.0
ATTEMPTS = 20
NEXT = 0.382  # of the workers, to try all of them in turn
POLL_S = 0.05
JOIN_S = 0.2
FLAP_S = 0.7  # with it, and as long without
LOST_SHARES = {"servers": 0.1, "leader": 0.3}  # of the packets, by the manner of `lossy`


class _Way(NamedTuple):
    """How something is done to a server, and undone."""

    begin: Callable[[LocalServer], None]
    end: Callable[[LocalServer], None]


class Nemesis:
    """Carries out the schedule step by step, and records each fault.

    :param relays: by ensemble: an address among its hosts, which leads to its first server.
    :param network: None: there is none, so servers are frozen instead of cut off.
    :param tell: called with each fault when it begins.
    :param reach: gives how many ensembles there can be faults of; all by default.
    :param kinds: of faults.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        relays: Mapping[str, Relay],
        crew: Crew,
        network: Network | None,
        pace: Pace,
        dice: random.Random,
        tell: Callable[[str], None],
        journal: Path,
        reach: Callable[[], int] | None = None,
        kinds: Sequence[str] = KINDS,
    ) -> None:
        self._cluster = cluster
        self._reach = reach or (lambda: len(cluster.ensembles))
        self._relays = relays
        self._network = network
        self._crew = crew
        self._steps = schedule(dice, len(cluster.ensembles), pace, kinds)
        self._kinds = kinds
        self._tell = tell
        self._journal = journal
        freeze = _Way(LocalServer.freeze, LocalServer.thaw)
        self._turns = [threading.RLock() for _ in cluster.ensembles]
        self._ways = {
            "kill": _Way(LocalServer.kill, LocalServer.start),
            "restart": _Way(LocalServer.stop, LocalServer.start),
            "freeze": freeze,
            "cut off": _Way(lambda each: network.cut(each.name), lambda each: network.mend(each.name))
            if network
            else freeze,
        }
        self.faults: list[Fault] = []
        self.problems: list[str] = []

    def work(self, minutes: float) -> None:
        """Until that time is over and each kind of fault has been there. Then everything is healed."""
        end_s = time.monotonic() + 60 * minutes
        while time.monotonic() < end_s or any(
            all(kind != each.kind for each in self.faults) for kind in self._kinds
        ):
            if self.problems:
                break
            self._carry_out(next(self._steps))
        for turn in self._turns:
            turn.acquire()
        self._heal()

    def hit(self, plan: Plan) -> None:
        """Carry out a fault beside the schedule, unless there is one of its ensemble, or there are no more."""
        turn = self._turns[plan.ensemble]
        if turn.acquire(blocking=False):
            try:
                self._attempt(plan)
            finally:
                turn.release()

    def _heal(self) -> None:
        """Everything is healed already, unless a fault went wrong."""
        servers = [server for ensemble in self._cluster.ensembles for server in ensemble.servers]
        for ensemble in self._cluster.ensembles:
            self._relays[ensemble.name].lead_to(ensemble.servers[0].address)
        try:
            for server in servers:
                if self._network:
                    self._network.mend(server.name)
                if server.is_running:
                    server.thaw()
                else:
                    server.start()
            for server in servers:
                server.wait_serving(RECOVERY_TIMEOUT_S)
            for ensemble in self._cluster.ensembles:
                ensemble.wait_quorum(RECOVERY_TIMEOUT_S)
        except (LocalClusterError, NetworkError) as error:
            self.problems.append(f"healing: {error}")

    def _carry_out(self, step: Step) -> None:
        of_reach = (plan._replace(ensemble=plan.ensemble % self._reach()) for plan in step.plans)
        plans = {plan.ensemble: plan for plan in of_reach}.values()  # never two on one ensemble
        threads = [threading.Thread(target=self._attempt, args=(plan,), daemon=True) for plan in plans]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(JOIN_S)
        time.sleep(step.quiet_s)

    def _attempt(self, plan: Plan) -> None:
        with self._turns[plan.ensemble]:
            self._attempt_alone(plan)

    def _attempt_alone(self, plan: Plan) -> None:
        try:
            if plan.kind == "expire":
                self._expire(plan)
            elif plan.kind in ("kill client", "freeze client"):
                self._hit_client(plan)
            elif plan.kind in HEARING_KINDS and self._network:
                self._hush(plan, self._network)
            elif plan.kind == "freeze and kill":
                self._freeze_and_kill(plan)
            elif plan.kind == "address moves":
                self._move_address(plan)
            else:
                self._hit_servers(plan)
        except (LocalClusterError, NetworkError) as error:
            self.problems.append(f"{plan.kind} ({plan.manner}): {error}")

    def _hit_servers(self, plan: Plan) -> None:
        ensemble = self._cluster.ensembles[plan.ensemble]
        is_all = plan.kind in ENSEMBLE_KINDS
        victims = ensemble.servers if is_all else (self._victim(ensemble, plan),)
        way = self._ways[plan.manner if is_all else "freeze" if plan.kind in HEARING_KINDS else plan.kind]
        with self._fault(plan, ensemble.name if is_all else victims[0].name) as marks:
            for server in victims:
                way.begin(server)
            marks.append(time.monotonic())
            if plan.lasts_s:
                _see_that_none_answers(victims)
            _wait(marks[0] + plan.lasts_s)
            marks.append(time.monotonic())
            for server in victims:
                way.end(server)
            for server in victims:
                server.wait_serving(RECOVERY_TIMEOUT_S)
            ensemble.wait_quorum(RECOVERY_TIMEOUT_S)

    def _hush(self, plan: Plan, network: Network) -> None:
        """Some do not hear some others, all the time, or in turns, or lose some of the packets."""
        ensemble = self._cluster.ensembles[plan.ensemble]
        leader = self._one(ensemble, plan.pick, is_leader=True).name
        followers = [each.name for each in ensemble.servers if each.name != leader]
        ways = ways_of(plan, leader, followers)
        with self._fault(plan, ensemble.name) as marks:
            marks.append(time.monotonic())
            until_s = marks[0] + plan.lasts_s
            if plan.kind == "flapping":
                while time.monotonic() < until_s:
                    with network.hushed(ways):
                        _wait(time.monotonic() + FLAP_S)
                    _wait(time.monotonic() + FLAP_S)
            else:
                is_lossy = plan.kind == "lossy" and not network.no_loss
                with network.lossy(ways, LOST_SHARES[plan.manner]) if is_lossy else network.hushed(ways):
                    _wait(until_s)
            marks.append(time.monotonic())
            for server in ensemble.servers:
                server.wait_serving(RECOVERY_TIMEOUT_S)
            ensemble.wait_quorum(RECOVERY_TIMEOUT_S)

    def _freeze_and_kill(self, plan: Plan) -> None:
        """Two of three, at once. The killed one comes back first, and clients have to find it past the frozen."""
        ensemble = self._cluster.ensembles[plan.ensemble]
        is_leader_frozen = plan.manner == "leader frozen"
        leader, follower = (self._one(ensemble, plan.pick, is_leader=each) for each in (True, False))
        frozen, killed = (leader, follower) if is_leader_frozen else (follower, leader)
        with self._fault(plan, ensemble.name) as marks:
            frozen.freeze()
            killed.kill()
            marks.append(time.monotonic())
            _wait(marks[0] + plan.lasts_s / 2)
            marks.append(time.monotonic())
            killed.start()
            ensemble.wait_quorum(RECOVERY_TIMEOUT_S)
            _wait(time.monotonic() + plan.lasts_s / 2)
            frozen.thaw()
            for server in (killed, frozen):
                server.wait_serving(RECOVERY_TIMEOUT_S)
            ensemble.wait_quorum(RECOVERY_TIMEOUT_S)

    def _move_address(self, plan: Plan) -> None:
        """One of an ensemble's addresses belongs to another ensemble for a while; the others may be down."""
        ensembles = self._cluster.ensembles
        home, other = ensembles[plan.ensemble], ensembles[plan.ensemble - 1]
        server = other.servers[int(plan.pick * len(other.servers))]
        victims = home.servers if plan.manner == "the only one" else ()
        with self._fault(plan, home.name) as marks:
            self._relays[home.name].lead_to(server.address)
            for victim in victims:
                victim.kill()
            marks.append(time.monotonic())
            _wait(marks[0] + plan.lasts_s)
            marks.append(time.monotonic())
            for victim in victims:
                victim.start()
            for victim in victims:
                victim.wait_serving(RECOVERY_TIMEOUT_S)
            self._relays[home.name].lead_to(home.servers[0].address)

    def _victim(self, ensemble: LocalEnsemble, plan: Plan) -> LocalServer:
        return self._one(ensemble, plan.pick, is_leader=plan.manner == "leader")

    @staticmethod
    def _one(ensemble: LocalEnsemble, pick: float, *, is_leader: bool) -> LocalServer:
        for _ in range(ATTEMPTS):
            ensemble.wait_quorum(RECOVERY_TIMEOUT_S)
            roles = ensemble.roles()
            wanted = [each for each, role in roles.items() if role.is_leader == is_leader]
            if wanted:
                return wanted[int(pick * len(wanted))]
        raise LocalClusterError(f"ensemble {ensemble.name} has no {'leader' if is_leader else 'follower'}")

    def _hit_client(self, plan: Plan) -> None:
        is_kill = plan.kind == "kill client"
        with self._crew.one(plan.pick) as member, self._fault(plan, member.name) as marks:
            (self._crew.kill if is_kill else self._crew.freeze)(member)
            marks.append(time.monotonic())
            _wait(marks[0] + plan.lasts_s)
            marks.append(time.monotonic())
            (self._crew.start if is_kill else self._crew.thaw)(member)

    def _expire(self, plan: Plan) -> None:
        """Close a worker's session on one ensemble, by its id and password, on the server."""
        ensemble = self._cluster.ensembles[plan.ensemble]
        pick, deadline = plan.pick, time.monotonic() + RECOVERY_TIMEOUT_S
        while time.monotonic() < deadline:
            pick = (pick + NEXT) % 1
            with self._crew.one(pick) as member:
                session = member.sessions().get(ensemble.name)
                if session and self._close(plan, ensemble, member, session):
                    return
            time.sleep(POLL_S)
        raise LocalClusterError(f"no worker has a session on {ensemble.name} that could be closed")

    def _close(self, plan: Plan, ensemble: LocalEnsemble, member: Member, session: tuple[int, bytes]) -> bool:
        """Whether the session was there to be closed."""
        began_s = time.monotonic()
        client = KazooClient(ensemble.hosts, client_id=session)
        try:
            client.start(EXPIRE_TIMEOUT_S)
            if client.client_id[0] != session[0]:
                return False
        except KazooTimeoutError:
            return False
        finally:
            client.stop()
            client.close()
        now_s = time.monotonic()
        self.note(Fault(began_s, now_s, plan.kind, f"{member.name} on {ensemble.name}", "", now_s, now_s))
        return True

    @contextlib.contextmanager
    def _fault(self, plan: Plan, target: str) -> Iterator[list[float]]:
        """Account for a fault; the body gives the times since and until which it was complete."""
        marks: list[float] = []
        began_s = time.monotonic()
        how_long = f", {plan.lasts_s:.1f} s" if plan.lasts_s else ""
        self._tell(f"{plan.kind}: {target}{f' ({plan.manner})' if plan.manner else ''}{how_long}")
        yield marks
        self.note(Fault(began_s, time.monotonic(), plan.kind, target, plan.manner, *marks))

    def note(self, fault: Fault) -> None:
        self.faults.append(fault)
        with self._journal.open("a") as journal:
            print(json.dumps(fault._asdict()), file=journal)


def ways_of(plan: Plan, leader: str, followers: Sequence[str]) -> list[tuple[str, str]]:
    """Sender and receiver, of each way that is cut or lossy."""
    one = followers[int(plan.pick * len(followers))]
    everyone = [leader, *followers]
    return {
        "leader mute": [(leader, each) for each in followers],
        "leader deaf": [(each, leader) for each in followers],
        "follower mute": [(one, leader)],
        "follower deaf": [(leader, one)],
        "clients mute": [(CLIENTS, leader)],
        "clients deaf": [(leader, CLIENTS)],
        "leader and follower": both_ways(leader, [one]),
        "leader and followers": both_ways(leader, followers),
        "followers": both_ways(one, [each for each in followers if each != one]),
        "servers": [(each, other) for each in everyone for other in everyone if each != other],
        "leader": both_ways(leader, [*followers, CLIENTS]),
    }[plan.manner]


def _see_that_none_answers(servers: Sequence[LocalServer]) -> None:
    """So that no fault is counted that was none."""
    for server in servers:
        if role_of(server.address, WORD_TIMEOUT_S).name:
            raise LocalClusterError(f"{server.name} still serves")


def _wait(until_s: float) -> None:
    while (left := until_s - time.monotonic()) > 0:
        time.sleep(min(left, POLL_S))
