"""Which of kazoo's own tests are expected to fail or to be skipped, and why.

A name is ``module.Class.test``; ``*`` stands for anything. An entry that fits no test, or whose tests pass,
fails the run: these lists do not rot.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

EVERYWHERE = ("plain", "1", "3", "grown", "gateway")


@dataclass(frozen=True)
class Entry:
    """Tests that are expected to fail (or to be skipped).

    :param suites: values of PARKAZOO_SUITE for which it holds.
    :param is_flaky: they pass at times, by the test's own timing; then neither outcome fails the run.
    """

    names: str
    reason: str
    suites: tuple[str, ...] = ("1", "3", "grown")
    is_flaky: bool = False


# Tests that assert the internals of a single connection, and so cannot hold for several; and where ours is better.
LISTED: tuple[Entry, ...] = (
    Entry(
        "*.test_create_large_value",
        "asserts ConnectionLoss, which every retry repeats for ever; ours is RequestTooLargeError",
    ),
    Entry(
        "test_connection.TestUnorderedXids.test_xids_mismatch",
        "replaces the loop of the one connection before it starts, and the deque of its pending requests",
    ),
    Entry(
        "test_connection.TestConnectionHandler.test_connection_sock",
        "asserts that the sockets which wake the client's thread are open after stop(); here all clients of a "
        "process share them, and the last one to stop lets them go",
        is_flaky=True,
    ),
    Entry(
        "*.test_client_id",
        "asserts the 16 bytes of one ZooKeeper session's password; ours resumes three sessions and is longer",
        ("3", "grown"),
    ),
    Entry(
        "*.test_request_queuing_session_*",
        "gives the client one of three servers, stops it and asserts SUSPENDED a little later; with several "
        "ensembles the map says which servers there are, so the client may have gone on with another one",
        ("3", "grown"),
        is_flaky=True,
    ),
    Entry(
        "test_connection.TestConnectionDrop.test_connection_dropped",
        "asserts that a set which has been sent is not answered before its thread comes to its next line",
        is_flaky=True,
    ),
    Entry(
        "test_lock.KazooLockTests.test_lock",
        "waits for the moment between two holders, and for ever if the next one is quicker than its thread",
        is_flaky=True,
    ),
    Entry(
        "test_cache.KazooTreeCacheTests.test_close",
        "looks into the table of watches for a listing as soon as one of another znode, asked for later, has been "
        "answered; answers of different ensembles have no common order",
        ("3", "grown"),
        is_flaky=True,
    ),
    Entry(
        "test_queue.KazooLockingQueueTests.*",
        "its transactions change two directories; a gateway refuses those on two ensembles",
        ("gateway",),
        is_flaky=True,
    ),
    Entry("test_client.TestReconfig.*", "a gateway refuses reconfig", ("gateway",)),
    Entry("test_sasl.TestLegacySASLDigestAuthentication.*", "a gateway refuses SASL", ("gateway",)),
    Entry("test_sasl.TestSASLDigestAuthentication.*", "a gateway refuses SASL", ("gateway",)),
    Entry(
        "test_connection.TestReadOnlyMode.test_read_only",
        "stops two of three servers, and asserts that the third only reads; a gateway is there or not",
        ("gateway",),
    ),
    Entry(
        "*.test_request_queuing_session_recovered",
        "starts a server again and asserts that the client has its session back in 5 s; a gateway may take longer",
        ("gateway",),
        is_flaky=True,
    ),
)

# Tests that stop servers of the bootstrap ensemble, or leave it read-only, and assert what becomes of a request:
# they hold for three ensembles if the znodes in their chroot live there, so they get such a chroot. Every other
# test gets a random one.
ON_BOOTSTRAP = (
    "*.test_request_queuing_session_recovered",
    "*.test_request_queuing_session_expired",
    "test_connection.TestReadOnlyMode.test_read_only",
)

# Tests that fail with KazooClient itself against ZooKeeper 3.9; the part kazoo-plain verifies it.
FAIL_WITH_KAZOO_TOO: tuple[Entry, ...] = ()

# Tests that kazoo skips by itself; no other may be skipped.
SKIPPED: tuple[Entry, ...] = (
    Entry("test_build.TestBuildEnvironment.*", "checks kazoo's own build machine", EVERYWHERE),
    Entry("test_sasl.TestSASLGSSAPIAuthentication.*", "needs a Kerberos key distribution centre", EVERYWHERE),
)


def find(entries: tuple[Entry, ...], suite: str, name: str) -> Entry | None:
    """The entry for a test in a suite, if there is one."""
    return next((each for each in entries if suite in each.suites and fnmatchcase(name, each.names)), None)
