"""Text that others have written, as a terminal may show it."""

from __future__ import annotations

from rich.text import Text


def plain(text: str, style: str = "", *, folds: bool = False) -> Text:
    """As it is, but for characters that cannot be seen or change how others are shown: they are escaped."""
    return Text(escaped(text), style, overflow="fold" if folds else None)


def escaped(text: str) -> str:
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
