"""One run: servers and clients, faults, the end of the faults, and what the loads' judges say of it."""

from __future__ import annotations

import pkgutil
import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.local import LocalCluster, find_java, find_zookeeper
from parkazoo.protocol.epochs import Form
from tests import reconfigured
from tests.faults import apart, emptied, judges, loads, pauses, stress
from tests.faults.crew import Crew, read_journal, root_of
from tests.faults.growing import ABOUT as ABOUT_GROWING
from tests.faults.growing import NOT_OF_GROWTH, Growing
from tests.faults.load import Fault, Judgement, Load, Record, Run, Worker
from tests.faults.moving import ABOUT as ABOUT_MOVES
from tests.faults.moving import ABOUT_HOLDS, NOT_OF_MOVES, Moves
from tests.faults.moving import GOAL_S as GOAL_OF_HOLDS_S
from tests.faults.nemesis import Nemesis
from tests.faults.network import Network, NetworkError
from tests.faults.processors import Busy
from tests.faults.remains import ABOUT, judge_tree
from tests.faults.replacing import ABOUT as ABOUT_REPLACING
from tests.faults.replacing import Replacing
from tests.faults.retries import until_answered
from tests.faults.schedule import KINDS, Pace
from tests.faults.worker import load_named
from tests.relay import Relay

ENSEMBLES, ENSEMBLES_OF_GROWTH, SERVERS = 3, 5, 3
START_TIMEOUT_S = 60.0
BEGIN_TRIES = END_TRIES = 5
DATA = "servers"
STRESS = "Crashes between any two requests lose no child, leave no orphan, repeat no sequence number"
FAULTS = "faults.jsonl"


class Outcome(NamedTuple):
    """What came of a run.

    :param judged: by name: what was promised, and what became of it.
    :param problems: of the run itself.
    :param no_network: why nothing could be cut off; empty if it could. `no_loss`: the same, of random packets.
    :param busy_share: of the machine's processors' time, in the time of the faults.
    """

    judged: Mapping[str, tuple[str, Judgement]]
    faults: Sequence[Fault]
    problems: Sequence[str]
    no_network: str
    no_loss: str
    busy_share: float

    @property
    def problem_count(self) -> int:
        """How many problems there are in all."""
        return len(self.problems) + sum(len(judgement.problems) for _, judgement in self.judged.values())


def all_loads() -> list[str]:
    """The names of the modules of tests/faults/loads, but what this Python is too old for."""
    names = {each.name for each in pkgutil.iter_modules(loads.__path__) if not each.name.startswith("test_")}
    return sorted(names if sys.version_info >= (3, 11) else names - {"asyncio_lock", "gateway_registers"})


