"""The kinds of watches that stay."""

from enum import IntEnum


class AddWatchMode(IntEnum):
    """What ``add_watch`` watches: one znode and its children, or all znodes at and below it."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1
