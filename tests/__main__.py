"""Runs the tests, each part as a nose2 process of its own, and ends with the counts."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import ROOT
from parkazoo.local import LocalClusterError, find_java, find_zookeeper, free_ports
from parkazoo.local.addresses import PORTS_OF_A_SERVER
from parkazoo.local.class_data import class_data_flags
from tests.progress import PartProgress, shown
from tests.report import OUTCOMES

LOGS = ROOT / "build" / "tests"
LOG_LINES_SHOWN = 15
LINES_SHOWN, COLUMNS_SHOWN = 6, 300  # of what a failed test said, in the last list
ALL_LINES_SHOWN = 24  # of all that failed, and at least one of each
SERVERS = 9
NO_FSYNC = (
    "-Dzookeeper.forceSync=no"  # of the tests' servers: a disk that others use would decide how long it takes
)
STOLEN = 0.1  # of the CPU time of a test: it failed, but proves little
MOST_AGAIN = 20
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 << 30  # bytes
# What needs no server. Each room has the tests of the folder of parkazoo/ of its name; "repository" has those of
# the rules of the code, of the pages and of what runs the tests.
ROOMS = ("protocol", "engine", "wire", "compat", "aio", "gateway", "structures", "admin", "repository")
PURE = tuple(f"tests/{room}/test_*.py" for room in ROOMS)
CLIENT = ("tests/live/test_client_*.py",)
MAP = ("tests/live/test_map*.py",)
# What a handler may change: it waits, calls back, locks or forks.
OF_HANDLERS = tuple(
    f"tests/live/test_client_{name}.py"
    for name in (
        "callbacks",
        "dictionary_changes",
        "fork",
        "listeners",
        "lock",
        "moves",
        "once",
        "queue",
        "reach",
        "session",
        "start",
        "swept",
        "waits",
        "watch_recipes",
        "watches",
        "wire",
    )
)
# Half of them: everything patched is what a gevent program does, and has all.
OF_UNPATCHED = tuple(
    f"tests/live/test_client_{name}.py"
    for name in ("callbacks", "dictionary_changes", "fork", "lock", "moves", "session", "start", "watches")
)
FAULTS = ("tests/faults/test_*.py", "tests/faults/judges/test_*.py", "tests/drills/test_*.py")
SUITE = ("tests/kazoo_suite/suite.py",)
CORE = tuple(
    f"tests/{room}/test_*.py" for room in ("compat", "engine", "protocol", "repository", "structures", "wire")
)
LONG = ("tests/protocol/test_fsck*.py", "tests/protocol/test_*pipeline.py")
SLICE = tuple(
    f"tests/live/test_{name}.py"
    for name in ("client_tree", "client_transactions", "client_queue", "errors", "map_command", "words")
)


@dataclass(frozen=True)
class Part:
    """A part of the tests.

    :param files: patterns of its files, from the root of the checkout; `without`: of files that are another's.
    """

    about: str
    files: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    has_servers: bool = True
    by_default: bool = True
    without: tuple[str, ...] = ()

    @property
    def modules(self) -> list[str]:
        others = {path for pattern in self.without for path in ROOT.glob(pattern)}
        found = {path for pattern in self.files for path in ROOT.glob(pattern)} - others
        return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found)


PARTS = {
    "pure": Part("no server", PURE, has_servers=False),
    "explore": Part(
        "production clients in every order of answers", ("tests/explore/test_*.py",), has_servers=False
    ),
    "typing": Part("a user's program under mypy", ("tests/typing/test_*.py",), has_servers=False),
    "site": Part("the site from docs/", ("tests/site/test_*.py",), has_servers=False),
    "client": Part("the client on real ensembles", CLIENT),
    "map": Part("the commands of the map on real ensembles", MAP),
    "live": Part("all else on real ensembles", ("tests/live/test_*.py",), without=CLIENT + MAP),
    "gevent": Part(
        "half of what a handler may change, with gevent's", OF_UNPATCHED, {"PARKAZOO_TEST_HANDLER": "gevent"}
    ),
    "gevent-patched": Part(
        "what a handler may change, everything patched by gevent",
        OF_HANDLERS,
        {"PARKAZOO_TEST_HANDLER": "gevent-patched"},
    ),
    "faults": Part("servers and clients killed, frozen, cut off: a short run", FAULTS),
    "fuzz": Part("the same random calls on kazoo and on ParKazoo", ("tests/fuzz/test_*.py",)),
    "recipes": Part("every program of recipes/", ("tests/recipes/test_*.py",)),
    "bench": Part("the benchmarks, at a small size", ("tests/bench/test_*.py",)),
    "kazoo-3": Part("kazoo's own tests: ParKazooClient, 3 ensembles", SUITE, {"PARKAZOO_SUITE": "3"}),
    "kazoo-grown": Part("kazoo's own tests: a map of form grown", SUITE, {"PARKAZOO_SUITE": "grown"}),
    "kazoo-1": Part(
        "kazoo's own tests: ParKazooClient, 1 ensemble", SUITE, {"PARKAZOO_SUITE": "1"}, by_default=False
    ),
    "kazoo-plain": Part(
        "kazoo's own tests: KazooClient, the control", SUITE, {"PARKAZOO_SUITE": "plain"}, by_default=False
    ),
    "kazoo-gateway": Part(
        "kazoo's own tests: KazooClient at gateways, 3 ensembles",
        SUITE,
        {"PARKAZOO_SUITE": "gateway"},
        by_default=False,
    ),
    "neighbours": Part(
        "programs in other languages at gateways, 3 ensembles", ("tests/neighbours/test_*.py",), by_default=False
    ),
    "core": Part(
        "no server: how requests find their way", CORE, has_servers=False, by_default=False, without=LONG
    ),
    "slice": Part("some of the live tests: what breaks first", SLICE, by_default=False),
}
LONGEST = ("live", "bench", "map")  # of several parts at a time these begin first: none runs alone at the end
DEFAULT = [name for name, part in PARTS.items() if part.by_default]
OTHERS = [name for name in PARTS if name not in DEFAULT]


@dataclass
class Result:
    """What became of a part. `trouble` is why it did not run properly; it counts as one failed test."""

    outcomes: dict[str, str] = field(default_factory=dict)  # by test
    stolen: dict[str, float] = field(default_factory=dict)  # by test that failed: the part of its CPU time
    seconds: float = 0
    trouble: str = ""
    details: dict[str, str] = field(default_factory=dict)  # by test that failed: what it said

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.outcomes.values())

    @property
    def failed(self) -> list[str]:
        return [test for test, outcome in self.outcomes.items() if outcome == "failed"]


def settings() -> dict[str, str]:
    """Environment for tests: their servers do not wait for a disk, which others may use too."""
    java_options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {NO_FSYNC}".strip()
    found = {**os.environ, "JAVA_TOOL_OPTIONS": java_options}
    found.pop("PYTHONDONTWRITEBYTECODE", None)  # images set it: then each process compiles all that it imports
    if "TMPDIR" not in found and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED:
        found["TMPDIR"] = str(MEMORY)
    return found


def run_process(command: list[str], environment: dict[str, str], log: Path, output: Path | None) -> int:
    environment = {**settings(), **environment}
    with ExitStack() as files:
        errors = files.enter_context(log.open("w"))
        out = output and files.enter_context(output.open("w"))
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment
        )
    return process.wait()


def run(
    name: str,
    texts: Sequence[str],
    is_verbose: bool,
    output: Path | None,
    file: str,
    python: str = sys.executable,
    variables: Mapping[str, str] | None = None,
) -> Result:
    """Run a part.

    :param texts: only tests whose names hold one of them; none: all.
    :param output: a file for what it prints; None: that is seen at once.
    :param file: name of its results and of its log.
    :param python: runs it. :param variables: of its environment, beside the part's own.
    """
    part = PARTS[name]
    began = time.monotonic()
    results, log = LOGS / f"{file}.jsonl", LOGS / f"{file}.log"
    command = [python, "-m", "tests.part", "--results", str(results), *part.modules]
    for text in texts:
        command += ["-k", text]
    if is_verbose:
        command.append("-v")
    status = 0
    with (LOGS / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return Result(trouble="another run of this part is under way in this checkout")
        results.unlink(missing_ok=True)
        if part.modules:
            status = run_process(command, {**part.environment, **(variables or {})}, log, output)
        records = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    tests = [record for record in records if "test" in record]
    result = Result(
        {record["test"]: record["outcome"] for record in tests},
        {record["test"]: record["stolen"] for record in tests if record["outcome"] == "failed"},
        time.monotonic() - began,
        details={record["test"]: record["detail"] for record in tests if record["outcome"] == "failed"},
    )
    if part.modules and not any("end" in record for record in records):
        last = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
        running = next((record["running"] for record in reversed(records) if "running" in record), "no test")
        result.trouble = f"it died (status {status}) while {running} ran; the log says last:\n{last}"
    elif not sum(result.counts[each] for each in ("passed", "failed", "listed")):
        result.trouble = "no test ran" + (f" whose name holds {' or '.join(texts)}" if texts else "")
    elif status and not result.failed:
        result.trouble = f"it ended with status {status}, though no test failed; see {log.relative_to(ROOT)}"
    return result


def count_tests(names: Sequence[str], texts: Sequence[str]) -> dict[str, int]:
    """How many tests each part has. Modules are loaded once, two processes at a time."""
    settings_of = {name: tuple(PARTS[name].environment.items()) for name in names if PARTS[name].files == SUITE}
    shared = dict.fromkeys(module for name in names if name not in settings_of for module in PARTS[name].modules)
    halves = [list(shared)[::2], list(shared)[1::2]]
    with ThreadPoolExecutor(2) as pool:
        by_half = [pool.submit(_count, half, (), texts) for half in halves if half]
        of_suite = {
            name: pool.submit(_count, PARTS[name].modules, environment, texts)
            for name, environment in settings_of.items()
        }
        by_module = {module: number for each in by_half for module, number in each.result().items()}
        counts = {name: sum(each.result().values()) for name, each in of_suite.items()}
    return {name: counts.get(name, sum(by_module.get(each, 0) for each in PARTS[name].modules)) for name in names}


def _count(modules: Sequence[str], environment: Sequence[tuple[str, str]], texts: Sequence[str]) -> dict[str, int]:
    """By module; nothing of what cannot be loaded, which a run will say."""
    command = [sys.executable, "-m", "tests.part", *(f"-k{text}" for text in texts), *modules]
    done = subprocess.run(
        command, cwd=ROOT, env={**settings(), **dict(environment)}, capture_output=True, text=True, check=False
    )
    found: dict[str, int] = json.loads(done.stdout or "{}")
    return found


class Runner:
    """Runs parts, and shows what they print: at once if it runs one at a time, else at the end of each."""

    def __init__(self, console: Console, texts: Sequence[str], is_verbose: bool, at_a_time: int) -> None:
        self._console = console
        self._texts = texts
        self._is_verbose = is_verbose
        self._at_a_time = at_a_time
        self._showing = threading.Lock()

    def run(self, names: list[str]) -> dict[str, Result]:
        counts = count_tests(names, self._texts)
        at_a_time = min(self._at_a_time, len(names))
        many = f"{len(names)} parts" if len(names) > 1 else "1 part"
        self._say(f"{many}, {sum(counts.values()):,} tests, {at_a_time} at a time")
        parts = [PartProgress.begin(LOGS / f"{name}.jsonl", counts[name]) for name in names]
        with shown(self._console, parts if self._at_a_time > 1 else (), at_a_time):
            results = self._run_all(names)
        for name, result in results.items():
            if result.stolen and len(result.stolen) <= MOST_AGAIN and min(result.stolen.values()) >= STOLEN:
                self._run_again(name, result)
        return results

    def _run_all(self, names: list[str]) -> dict[str, Result]:
        with ThreadPoolExecutor(self._at_a_time) as pool:
            running = {name: pool.submit(self._run, name) for name in in_order(names, self._at_a_time)}
            try:
                results = {name: running[name].result() for name in names}
            except KeyboardInterrupt:  # the parts that run got it too, and stop their servers
                pool.shutdown(cancel_futures=True)
                raise
        return results

    def _run(self, name: str) -> Result:
        output = LOGS / f"{name}.out" if self._at_a_time > 1 else None
        if output is None:
            self._begin(name)
        result = run(name, self._texts, self._is_verbose, output, name)
        with self._showing:
            if output is not None and output.exists():
                self._begin(name)
                sys.stdout.write(output.read_text())
                sys.stdout.flush()
            if result.trouble:
                self._say(f"  FAILED {name}: {result.trouble}")
        return result

    def _run_again(self, name: str, result: Result) -> None:
        """Run what failed while the host gave the CPU to others, with nothing beside it. This run counts."""
        self._console.rule(f"{name}: again, what failed on a machine without its CPU", align="left", style="dim")
        for test, stolen in result.stolen.items():
            self._say(f"  {test}: {stolen:.0%} of the CPU time went to other machines")
        again = run(name, [name_within(test) for test in result.stolen], self._is_verbose, None, f"{name}.again")
        if again.trouble:
            self._say(f"  FAILED {name}: {again.trouble}")
            result.trouble = again.trouble
        else:
            outcomes = {test: outcome for test, outcome in result.outcomes.items() if test not in result.stolen}
            result.outcomes = outcomes | again.outcomes
            result.details |= again.details
        result.seconds += again.seconds

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _begin(self, name: str) -> None:
        self._console.rule(f"{name}: {PARTS[name].about}", align="left", style="dim")


def in_order(names: Sequence[str], at_a_time: int) -> list[str]:
    """In which order the parts begin."""
    first = [name for name in LONGEST if name in names and at_a_time > 1]
    return [*first, *(name for name in names if name not in first)]


def name_within(test: str) -> str:
    """What the names of the tests hold that are meant: those of a class, if its setUpClass failed."""
    return test.rpartition("(")[2].rstrip(")").removeprefix("kazoo.").removeprefix("tests.")


def prepare(console: Console) -> None:
    """See that servers can be started, before hundreds of tests say that they cannot.

    :raises LocalClusterError: no Java, no ZooKeeper and no network, no free ports.
    """

    def tell(said: str) -> None:
        console.print(f"  {said}", markup=False, highlight=False)

    class_data_flags(find_java(), find_zookeeper(tell), tell)  # before two parts need it at once
    free_ports(SERVERS * PORTS_OF_A_SERVER)


def files_of_no_part() -> list[str]:
    """Test files that no part would run."""
    covered = {module for part in PARTS.values() for module in part.modules}
    files = (path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
    return sorted(str(path) for path in files if ".".join(path.with_suffix("").parts) not in covered)


def print_summary(console: Console, results: dict[str, Result]) -> None:
    table = Table(title="tests", title_justify="left")
    table.add_column("part", no_wrap=True)
    for each in (*OUTCOMES, "seconds"):
        table.add_column(each, justify="right")
    table.add_column("")
    for name, result in results.items():
        table.add_row(
            name,
            *(str(result.counts[each]) for each in OUTCOMES),
            f"{result.seconds:.0f}",
            "see above" if result.trouble else "",
        )
    console.print()
    failed = sum(len(result.failed) for result in results.values())
    lines = max(1, min(LINES_SHOWN, ALL_LINES_SHOWN // max(1, failed)))
    for name, result in results.items():
        for test in result.failed:
            console.print(f"FAILED {name}: {test}", markup=False, highlight=False, soft_wrap=True)
            for line in result.details[test].splitlines()[-lines:]:  # some show the end of all this alone
                console.print(f"    {line[:COLUMNS_SHOWN]}", markup=False, highlight=False, soft_wrap=True)
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument(
        "parts", metavar="PART", nargs="*", help=f"of {', '.join(PARTS)}; by default all but {', '.join(OTHERS)}"
    )
    parser.add_argument(
        "-k", metavar="TEXT", dest="texts", action="append", default=[], help="only tests whose names hold TEXT"
    )
    parser.add_argument(
        "-j",
        metavar="N",
        dest="at_a_time",
        type=int,
        default=1,
        help="so many parts at a time; what each prints is shown at its end",
    )
    parser.add_argument("-v", dest="is_verbose", action="store_true", help="one line per test")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if lost := files_of_no_part():
        parser.error(f"no part runs {', '.join(lost)}: see PARTS in tests/__main__.py")
    if options.at_a_time < 1:
        parser.error("-j: at least 1")
    names = [name for name, part in PARTS.items() if name in (options.parts or DEFAULT)]
    LOGS.mkdir(parents=True, exist_ok=True)
    console = Console()
    try:
        if any(PARTS[name].has_servers for name in names):
            prepare(console)
        results = Runner(console, options.texts, options.is_verbose, options.at_a_time).run(names)
    except LocalClusterError as error:
        console.print(f"no test was run: {error}", markup=False, highlight=False)
        print("0 passed, 1 failed")
        return 1
    except KeyboardInterrupt:
        console.print("\ninterrupted")
        return 130
    print_summary(console, results)
    passed = sum(result.counts["passed"] for result in results.values())
    failed = sum(result.counts["failed"] + bool(result.trouble) for result in results.values())
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
