"""What the pages claim, and what holds it: a test, a result, and how to see it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bench import ROOT
from bench.pages.raw import Raw
from bench.report.section import Answer, Section, Table
from bench.scenarios import cuts, ensembles_added, failures, scaling

NAME = "claims"
TITLE = "Claims, and what holds them"
ROOT_FROM_PAGE = "../.."  # docs/evaluation has the page
FAULTS = "make faults MINUTES=30"
GROW = f"{FAULTS} GROW=1"


class Results(NamedTuple):
    """
    :param faults: the runs of tests.faults, the oldest first.
    :param answers: by scenario.
    :param ratios: by load of bench.client.
    """

    faults: Sequence[Raw]
    answers: Mapping[str, Sequence[Answer]]
    ratios: Mapping[str, float]


class Claim(NamedTuple):
    """
    :param page: that makes the claim, with an anchor; from the root of the repository.
    :param tests: files or folders.
    :param result: in words, from the results.
    :param command: by which it can be seen again.
    """

    claim: str
    page: str
    tests: Sequence[str]
    result: Callable[[Results], str]
    command: str


def section(raws: Sequence[Raw], answers: Mapping[str, Sequence[Answer]], ratios: Mapping[str, float]) -> Section:
    """
    :param raws: the oldest first.
    """
    results = Results([raw for raw in raws if "promises" in raw.document], answers, ratios)
    rows = [
        [
            f"{each.claim} ({_link(each.page.partition('#')[0], each.page)})",
            ", ".join(_link(test.removeprefix("tests/").removesuffix(".py"), test) for test in each.tests),
            each.result(results),
            each.command,
        ]
        for each in CLAIMS
    ]
    return Section(
        NAME,
        TITLE,
        "Results are those of all committed runs. A run of faults with a problem is named; "
        "docs/design/faults.md and bugs.md say what was wrong, and what was mended.",
        [
            Table(
                "Each with its page, its tests and its newest result",
                ("claim", "test", "result", "again"),
                rows,
                True,
            )
        ],
    )


def _link(text: str, path: str) -> str:
    return f"[{text}]({ROOT_FROM_PAGE}/{path})"


def _judged(*figures: tuple[str, str]) -> Callable[[Results], str]:
    """Of the runs of faults, how much of some promises was judged, and in which runs there were problems.

    :param figures: a promise, and the name of its figure.
    """

    def say(results: Results) -> str:
        promises = {promise for promise, _ in figures}
        runs = [raw for raw in results.faults if promises & {*raw.document["promises"]}]
        counted = [
            f"{sum(_figures(raw, promise).get(name, 0) for raw in runs):,} {name}"
            + (f" ({promise})" if len(promises) > 1 else "")
            for promise, name in figures
        ]
        wrong = [
            _link(str(raw.document["seed"]), str(raw.path.relative_to(ROOT)))
            for raw in runs
            if any(raw.document["promises"].get(promise, {}).get("problems") for promise in promises)
        ]
        problems = f"problems in {', '.join(wrong)}" if wrong else "no problem"
        return f"{len(runs)} runs, the last of {runs[-1].date[:10]}: {', '.join(counted)}; {problems}"

    return say


def _figures(raw: Raw, promise: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = raw.document["promises"].get(promise, {}).get("figures", {})
    return found


def _answered(scenario: str, beginning: str = "") -> Callable[[Results], str]:
    """What a scenario answers.

    :param beginning: of the questions that are meant.
    """

    def say(results: Results) -> str:
        of_parts = (some for name, some in results.answers.items() if name.partition("-")[0] == scenario)
        found = [each for some in of_parts for each in some if each.asked.startswith(beginning)]
        return "; ".join(each.measured + _verdict(each) for each in found) or "not measured"

    return say


def _verdict(answer: Answer) -> str:
    if not answer.goal:
        return ""
    verdicts = {True: "met", False: "not met", None: "not decided"}
    return f" ({answer.goal}: {verdicts[answer.is_met]})"


def _ratio(load: str, about: str) -> Callable[[Results], str]:
    def say(results: Results) -> str:
        return f"{results.ratios[load]:.2f} {about}" if load in results.ratios else "not measured"

    return say


def _by_tests(_: Results) -> str:
    return "by these tests alone, which pass at every commit"


OTHERS = "What share of the requests to the other ensembles"
CLAIMS = (
    Claim(
        "Three ensembles do 2.85 times the requests of one at least, nine 8.5 times",
        "docs/design/evaluation.md",
        ["tests/bench/test_scenarios.py"],
        _answered(scaling.NAME),
        f"python -m bench.scenarios {scaling.NAME} --emulate",
    ),
    Claim(
        "While servers of one ensemble are lost, the others answer",
        "docs/design/evaluation.md",
        ["tests/faults/judges/test_one_down.py"],
        _answered(failures.NAME, OTHERS),
        f"python -m bench.scenarios {failures.NAME} --emulate",
    ),
    Claim(
        "While servers of one ensemble do not hear each other, the others answer",
        "docs/design/evaluation.md",
        ["tests/faults/test_network.py"],
        _answered(cuts.NAME, OTHERS),
        f"python -m bench.scenarios {cuts.NAME} --emulate",
    ),
    Claim(
        "While an ensemble is down, operations on the others succeed",
        "docs/design/faults.md#the-judges",
        ["tests/faults/judges/test_one_down.py", "tests/protocol/test_outages.py"],
        _judged(("one_down", "operations on the others"), ("one_down", "of them failed")),
        FAULTS,
    ),
    Claim(
        "A client that holds nothing on an absent ensemble sees no state and no failure",
        "README.md#how-it-works",
        ["tests/faults/judges/test_elsewhere.py", "tests/engine/test_session_states.py"],
        _judged(("elsewhere", "answers to them")),
        FAULTS,
    ),
    Claim(
        "A znode's parent exists, also if a client dies between two requests: no orphans, no lost children",
        "README.md#how-it-works",
        ["tests/faults/test_stress.py", "tests/explore/test_pairs.py", "tests/protocol/test_fences.py"],
        _judged(("stress", "crashes"), ("stress", "children created")),
        FAULTS,
    ),
    Claim(
        "Acknowledged writes last, and each znode's history is linearizable",
        "docs/design/faults.md#the-judges",
        ["tests/faults/judges/test_znodes.py", "tests/faults/test_linearizable.py"],
        _judged(("registers", "operations"), ("registers", "writes acknowledged")),
        FAULTS,
    ),
    Claim(
        "client.once does a write exactly once, lost connections included",
        "docs/design/once.md#how-this-is-checked",
        [
            "tests/protocol/test_once.py",
            "tests/live/test_client_once.py",
            "tests/explore/test_once_interrupted.py",
        ],
        _judged(("counter", "added"), ("queue", "put")),
        "python -m tests.faults counter queue --minutes 30",
    ),
    Claim(
        "Deferred writes land in order: a prefix of those issued, each once",
        "docs/design/deferred.md#why-it-holds",
        [
            "tests/explore/test_lanes.py",
            "tests/live/test_deferred.py",
            "tests/faults/judges/test_deferred_writes.py",
        ],
        _judged(("deferred", "written")),
        "python -m tests.faults deferred --minutes 30",
    ),
    Claim(
        "Ensembles are added while clients work: the slowest percent of requests is at most 1.2 times as late",
        "docs/design/evaluation.md#growth-under-load",
        ["tests/live/test_map_grow.py", "tests/engine/test_session_growth.py"],
        _answered(ensembles_added.NAME),
        f"python -m bench.scenarios {ensembles_added.NAME} --emulate",
    ),
    Claim(
        "A map grows under faults and killed commands, and every client follows it",
        "docs/design/faults.md#growth",
        ["tests/faults/test_growing.py", "tests/live/test_map_growth.py"],
        _judged(("growth", "commands killed"), ("growth", "clients")),
        GROW,
    ),
    Claim(
        "A lock never has two holders while the first one's session provably lives",
        "docs/design/faults.md#the-judges",
        ["tests/faults/judges/test_holders.py", "tests/live/test_client_lock.py"],
        _judged(("lock", "held"), ("election", "held"), ("crowd", "held")),
        FAULTS,
    ),
    Claim(
        "If the session expires, its ephemerals go from all ensembles, and not before",
        "README.md#how-it-works",
        ["tests/faults/judges/test_znodes.py", "tests/live/test_client_session.py"],
        _judged(("ephemerals", "of ended sessions")),
        FAULTS,
    ),
    Claim(
        "No watch's event is lost, repeated, untrue or out of order",
        "docs/design/faults.md#the-judges",
        ["tests/faults/judges/test_znodes.py", "tests/live/test_client_watches.py"],
        _judged(("watches", "events")),
        FAULTS,
    ),
    Claim(
        "A DistributedDict loses no write and does none twice",
        "docs/guide/distributed-dict.md",
        ["tests/faults/judges/test_dictionary.py", "tests/live/test_dictionary_model.py"],
        _judged(("dictionary", "written"), ("dictionary", "added")),
        "python -m tests.faults dictionary --minutes 30",
    ),
    Claim(
        "A LockingQueue loses no item, a Queue gives none twice",
        "docs/design/faults.md#the-judges",
        ["tests/faults/judges/test_items.py", "tests/live/test_client_queue.py"],
        _judged(("locking_queue", "consumed"), ("queue", "given")),
        FAULTS,
    ),
    Claim(
        "On one ensemble the client costs less than kazoo's: a synchronous get, operations/s",
        "docs/design/performance.md",
        ["tests/bench/test_client_bench.py", "tests/engine/test_calls_counted.py"],
        _ratio("sync-get", "times kazoo's"),
        "make bench-client",
    ),
    Claim(
        "The same calls give the same answers as with kazoo on one ZooKeeper, but for the listed differences",
        "docs/reference/differences.md",
        ["tests/fuzz", "tests/kazoo_suite", "tests/live/test_errors.py"],
        _by_tests,
        "make fuzz",
    ),
)
