"""SASL: the options of a client, tried before any server is asked; and its dialogue, which is kazoo's."""

from __future__ import annotations

from collections.abc import Mapping
from socket import socket
from typing import Any

from kazoo.exceptions import ConfigurationError

from parkazoo.kazoo_private import ConnectionHandler
from parkazoo.types.handlers import Handler, Log


def verify_sasl(options: Mapping[str, object]) -> None:
    """Verify that kazoo can use them.

    :raises ConfigurationError: pure-sasl is missing, or cannot use them; kazoo's connection would die.
    """
    if "mechanism" not in options:
        raise ConfigurationError("sasl_options name no mechanism, such as DIGEST-MD5")
    try:
        from puresasl import SASLError  # noqa: PLC0415 - installed only where SASL is used
        from puresasl.client import SASLClient  # noqa: PLC0415 - as above
    except ImportError:
        raise ConfigurationError("sasl_options need pure-sasl: pip install pure-sasl") from None
    try:
        SASLClient("zookeeper", **options).dispose()
    except SASLError as error:
        raise ConfigurationError(f"sasl_options cannot be used: {error}") from None


class _Asker:
    """What kazoo's dialogue needs of a client."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.last_zxid = 0
        self.sasl_cli: Any = None


def converse(
    options: Mapping[str, object], handler: Handler, sock: socket, host: str, timeout_s: float, logger: Log
) -> None:
    """Authenticate on a connected socket. It blocks.

    :param handler: kazoo's, whose `select` waits for the server. :param timeout_s: for each answer.
    :raises AuthFailedError: the server refuses the credentials.
    """
    connection = ConnectionHandler(_Asker(handler), None, logger=logger, sasl_options=dict(options))
    connection._socket = sock
    connection._authenticate_with_sasl(host, timeout_s)
