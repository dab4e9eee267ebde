"""What clients ask: an endless sequence of requests on the znodes of some directories."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, count, cycle, islice
from typing import Any, NamedTuple

from kazoo.exceptions import NodeExistsError

from bench.load.plan import Plan
from parkazoo.protocol.placement import Placement

CREATE, DELETE, GET, SET, SESSION = range(5)
WRITES = (CREATE, DELETE, SET, SESSION)
OF_A_NEW_DIRECTORY = 8  # creates in it
IN_FLIGHT = 64


class Request(NamedTuple):
    """
    :param directory: its number.
    """

    kind: int
    directory: int
    path: str


def name_directories(plan: Plan) -> list[str]:
    """Unless their places are left to chance, the children of the first are on the first ensemble, and so on."""
    names = (f"{plan.root}/d{number}" for number in count())
    if plan.is_hashed:
        return list(islice(names, plan.directories))
    of_children = Placement(plan.ensembles).of_children
    wanted = cycle(range(plan.ensembles))
    return list(
        islice((next(name for name in names if of_children(name) == each) for each in wanted), plan.directories)
    )


def zipf_weights(count: int, exponent: float) -> list[float]:
    """The n-th has the share 1/n**exponent of the first."""
    return [1 / rank**exponent for rank in range(1, count + 1)]


def choose_directories(plan: Plan, chance: random.Random) -> Iterator[int]:
    """Numbers of directories, without end. With equal weights each round has all of them, in random order."""
    if plan.zipf:
        weights = list(accumulate(zipf_weights(plan.directories, plan.zipf)))
        while True:
            yield from chance.choices(range(plan.directories), cum_weights=weights, k=1000)
    while True:
        yield from chance.sample(range(plan.directories), plan.directories)


class Requests:
    """Those of one client, or of a sequence of it: one request in flight, and its successors.

    :param paths: of the plan's directories.
    :param name: distinguishes its znodes from those of all others.
    :param directory: it stays there; None: it goes about.
    """

    def __init__(
        self, plan: Plan, paths: Sequence[str], name: str, chance: random.Random, directory: int | None = None
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._chance = chance
        self._directories = choose_directories(plan, chance) if directory is None else cycle([directory])
        self._names = (f"{name}-{number}" for number in count())
        self._made: deque[Request] = deque()
        self._new: list[Request] = []  # the next creates in a new directory, the last one first
        self._value = value_of(plan)
        self._in_batches = self._batches() if plan.batch else None

    def draw(self) -> Request:
        if self._in_batches:
            return next(self._in_batches)
        if self._plan.read_share and self._chance.random() < self._plan.read_share:
            return self._of_leaf(GET)
        if self._plan.write == "set":
            return self._of_leaf(SET)
        if self._plan.write == "sessions":
            return Request(SESSION, 0, "")
        if self._plan.write == "new-directories":
            return self._of_new_directory()
        if self._made:
            made = self._made.popleft()
            return Request(DELETE, made.directory, made.path)
        return self._create()

    def _batches(self) -> Iterator[Request]:
        recent = round(self._plan.recent_share * self._plan.batch)
        while True:
            made = []
            for number in range(self._plan.batch):
                made.append(self._of_leaf(SET))
                yield made[-1]
                if number < recent:
                    yield made[-1]._replace(kind=GET)
            for each in made[recent:]:
                yield each._replace(kind=GET)

    def _create(self) -> Request:
        directory = next(self._directories)
        return Request(CREATE, directory, f"{self._paths[directory]}/{next(self._names)}")

    def _of_new_directory(self) -> Request:
        if not self._new:
            new = self._create()
            self._new = [new._replace(path=f"{new.path}/{each}") for each in range(OF_A_NEW_DIRECTORY)] + [new]
        return self._new.pop()

    def _of_leaf(self, kind: int) -> Request:
        directory = next(self._directories)
        return Request(kind, directory, _leaf(self._paths[directory], self._chance.randrange(self._plan.leaves)))

    def done(self, request: Request) -> None:
        """The request was answered, without an error."""
        if request.kind == CREATE and self._plan.write == "create-delete":
            self._made.append(request)

    def ask(self, client: Any, request: Request) -> Any:
        """Send it, without waiting.

        :returns: its asynchronous result.
        """
        if request.kind == CREATE:
            return client.create_async(request.path, self._value)
        if request.kind == DELETE:
            return client.delete_async(request.path)
        if request.kind == GET:
            return client.get_async(request.path)
        return client.set_async(request.path, self._value)

    def put(self, later: Any, request: Request) -> Any:
        """Send a set as a deferred write.

        :returns: its ticket.
        """
        return later.put(request.path, self._value)


def value_of(plan: Plan) -> bytes:
    return b"x" * plan.size


def make_znodes(client: Any, plan: Plan, paths: Sequence[str]) -> None:
    """The directories, and the leaves in them if any are asked for. What is there is not sent again."""
    client.ensure_path(plan.root)
    there = set(client.get_children(plan.root))
    _wait_all(client.create_async(path) for path in paths if path.rpartition("/")[2] not in there)
    if plan.read_share or plan.write == "set":
        has_leaves = [client.exists_async(_leaf(path, plan.leaves - 1)) for path in paths]
        missing = [path for path, result in zip(paths, has_leaves, strict=True) if result.get() is None]
        _wait_all(
            client.create_async(each, value_of(plan)) for path in missing for each in leaves_of(path, plan.leaves)
        )


def leaves_of(directory: str, count: int) -> list[str]:
    """The znodes in it that reads and sets are about."""
    return [_leaf(directory, number) for number in range(count)]


def _leaf(directory: str, number: int) -> str:
    return f"{directory}/leaf{number}"


def _wait_all(results: Iterable[Any]) -> None:
    """Some at a time. That something exists already is no failure."""
    waiting: deque[Any] = deque()
    for result in results:
        waiting.append(result)
        if len(waiting) == IN_FLIGHT:
            _wait(waiting.popleft())
    for result in waiting:
        _wait(result)


def _wait(result: Any) -> None:
    with suppress(NodeExistsError):
        result.get()
