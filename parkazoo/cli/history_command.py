"""``parkazoo map log``: the last changes of the map."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, read_history
from parkazoo.admin.utc import in_words
from parkazoo.cli.json_documents import print_json
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Json, Key, Timeout, connection_options, split_hosts


def register(group: typer.Typer) -> None:
    group.command("log")(log)


def log(
    hosts: Hosts,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Print the last changes of the map: when, who, from where, by which command. The newest is last."""
    servers, _ = split_hosts(hosts)
    console = Console()
    with console.status("reading the history of the map"):
        changes = read_history(servers, **connection_options(auth, timeout, ca, cert, key))
    if json:
        print_json({"changes": [each._asdict() for each in changes]})
        return
    table = Table("map", "time (UTC)", "by", "command", "change")
    for each in changes:
        who = f"{each.user}@{each.host}, process {each.pid}"
        parts = (Text(part, overflow="fold") for part in (who, each.program, each.what))
        table.add_row(str(each.map), in_words(each.time_s), *parts)
    if changes:
        console.print(table)
    else:
        console.print("no change is known: the map is as it was made, by an older version of ParKazoo")
