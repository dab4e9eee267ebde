"""Text that others have written, as a terminal may show it."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

from rich.text import Text

ON_ERROR = "parkazoo"  # its name as a codec's error handler
DRAWN = str.maketrans("▁▂▃▄▅▆▇█▼…", ".:-=+*##v~")  # columns stay as wide as they are


def write_anything(stream: TextIO) -> None:
    """Makes a terminal, or a file, of another encoding than UTF-8 take every text: what it lacks is escaped."""
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error(ON_ERROR, _in_ascii)
        stream.reconfigure(errors=ON_ERROR)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacked = error.object[error.start : error.end].translate(DRAWN)
    return lacked.encode("ascii", "backslashreplace").decode(), error.end


def plain(text: str, style: str = "", *, folds: bool = False) -> Text:
    """As it is, but for characters that cannot be seen or change how others are shown: they are escaped."""
    return Text(escaped(text), style, overflow="fold" if folds else None)


def escaped(text: str) -> str:
    if text.replace("\n", "").isprintable():  # most are, and some are very long
        return text
    return "".join(each if each.isprintable() or each == "\n" else _escape(each) for each in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
