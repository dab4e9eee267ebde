"""A client that has a session, says its id, and does nothing until its input ends."""

from __future__ import annotations

import sys

from parkazoo import ParKazooClient
from parkazoo.protocol.registration import format_session


def main() -> None:
    client = ParKazooClient(sys.argv[1], timeout=60)
    client.start()
    assert client.client_id is not None
    print(format_session(client.client_id[0]), flush=True)
    sys.stdin.read()
    client.stop()


if __name__ == "__main__":
    main()
