"""The cluster map, read and printed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from parkazoo.admin import read_map
from parkazoo.cli.explanation import explain_move
from parkazoo.cli.options import ConnectionOptions
from parkazoo.cli.plain_text import plain
from parkazoo.protocol.cluster_map import HASH, ClusterMap
from parkazoo.protocol.epochs import Form


def read(hosts: str, connection: ConnectionOptions) -> ClusterMap:
    with Console().status("reading the cluster map"):
        return read_map(hosts, **connection)


def print_map(console: Console, cluster_map: ClusterMap) -> None:
    table = Table(
        "ensemble", "servers", "carries", title=f"cluster {escape(cluster_map.cluster)}", title_justify="left"
    )
    for name in cluster_map.ensembles:
        carries = [*_carries(cluster_map, name), *(["the map"] if name == cluster_map.bootstrap else [])]
        servers = Text(cluster_map.ensembles[name].replace(",", "\n"), overflow="fold")
        table.add_row(name, servers, ", ".join(carries))
    for name, hosts in cluster_map.gone.items():
        table.add_row(name, Text(hosts.replace(",", "\n"), overflow="fold"), "has left")
    about = f"map {cluster_map.epoch}, format {cluster_map.format}, hash {HASH}"
    if cluster_map.form is not Form.PLAIN:
        newest = cluster_map.epochs[-1]
        about += f", form {cluster_map.form.word}; new directories: epoch {newest.number}"
        if newest.rules:
            about += f", with {len(newest.rules)} rule{'s' if len(newest.rules) > 1 else ''}"
    console.print(table)
    console.print(about, style="dim", highlight=False, soft_wrap=True)
    if cluster_map.move is not None:
        for told in explain_move(cluster_map, cluster_map.move.directory):
            console.print(plain(told), soft_wrap=True)


def _carries(cluster_map: ClusterMap, name: str) -> Iterator[str]:
    if name not in cluster_map.placement:
        return
    weight = cluster_map.epochs[-1].weights.get(name)
    if weight is None and name in cluster_map.unused:
        yield "nothing yet"
        return
    yield "znodes"
    if name in cluster_map.leaving:
        yield "leaving: no new directories"
    elif weight == 0 and cluster_map.form is Form.GROWN:
        yield "weight 0: no new directories"
    elif weight != 1:
        yield f"weight {weight}"


def shares_table(cluster_map: ClusterMap) -> Table:
    """The share of the new directories that each ensemble gets."""
    epoch = cluster_map.epochs[-1]
    table = Table("ensemble", title=f"new directories, by epoch {epoch.number}", title_justify="left")
    table.add_column("weight", justify="right")
    table.add_column("share", justify="right")
    total = sum(epoch.weights.values())
    for name, weight in epoch.weights.items():
        if name not in cluster_map.gone:
            table.add_row(name, str(weight), f"{weight / total:.1%}")
    if epoch.rules:
        table.caption, table.caption_justify = "where no rule applies", "left"
    return table
