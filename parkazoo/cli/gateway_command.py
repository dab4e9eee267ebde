"""``parkazoo gateway``: the spread tree for programs in any language, until it is stopped."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.cli.options import Auth, Ca, Cert, Hosts, Key, connection_options, split_hosts
from parkazoo.cli.plain_text import plain
from parkazoo.protocol.checked_json import quoted

PYTHON = (3, 11)
MOST_PORT_DIGITS = 5
LISTEN = "127.0.0.1:2181"
CONNECTIONS = 1000
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


class Consistency(str, Enum):
    ENSEMBLE = "ensemble"
    TOTAL = "total"


def register(app: typer.Typer) -> None:
    app.command()(gateway)


def gateway(
    hosts: Hosts,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where programs connect. It asks nobody for a password.")
    ] = LISTEN,
    table: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE",
            help="Sessions, with their passwords: a gateway that starts with it in time goes on with them.",
        ),
    ] = None,
    consistency: Annotated[
        Consistency, typer.Option(help="total: the reads and writes of all programs here have one order.")
    ] = Consistency.ENSEMBLE,
    connections: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sessions, also of programs that are away; more are refused.")
    ] = CONNECTIONS,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each session and ensemble.")] = False,
    auth: Auth = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Speak ZooKeeper's protocol to programs in any language, over the whole tree, until SIGTERM or ^C.

    Each session of a program is a session of a client. Not there: reconfig, SASL, TLS to programs, transactions
    over several ensembles. A request waits a third of the session's time-out for its ensemble, and then gets
    ConnectionLoss. Needs Python 3.11.
    """
    if sys.version_info < PYTHON:
        raise WrongArgumentError("parkazoo gateway needs Python 3.11")
    host, port = parse_listen(listen)
    servers, chroot = split_hosts(hosts)
    options = connection_options(auth, 0, ca, cert, key)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=LOG_FORMAT)
    from parkazoo.gateway.serving import serve  # noqa: PLC0415 - it needs that Python

    try:
        serve(
            {
                "hosts": servers + chroot,
                "auth": options.pop("auth"),
                "tls": {name: value for name, value in options.items() if name != "timeout_s"},
                "has_total_order": consistency is Consistency.TOTAL,
                "most_connections": connections,
            },
            (host, port),
            table,
            lambda address: Console().print(plain(f"listening on {address}"), soft_wrap=True),
        )
    except (OSError, OverflowError) as error:
        raise WrongArgumentError(str(error)) from None


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port.

    :raises WrongArgumentError: it is no ``ADDRESS:PORT``.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) <= MOST_PORT_DIGITS):
        raise WrongArgumentError(f"--listen must be ADDRESS:PORT, not {quoted(text)}")
    return host.removeprefix("[").removesuffix("]"), int(port)
