"""A process that uses a DistributedDict: ``python -m tests.live.dictionary_user HOSTS PATH POLICY``.

It has a client, and `d`. Each line that it reads is Python. It answers with a line of JSON: what the line has
shown, and how many requests the process has sent to servers since it began, but for those that a client makes of
its own accord, now and then.
"""

from __future__ import annotations

import ast
import json
import sys
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.structures import policies
from parkazoo.wire.member import OWN_REQUESTS, Member


def show(line: str, names: dict[str, Any]) -> str | None:
    """What an interactive Python shows."""
    try:
        ast.parse(line, mode="eval")
    except SyntaxError:
        exec(line, names)
        return None
    return repr(eval(line, names))


def main() -> None:
    hosts, path, policy = sys.argv[1:]
    with mock.patch.object(Member, "submit", autospec=True, side_effect=Member.submit) as submit:
        client = ParKazooClient(hosts)
        client.start()
        names = {"client": client, "path": path, "policy": eval(policy, vars(policies)), **vars(policies)}
        for line in sys.stdin:
            shown = show(line.strip(), names)
            sent = [call for call in submit.call_args_list if not isinstance(call.args[1], OWN_REQUESTS)]
            print(json.dumps([shown, len(sent)]), flush=True)
        client.stop()


if __name__ == "__main__":
    main()
