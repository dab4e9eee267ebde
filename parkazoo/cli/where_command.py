"""``parkazoo where``: where a path is, and why."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from parkazoo.admin import TIMEOUT_S, By, find_whereabouts
from parkazoo.cli.explanation import explain_children, explain_whereabouts
from parkazoo.cli.json_documents import place_document, print_json
from parkazoo.cli.map_table import read
from parkazoo.cli.options import (
    Auth,
    Ca,
    Cert,
    ConnectionOptions,
    Hosts,
    Json,
    Key,
    Timeout,
    connection_options,
    normalised,
    split_hosts,
)
from parkazoo.cli.plain_text import plain
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import Directory, Place
from parkazoo.protocol.where.places import Places

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
    json: Json = False,
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
        found = _by_pins(cluster_map, znode, connection)
    else:
        d = Places(cluster_map.make_placement()).known(znode)
        found = _Explained(
            cluster_map, d, NATIVE if d.is_native else MIRRORED, [*explain_children(cluster_map, znode)]
        )
    if json:
        print_json(found.document())
    else:
        found.print(Console())


def _by_pins(cluster_map: ClusterMap, znode: str, connection: ConnectionOptions) -> _Explained:
    """In form grown the pins decide, not the path."""
    with Console().status("reading the pins"):
        found = find_whereabouts(cluster_map, znode, **connection)
    d = found.d
    if found.by is By.NOBODY:
        kind = "undecided: the place of the children is a guess" if found.is_there else "no such znode: a guess"
    elif d.is_native:
        kind = NATIVE
    else:
        is_apart = d.home.ensemble != d.mirror.ensemble
        kind = MIRRORED if is_apart else "mirrored: its children live on the same ensemble, below its mirror"
    return _Explained(found.cluster_map, d, kind, [*explain_whereabouts(found)])


class _Explained(NamedTuple):
    """:param kind: what the directory is, for people. :param lines: why its children are there."""

    cluster_map: ClusterMap
    d: Directory
    kind: str
    lines: list[str]

    def places(self) -> dict[str, Place]:
        d = self.d
        places = {"home": d.home, "children": d.mirror}
        if not d.is_native:
            places |= {"pin": Place(d.home.ensemble, d.pin), "fence": Place(d.mirror.ensemble, d.fence)}
        return places

    def document(self) -> dict[str, object]:
        places = {what: place_document(self.cluster_map, place) for what, place in self.places().items()}
        about = {"path": self.d.path, "is_native": self.d.is_native, "pin": None, "fence": None}
        return {**about, **places, "kind": self.kind, "why": self.lines}

    def print(self, console: Console) -> None:
        table = Table("", "ensemble", "physical path", title=plain(self.d.path), title_justify="left")
        for what, place in self.places().items():
            name = self.cluster_map.names[place.ensemble]
            table.add_row(what, name, plain(place.path, folds=True))
        console.print(table)
        console.print(plain("\n".join([self.kind, "", *self.lines])), soft_wrap=True)
