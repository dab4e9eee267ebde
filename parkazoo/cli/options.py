"""What commands that connect are given: hosts, identity, time, TLS."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from parkazoo.admin.arguments import arguments_alone
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import join, normpath
from parkazoo.protocol.checked_json import quoted
from parkazoo.protocol.cluster_map import format_hosts, parse_hosts, verify_name
from parkazoo.protocol.placement import PIN, PROOF, ROOT, is_reserved
from parkazoo.protocol.rendezvous import MOST_WEIGHT

PORT = 2181
DIGITS = 9  # of a weight: int takes no more than some thousand
PORTED = re.compile(r":[^\]]*$")  # not the colons of [::1]
FILE = {"exists": True, "dir_okay": False, "readable": True}
HOSTS = typer.Option(
    envvar="PARKAZOO_HOSTS",
    metavar="H:P,H:P",
    help=f"Servers of any of the cluster's ensembles; H,H/CHROOT with port {PORT} is fine.",
)
Hosts = Annotated[str, HOSTS]
Auth = Annotated[
    list[str] | None,
    typer.Option(
        envvar="PARKAZOO_AUTH", metavar="SCHEME:CREDENTIAL", help="Identity, as digest:user:password. Repeatable."
    ),
]


def _finite(seconds: float | None) -> float | None:
    if seconds is not None and not math.isfinite(seconds):  # nan is neither too small nor too great
        raise typer.BadParameter(f"{seconds} is no time")
    return seconds


def seconds_option(help: str, least: float, most: float | None = 3600) -> Any:
    """An option that takes a number of seconds in these bounds; None: as many as there are."""
    return typer.Option(min=least, max=most, metavar="SECONDS", help=help, callback=_finite)


Timeout = Annotated[float, seconds_option("How long to wait for the ensembles.", 0.1)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and write nothing.")]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Do not ask before the first change of rules or weights, which is for good."),
]
StrangersGone = Annotated[
    bool,
    typer.Option("--strangers-gone", help="No plain kazoo program writes any more: do not look for some."),
]
Rate = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="At most N writes/s, and 10 N reads/s, of the copy and of the delete of what has moved.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Ca = Annotated[Path | None, typer.Option(**FILE, help="TLS: certificates of the servers' authorities.")]
Cert = Annotated[Path | None, typer.Option(**FILE, help="TLS: the client's certificate.")]
Key = Annotated[Path | None, typer.Option(**FILE, help="TLS: the key of that certificate.")]


@arguments_alone()
def split_hosts(hosts: str) -> tuple[str, str]:
    """Hosts as kazoo takes them, ``"h, h:p/app"``, as ``"h:2181,h:p"`` and the chroot, ``""`` if there is none.

    :raises ClusterMapError: there is something wrong with them.
    """
    servers, _, chroot = hosts.partition("/")
    if not servers.strip():
        raise ClusterMapError(f"{hosts!r} names no server: give one or more, as a1:2181,a2:2181 or a1:2181/app")
    return with_ports(servers), normalised(chroot) if chroot.strip("/") else ""


@arguments_alone()
def with_ports(hosts: str) -> str:
    """Each server of ``"h,h:p"`` with a port: ZooKeeper's where it has none.

    :raises ClusterMapError: there is something wrong with them.
    """
    servers = [server.strip() for server in hosts.split(",")]
    ported = [server if not server or PORTED.search(server) else f"{server}:{PORT}" for server in servers]
    return format_hosts(parse_hosts(",".join(ported)))


@arguments_alone()
def verify_ensembles(names: Iterable[str]) -> None:
    """:raises ClusterMapError: no ensemble of any cluster can have one of these names."""
    for name in names:
        verify_name(name)


@arguments_alone()
def normalised(path: str, chroot: str = "") -> str:
    """The path as a client with this chroot would understand it. Placement knows no trailing slash."""
    try:
        path.encode()
        znode = normpath(chroot + normpath(join("/", path))).rstrip("/") or "/"
    except ValueError as error:
        raise ClusterMapError(f"{path!a} is no path of a znode: {error}") from None
    if is_reserved(znode):
        raise ClusterMapError(
            f"{znode} is no znode of yours: {ROOT} and the names {PIN} and {PROOF} are reserved for ParKazoo"
        )
    return znode


ConnectionOptions = dict[str, Any]  # the arguments that admin's functions have in common


def connection_options(
    auth: Iterable[str] | None, timeout: float, ca: Path | None, cert: Path | None, key: Path | None
) -> ConnectionOptions:
    """The arguments that admin's functions have in common."""
    identities = [each.partition(":") for each in auth or ()]
    if not all(scheme and credential for scheme, _, credential in identities):
        # without its value: a secret
        raise typer.BadParameter("--auth must be SCHEME:CREDENTIAL, as digest:user:password")
    if (cert is None) != (key is None):
        raise typer.BadParameter("--cert and --key belong together")
    tls = {
        name: str(path) for name, path in (("ca", ca), ("certfile", cert), ("keyfile", key)) if path is not None
    }
    return {
        "auth": [(scheme, credential) for scheme, _, credential in identities],
        "timeout_s": timeout,
        **({"use_ssl": True, **tls} if tls else {}),
    }


def parse_ensembles(what: str, options: Iterable[str]) -> dict[str, str]:
    """:param what: what the user has written before each."""
    ensembles: dict[str, str] = {}
    for option in options:
        name, separator, hosts = option.partition("=")
        if not separator:
            raise typer.BadParameter(f"{what}must be NAME=H:P,H:P, not {option!r}")
        if name in ensembles:
            raise typer.BadParameter(f"{what}{name} is given twice")
        ensembles[name] = hosts
    verify_ensembles(ensembles)
    return ensembles


def parse_weights(what: str, options: Iterable[str]) -> dict[str, int]:
    """:param what: what the user has written before each."""
    weights: dict[str, int] = {}
    for option in options:
        name, _, weight = option.partition("=")
        if not weight.isascii() or not weight.isdigit() or len(weight) > DIGITS:
            raise typer.BadParameter(
                f"{what}must be NAME=WEIGHT with a whole number from 0 to {MOST_WEIGHT}, not {quoted(option)}"
            )
        if name in weights:
            raise typer.BadParameter(f"{what}{name} is given twice")
        weights[name] = int(weight)
    verify_ensembles(weights)
    return weights