def run(
    names: Sequence[str],
    minutes: float,
    seed: int,
    pace: Pace,
    folder: Path,
    tell: Callable[[str], None],
    *,
    is_timed: bool,
    has_stress: bool,
    is_replacing: bool = False,
    is_growing: bool = False,
    has_moves: bool = False,
    kinds: Sequence[str] = KINDS,
) -> Outcome:
    """Everything, from the first server to the judgements. The journals are in `folder` afterwards.

    :param is_replacing: all servers are replaced, and there are no faults.
    :param is_growing: the map begins with one ensemble, and gets four more.
    :param has_moves: directories move.
    :param kinds: of faults.
    :raises LocalClusterError: servers cannot be started.
    """
    left_out = {*(NOT_OF_GROWTH if is_growing else ()), *(NOT_OF_MOVES if has_moves else ())}
    chosen = [load_named(name) for name in names if name not in left_out]
    find_java()
    find_zookeeper(tell)  # while there is a network that leads out
    with ExitStack() as stack:
        network, no_network = None, ""
        try:
            network = stack.enter_context(Network())
        except NetworkError as error:
            no_network = str(error)
        options: dict[str, Any] = {"machine_of": network.machine_of} if network else {}
        cluster = stack.enter_context(
            LocalCluster(
                ENSEMBLES_OF_GROWTH if is_growing else ENSEMBLES,
                SERVERS,
                folder / DATA,
                zoo_cfg=pace.zoo_cfg | reconfigured.ZOO_CFG,
                progress=tell,
                make_map=False,
                **options,
            )
        )
        relays = {each.name: stack.enter_context(Relay(each.servers[0].address)) for each in cluster.ensembles}
        # Each ensemble has one address more than it has servers.
        hosts = {each.name: f"{each.hosts},{relays[each.name].address}" for each in cluster.ensembles}
        bootstrap = hosts[cluster.ensembles[0].name]
        first = {cluster.ensembles[0].name: bootstrap}
        form = Form.GROWN if has_moves and not is_growing else Form.PLAIN
        make_map = partial(init_map, bootstrap, first if is_growing else hosts, form=form.word)
        until_answered(make_map, BEGIN_TRIES)  # a busy machine may have elections by itself
        prepare(bootstrap, chosen)
        anywhere = bootstrap if is_growing else ",".join(hosts.values())
        alone = None
        if network and is_growing and apart.LOAD in names:
            of_bootstrap = cluster.ensembles[0]
            alone = apart.Apart(network, of_bootstrap.name, [each.name for each in of_bootstrap.servers])
        inside = alone.inside if alone else {}
        crew = stack.enter_context(Crew(chosen, folder, anywhere, pace.session_timeout_s, seed, inside))
        tell(f"{len(crew.members)} client processes")
        crew.wait_progress("of the beginning")
        dice = random.Random(f"{seed}/nemesis")
        growing = (
            Growing(
                hosts, crew, pace.session_timeout_s, random.Random(f"{seed}/growth"), tell, folder / FAULTS, alone
            )
            if is_growing
            else None
        )
        nemesis: Nemesis | Replacing
        moves: Moves | None = None
        if is_replacing:
            nemesis = Replacing(cluster, relays, hosts, crew, tell, folder / FAULTS)
        else:
            reach = None if growing is None else lambda: growing.reach
            nemesis = Nemesis(cluster, relays, crew, network, pace, dice, tell, folder / FAULTS, reach, kinds)
            if has_moves:
                of_moves = random.Random(f"{seed}/moves")
                moves = Moves(bootstrap, crew, nemesis, pace.session_timeout_s, of_moves, tell)
        busy = Busy()
        if not crew.problems:
            if growing is not None:
                growing.begin(minutes)
            if moves is not None:
                moves.begin(minutes)
            nemesis.work(minutes)
            if growing is not None:
                growing.end()
            if moves is not None:
                moves.end()
        busy_share = busy.share()
        tell("no more faults")
        crew.wait_progress("after everything was healed")
        time.sleep(pace.quiet_end_s)
        grown = None if growing is None else growing.judgement()
        moved = None if moves is None else moves.judgement()
        crew.end()
        tell("reading what is there")
        finish(bootstrap, crew, chosen, folder)
        after = _after(cluster, hosts, pace, seed, tell, has_stress=has_stress and not nemesis.problems)
    tell("judging")
    are_times_judged = is_timed and busy_share <= pauses.BUSY_SHARE
    faults = nemesis.faults if growing is None else [*nemesis.faults, *growing.faults]
    judged = {
        load.name: (
            load.about,
            judge(load, crew, faults, pace.session_timeout_s, is_timed=are_times_judged, has_moves=has_moves),
        )
        for load in chosen
    }
    judged |= after
    if isinstance(nemesis, Replacing):
        judged["replacing"] = (ABOUT_REPLACING, nemesis.judgement)
    if grown is not None and growing is not None:
        judged["growth"] = (ABOUT_GROWING, grown)
        if pauses.LOAD in names:
            waited = pauses.judge(records_of(crew, pauses.LOAD), faults, growing.runs, busy_share)
            judged["pauses"] = (pauses.ABOUT, waited)
        if alone is not None:
            of_it = [each for each in records_of(crew, apart.LOAD) if each.worker == apart.NUMBER]
            judged["apart"] = (apart.ABOUT, apart.judge(faults, of_it, alone.ensemble))
    if moved is not None and moves is not None:
        judged["moves"] = (ABOUT_MOVES, moved)
        if pauses.LOAD in names:
            waited = pauses.judge(records_of(crew, pauses.LOAD), faults, moves.runs, busy_share, GOAL_OF_HOLDS_S)
            judged["holds"] = (ABOUT_HOLDS, waited)
    outcome = Outcome(judged, faults, nemesis.problems, no_network, network.no_loss if network else "", busy_share)
    if not outcome.problem_count:
        for data in (folder / DATA).glob("*/*/data"):
            shutil.rmtree(data)
    return outcome


