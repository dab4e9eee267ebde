"""``parkazoo where``: where a path is, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, By, find_whereabouts
from parkazoo.cli.explanation import explain_children, explain_whereabouts
from parkazoo.cli.map_table import read
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    Hosts,
    Key,
    Timeout,
    connection_options,
    normalised,
    split_hosts,
)
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import Directory, Place
from parkazoo.protocol.resolver import Resolver

NATIVE = "native: its children live below it"
MIRRORED = "mirrored: its children live on another ensemble, below its mirror"


def register(app: typer.Typer) -> None:
    app.command()(where)


def where(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="A znode's path, below the chroot if --hosts has one; it need not exist."
        ),
    ],
    hosts: Hosts,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Show on which ensemble a znode and its children live, under which path, and why its children live there."""
    servers, chroot = split_hosts(hosts)
    znode = normalised(path, chroot)
    connection = connection_options(auth, timeout, ca, cert, key)
    cluster_map = read(servers, connection)
    if cluster_map.form is Form.GROWN:
        _show_by_pins(cluster_map, znode, connection)
        return
    d = Resolver(cluster_map.make_placement()).known(znode)
    kind = NATIVE if d.is_native else MIRRORED
    _print(cluster_map, d, kind, *explain_children(cluster_map, znode))


def _show_by_pins(cluster_map: ClusterMap, znode: str, connection: dict[str, Any]) -> None:
    """In form grown the pins decide, not the path."""
    with Console().status("reading the pins"):
        found = find_whereabouts(cluster_map, znode, **connection)
    d = found.d
    if found.by is By.NOBODY:
        kind = "undecided: the children would be there" if found.is_there else "there is no such znode: a guess"
    elif d.is_native:
        kind = NATIVE
    else:
        is_apart = d.home.ensemble != d.mirror.ensemble
        kind = MIRRORED if is_apart else "mirrored: its children live on the same ensemble, below its mirror"
    _print(found.cluster_map, d, kind, *explain_whereabouts(found))


def _print(cluster_map: ClusterMap, d: Directory, kind: str, *lines: str) -> None:
    def add(what: str, place: Place) -> None:
        table.add_row(what, cluster_map.names[place.ensemble], Text(place.path, overflow="fold"))

    table = Table("", "ensemble", "physical path", title=Text(d.path), title_justify="left")
    add("home", d.home)
    add("children", d.mirror)
    if not d.is_native:
        add("pin", Place(d.home.ensemble, d.pin))
        add("fence", Place(d.mirror.ensemble, d.fence))
    console = Console()
    console.print(table)
    console.print(Text("\n".join([kind, "", *lines])), soft_wrap=True)
