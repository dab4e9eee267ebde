"""``parkazoo map``: the cluster map."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from parkazoo.admin import TIMEOUT_S, Loss, change_hosts, check_map, init_map
from parkazoo.admin.arguments import arguments_alone
from parkazoo.cli import (
    growth_commands,
    history_command,
    identity_command,
    move_command,
    rebalance_command,
    removal_command,
    restore_command,
    rotation_commands,
    rule_commands,
)
from parkazoo.cli.consent import with_consent
from parkazoo.cli.findings_table import findings_table, is_wrong
from parkazoo.cli.json_documents import map_document, print_json
from parkazoo.cli.map_table import print_map, read
from parkazoo.cli.options import (
    FILE,
    Auth,
    Ca,
    Cert,
    DryRun,
    Hosts,
    Json,
    Key,
    Timeout,
    connection_options,
    parse_ensembles,
    split_hosts,
    with_ports,
)
from parkazoo.cli.step_times import Steps
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.checked_json import unique_keys
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import ROOT

PLAN_KEYS = {"bootstrap", "ensembles"}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The cluster map: which ensembles there are.", no_args_is_help=True)
    group.command()(init)
    group.command()(show)
    group.command()(check)
    group.command("hosts")(change)
    growth_commands.register(group)
    removal_command.register(group)
    move_command.register(group)
    rebalance_command.register(group)
    identity_command.register(group)
    history_command.register(group)
    restore_command.register(group)
    rotation_commands.register(group)
    rule_commands.register(group)
    app.add_typer(group, name="map")


def init(
    bootstrap: Annotated[
        str | None, typer.Option(metavar="H:P,H:P", help="Servers of the ensemble that is to hold the map.")
    ] = None,
    ensemble: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=H:P,H:P", help="An ensemble that carries znodes. Repeatable; the order counts."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(**FILE, help='The same as JSON: {"bootstrap": "H:P", "ensembles": {"a": "H:P"}}.'),
    ] = None,
    form: Annotated[
        str, typer.Option(metavar="FORM", help="plain; or grown, as after the first growth, rule or weight.")
    ] = Form.PLAIN.word,
    closed: Annotated[bool, typer.Option("--closed", help=f"Let only the identity in --auth use {ROOT}.")] = False,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Make this ensemble anew if it has lost its data, and give that up. Repeatable."
        ),
    ] = None,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Make the cluster map and what the protocol needs on every ensemble. Safe to repeat."""
    if file is not None and not bootstrap and not ensemble:
        bootstrap, ensembles = _read_plan(file)
    elif file is None and bootstrap and ensemble:
        ensembles = parse_ensembles("--ensemble ", ensemble)
    else:
        raise typer.BadParameter("give --bootstrap and --ensemble, or --file alone")
    servers, chroot = split_hosts(bootstrap)
    console = Console()
    lost: set[str] = set()

    def tell(loss: Loss) -> None:
        lost.update(loss.ensembles)
        console.print(Text(f"lost with {', '.join(loss.ensembles)}: {loss}", style="red"), soft_wrap=True)

    with console.status("making the cluster map"):
        cluster_map = init_map(
            servers,
            {name: with_ports(hosts) for name, hosts in ensembles.items()},
            form=form,
            closed=closed,
            replace=replace or (),
            tell=tell,
            **connection_options(auth, timeout, ca, cert, key),
        )
    if spared := [name for name in replace or () if name not in lost]:
        names = ", ".join(spared)
        console.print(f"--replace {names}: no loss was found there, so nothing was given up", soft_wrap=True)
    print_map(console, cluster_map)
    _print_use(console, cluster_map.ensembles[cluster_map.bootstrap] + chroot)


def _print_use(console: Console, hosts: str) -> None:
    console.print("\nUse it: ", end="")
    console.print(Text(f'ParKazooClient("{hosts}")', style="bold"), soft_wrap=True)


def show(
    hosts: Hosts,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Print the cluster map."""
    servers, _ = split_hosts(hosts)
    found = read(servers, connection_options(auth, timeout, ca, cert, key))
    if json:
        print_json(map_document(found))
    else:
        print_map(Console(), found)


def check(
    hosts: Hosts,
    json: Json = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Compare the cluster map with the ensembles, server by server. Status 1 if more than a warning is found."""
    servers, _ = split_hosts(hosts)
    console = Console()
    with console.status("asking every server"):
        findings = check_map(servers, **connection_options(auth, timeout, ca, cert, key))
    if json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    elif findings:
        console.print(findings_table(findings))
    else:
        console.print(Text("the map and the ensembles agree", style="green"))
    if is_wrong(findings):
        raise typer.Exit(1)


def change(
    ensemble: Annotated[
        list[str], typer.Argument(metavar="NAME=H:P,H:P", help="An ensemble, and all its servers from now on.")
    ],
    hosts: Hosts,
    fewer: Annotated[bool, typer.Option("--fewer", help="An ensemble may get fewer servers than it has.")] = False,
    dry_run: DryRun = False,
    auth: Auth = None,
    timeout: Timeout = TIMEOUT_S,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Change the addresses of ensembles in the map. Each server must run, in that ensemble. Safe to repeat.

    It asks before an ensemble gets fewer servers; without a terminal it wants --fewer.
    """
    servers, _ = split_hosts(hosts)
    changes = {name: with_ports(each) for name, each in parse_ensembles("", ensemble).items()}
    connection = connection_options(auth, timeout, ca, cert, key)
    console = Console()
    steps = Steps(console, dry_run)

    def run(agrees: bool) -> ClusterMap:
        with console.status("changing the cluster map"):
            return change_hosts(servers, changes, fewer=agrees, dry_run=dry_run, tell=steps, **connection)

    cluster_map = with_consent(run, fewer)
    if dry_run and steps.are_none:
        console.print("nothing to do: the map has these servers already")
    print_map(console, cluster_map)
    if dry_run:
        console.print("dry run: nothing was written")


@arguments_alone()
def _read_plan(file: Path) -> tuple[str, dict[str, str]]:
    try:
        plan = json_format.loads(file.read_bytes(), object_pairs_hook=unique_keys)
    except (OSError, ValueError, RecursionError) as error:
        raise ClusterMapError(f"{file} is not JSON: {error}") from None
    except ClusterMapError as error:
        raise ClusterMapError(f"{file}: {error}") from None
    if not isinstance(plan, dict) or plan.keys() != PLAN_KEYS:
        raise ClusterMapError(f'{file}: it must be an object with the keys "bootstrap" and "ensembles", no others')
    bootstrap, ensembles = plan["bootstrap"], plan["ensembles"]
    if not isinstance(bootstrap, str):
        raise ClusterMapError(f'{file}: "bootstrap" must be a string, "H:P,H:P"')
    if not isinstance(ensembles, dict) or not all(isinstance(hosts, str) for hosts in ensembles.values()):
        raise ClusterMapError(f'{file}: "ensembles" must be an object, {{"NAME": "H:P,H:P", ...}}')
    return bootstrap, ensembles
