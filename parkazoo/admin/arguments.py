"""Arguments that are refused before any server is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from parkazoo.errors import ClusterMapError


class WrongArgumentError(ClusterMapError):
    """An argument is wrong, whatever the cluster is: the command ends with another exit status."""


@contextmanager
def arguments_alone() -> Iterator[None]:
    """A ClusterMapError of the block is a WrongArgumentError. Decorates functions too."""
    try:
        yield
    except ClusterMapError as error:
        raise WrongArgumentError(str(error)) from None
