"""A logger that keeps secrets, for kazoo's connections."""

from __future__ import annotations

import logging
from typing import Any

from parkazoo.kazoo_private import SASL, Auth, Connect

HIDDEN = "..."


class DiscreetLog(logging.LoggerAdapter):  # type: ignore[type-arg]  # not before Python 3.11
    """Hides credentials and session passwords: kazoo logs them with the requests that carry them."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            super().log(level, msg, *map(_without_secrets, args), stacklevel=2, **kwargs)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Auth):
        return value._replace(auth=HIDDEN)
    if isinstance(value, Connect):
        return value._replace(passwd=HIDDEN)
    if isinstance(value, SASL):
        return value._replace(challenge=HIDDEN)
    return HIDDEN if isinstance(value, bytes) else value  # bytes: a session's password in hexadecimal
