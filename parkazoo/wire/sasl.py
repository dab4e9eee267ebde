"""The SASL options of a client, tried before any server is asked."""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.exceptions import ConfigurationError


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
