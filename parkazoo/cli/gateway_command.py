"""``parkazoo gateway``: the spread tree for programs in any language, until it is stopped."""

from __future__ import annotations

import logging
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from kazoo.exceptions import ConfigurationError
from rich.console import Console

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.cli.options import FILE, Auth, Ca, Cert, Hosts, Key, connection_options, split_hosts
from parkazoo.cli.plain_text import plain
from parkazoo.protocol.checked_json import quoted
from parkazoo.wire.tls import Tls, make_context

PYTHON = (3, 11)
MOST_PORT, MOST_PORT_DIGITS = 65535, 5
LISTEN = "127.0.0.1:2181"
CONNECTIONS = 1000
MOST_WORKERS = 64
LOG_FORMAT = "%(asctime)s %(process)d %(levelname)-7s %(message)s"


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
    listen_cert: Annotated[
        Path | None, typer.Option(**FILE, help="TLS for programs: the gateway's certificate, with its chain.")
    ] = None,
    listen_key: Annotated[Path | None, typer.Option(**FILE, help="TLS for programs: the key of it.")] = None,
    listen_ca: Annotated[
        Path | None,
        typer.Option(**FILE, help="TLS for programs: only those with a certificate of these authorities connect."),
    ] = None,
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
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=MOST_WORKERS, metavar="N", help="Processes at that port; each has its own --connections."
        ),
    ] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each session and ensemble.")] = False,
    auth: Auth = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
) -> None:
    """Speak ZooKeeper's protocol to programs in any language, over the whole tree, until SIGTERM or ^C.

    Each session of a program is a session of a client. Not there: reconfig, SASL, transactions over several
    ensembles. A request waits a third of the session's time-out for its ensemble, and then gets
    ConnectionLoss. Needs Python 3.11.
    """
    if sys.version_info < PYTHON:
        raise WrongArgumentError("parkazoo gateway needs Python 3.11")
    host, port = parse_listen(listen)
    if (listen_cert is None) != (listen_key is None):
        raise WrongArgumentError("--listen-cert and --listen-key belong together")
    if listen_ca is not None and listen_cert is None:
        raise WrongArgumentError("--listen-ca needs --listen-cert and --listen-key")
    if workers > 1 and table is None:
        raise WrongArgumentError("--workers needs --table: by it a session goes on with another worker")
    servers, chroot = split_hosts(hosts)
    options = connection_options(auth, 0, ca, cert, key)
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=LOG_FORMAT)
    from parkazoo.gateway.listen_tls import ListenFiles  # noqa: PLC0415 - it needs that Python
    from parkazoo.gateway.serving import Listening, serve  # noqa: PLC0415

    files = None
    if listen_cert is not None:
        files = ListenFiles(str(listen_cert), str(listen_key), None if listen_ca is None else str(listen_ca))
    tls = {name: value for name, value in options.items() if name not in ("auth", "timeout_s")}
    try:
        make_context(Tls(**tls))  # only to see that it can be made
        serve(
            {
                "hosts": servers + chroot,
                "auth": options["auth"],
                "tls": tls,
                "has_total_order": consistency is Consistency.TOTAL,
                "most_connections": connections,
            },
            Listening(host, port, files),
            table,
            lambda address: Console().print(plain(f"listening on {address}"), soft_wrap=True),
            workers,
        )
    except (OSError, ConfigurationError) as error:
        raise WrongArgumentError(str(error)) from None


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port.

    :raises WrongArgumentError: it is no ``ADDRESS:PORT``.
    """
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= MOST_PORT_DIGITS and int(port) <= MOST_PORT
    if not host or not is_port:
        raise WrongArgumentError(f"--listen must be ADDRESS:PORT, not {quoted(text)}")
    return host.removeprefix("[").removesuffix("]"), int(port)
