"""The TLS options of a client: handed on, and tried before any server is asked."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConfigurationError

OPTIONS = ("use_ssl", "ca", "certfile", "keyfile", "keyfile_password", "verify_certs", "check_hostname")


def tls_options(client: KazooClient) -> dict[str, Any]:
    """A client's TLS options: arguments of a kazoo client, and of a handler's `create_connection`."""
    return {name: getattr(client, name) for name in OPTIONS}


def make_context(client: KazooClient) -> ssl.SSLContext:
    """A context as kazoo makes it for each connection.

    :raises ConfigurationError: the client's options cannot be used. kazoo would try again until a time-out, or ask
        for the key's password on the terminal.
    """
    if client.check_hostname and not client.verify_certs:
        raise ConfigurationError("check_hostname needs verify_certs")
    for name in ("ca", "certfile", "keyfile"):
        _verify_readable(name, getattr(client, name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    context.check_hostname = client.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if client.verify_certs else ssl.CERT_NONE
    if client.ca:
        try:
            context.load_verify_locations(client.ca)
        except ssl.SSLError as error:
            raise ConfigurationError(f"ca {client.ca} holds no certificates: {error.strerror}") from None
    if client.certfile and client.keyfile:
        try:
            context.load_cert_chain(client.certfile, client.keyfile, client.keyfile_password or "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"certfile {client.certfile} and keyfile {client.keyfile} are not a certificate and its key, or "
                f"keyfile_password is not the key's: {getattr(error, 'strerror', error)}"
            ) from None
    return context


def _verify_readable(option: str, path: str | None) -> None:
    if path:
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise ConfigurationError(f"{option} {path} cannot be read: {error.strerror}") from None
