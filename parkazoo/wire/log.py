"""A logger that keeps secrets, for kazoo's connections."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from parkazoo.kazoo_private import SASL, Auth, Connect
from parkazoo.types.handlers import LoggerAdapter

HIDDEN = "..."
# As repr() writes it: the quotes depend on what is between them.
DIGEST = re.compile(r"""(scheme='digest', id=(['"])(?:\\.|(?!\2)[^\\:])*):(?:\\.|(?!\2)[^\\])*""")


class DiscreetLog(LoggerAdapter):
    """Hides credentials, session passwords and digests in ACLs: kazoo logs whole requests and answers."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Keeps a call's own fields, which logging's would replace."""
        return msg, kwargs

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            super().log(level, msg, *map(_without_secrets, args), stacklevel=2, **kwargs)


def _without_secrets(value: object) -> object:
    if isinstance(value, Auth):
        return value._replace(auth=HIDDEN)
    if isinstance(value, Connect):
        return value._replace(passwd=HIDDEN)
    if isinstance(value, SASL):
        return value._replace(challenge=HIDDEN)
    if isinstance(value, bytes):  # a session's password in hexadecimal
        return HIDDEN
    return _WithoutDigests(value) if isinstance(value, (tuple, list)) else value


class _WithoutDigests:
    """A request or an answer. Its text is made only when a handler asks for it."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        return DIGEST.sub(rf"\1:{HIDDEN}", repr(self._value))
