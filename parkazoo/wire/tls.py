"""The TLS options of a client: handed on, and tried before any server is asked."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kazoo.exceptions import ConfigurationError


class Tls(NamedTuple):
    """TLS options, as kazoo calls them."""

    use_ssl: bool = False
    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: str | None = None
    verify_certs: bool = True
    check_hostname: bool = False


class TlsOptions(Protocol):
    """What :class:`Tls` has, and a kazoo client."""

    @property
    def use_ssl(self) -> bool: ...
    @property
    def ca(self) -> str | None: ...
    @property
    def certfile(self) -> str | None: ...
    @property
    def keyfile(self) -> str | None: ...
    @property
    def keyfile_password(self) -> str | None: ...
    @property
    def verify_certs(self) -> bool: ...
    @property
    def check_hostname(self) -> bool: ...


def tls_options(options: TlsOptions) -> dict[str, Any]:
    """As arguments of a kazoo client, and of a handler's `create_connection`."""
    return {name: getattr(options, name) for name in Tls._fields}


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """A context as kazoo makes it for each connection.

    :raises ConfigurationError: the options cannot be used. kazoo would try again until a time-out, or ask
        for the key's password on the terminal.
    """
    if options.check_hostname and not options.verify_certs:
        raise ConfigurationError("check_hostname needs verify_certs")
    for name in ("ca", "certfile", "keyfile"):
        _verify_readable(name, getattr(options, name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    context.check_hostname = options.check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if options.verify_certs else ssl.CERT_NONE
    if options.ca:
        try:
            context.load_verify_locations(options.ca)
        except ssl.SSLError as error:
            raise ConfigurationError(f"ca {options.ca} holds no certificates: {error.strerror}") from None
    if options.certfile and options.keyfile:
        try:
            context.load_cert_chain(options.certfile, options.keyfile, options.keyfile_password or "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"certfile {options.certfile} and keyfile {options.keyfile} are not a certificate and its key, or "
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
