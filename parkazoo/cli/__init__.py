"""The command ``parkazoo``. One sub-command or group a module; each module has `register(app)`."""

from __future__ import annotations

import sys
from collections.abc import Callable

from parkazoo.installing import command_to_add

INTERRUPTED = 130  # what shells report for a program that Ctrl-C has ended


def main() -> None:
    """Run the command. An error that the user can mend is one message, and exit status 1 or 2."""
    try:
        status = _import_run()()
    except KeyboardInterrupt:  # while it is still being imported and put together, which takes a moment
        status = INTERRUPTED
    sys.exit(status)


def _import_run() -> Callable[[], int]:
    try:
        import rich  # noqa: F401, PLC0415 - an extra
        import typer  # noqa: F401, PLC0415 - an extra
    except ImportError:
        sys.exit(f"The command parkazoo needs typer and rich: {command_to_add('cli')}")
    from parkazoo.cli.app import run  # noqa: PLC0415 - needs the extra

    return run