def prepare(hosts: str, chosen: Sequence[Load]) -> None:
    """Make what the loads begin with."""
    client = ParKazooClient(hosts)
    client.start(START_TIMEOUT_S)
    for load in chosen:
        until_answered(partial(_prepare_one, client, load), BEGIN_TRIES)
    client.stop()
    client.close()


def _prepare_one(client: ParKazooClient, load: Load) -> None:
    """From its beginning, also if a connection was lost in the middle."""
    with suppress(NoNodeError):
        client.delete(root_of(load), recursive=True)
    client.ensure_path(root_of(load))
    load.prepare(client, root_of(load))


def finish(hosts: str, crew: Crew, chosen: Sequence[Load], folder: Path) -> None:
    """Read what the loads have left, into the crew's endings."""
    for load in chosen:
        journal = folder / f"{load.name}-end.jsonl"
        try:
            until_answered(partial(_read_end, hosts, load, journal), max_tries=END_TRIES)
        except Exception:
            crew.problems.append((load.name, f"its end cannot be read: {traceback.format_exc()}"))
        crew.endings[load.name] = read_journal(journal) if journal.exists() else []


def _read_end(hosts: str, load: Load, journal: Path) -> None:
    """Without faults, but on a busy machine connections are lost all the same: then all is read again."""
    journal.unlink(missing_ok=True)
    end = Worker(-1, 0, root_of(load), hosts, 0, journal, random.Random(0))
    client = ParKazooClient(hosts)
    client.start(START_TIMEOUT_S)
    try:
        load.finish(client, root_of(load), end.record)
    finally:
        client.stop()
        client.close()


def _after(
    cluster: LocalCluster,
    hosts: Mapping[str, str],
    pace: Pace,
    seed: int,
    tell: Callable[[str], None],
    *,
    has_stress: bool,
) -> dict[str, tuple[str, Judgement]]:
    """What is looked at when there are neither loads nor faults any more.

    :param hosts: of each ensemble, as they stand in the map.
    """
    found = {}
    if has_stress and pace.crashes:
        tell(f"{pace.crashes} crashes between two requests")
        found["stress"] = (STRESS, stress.run(cluster, pace.crashes, seed, tell))
    tell("fsck")
    found["fsck"] = (ABOUT, judge_tree(cluster.hosts))
    if has_stress and pace.crashes:
        tell("an ensemble is emptied")
        found["emptied"] = (emptied.ABOUT, emptied.run(cluster, hosts, seed))
    return found


def records_of(crew: Crew, load: str) -> list[Record]:
    """Of all its workers, in the order of their times."""
    found = [record for member in crew.members if member.load.name == load for record in member.records()]
    return sorted(found, key=lambda each: each.at_s)


def judge(
    load: Load, crew: Crew, faults: Sequence[Fault], session_timeout_s: float, *, is_timed: bool, has_moves: bool
) -> Judgement:
    """What became of a load's promise."""
    records = sorted(records_of(crew, load.name) + crew.endings.get(load.name, []), key=lambda each: each.at_s)
    problems = [problem for name, problem in crew.problems if name == load.name]
    try:
        judged = judges.judge(load.name, Run(records, faults, session_timeout_s, is_timed, has_moves))
    except Exception:
        return Judgement([*problems, f"it cannot be judged: {traceback.format_exc()}"], {})
    return Judgement([*problems, *judged.problems], judged.figures)
