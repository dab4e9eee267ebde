"""The path and the ensemble in an error's text, kept beside it: the path can still be replaced."""

from __future__ import annotations

from typing import NamedTuple


class Subject(NamedTuple):
    """A znode on an ensemble, or the ensemble alone: ``/jobs/7 (ensemble b)``, ``ensemble b``.

    :param path: empty: the ensemble alone.
    """

    path: str
    ensemble: str

    def __str__(self) -> str:
        return f"{self.path} (ensemble {self.ensemble})" if self.path else f"ensemble {self.ensemble}"


class _Text(NamedTuple):
    """An error's text, in its parts."""

    before: str
    subject: Subject
    after: str


def error_about(kind: type[Exception], subject: Subject, before: str = "", after: str = "") -> Exception:
    """Make an error that :func:`renamed` can rename.

    :param before: stands in front of the subject. :param after: behind it.
    """
    error = kind(f"{before}{subject}{after}")
    error.text = _Text(before, subject, after)  # type: ignore[attr-defined]  # for renamed()
    return error


def renamed(error: Exception, path: str) -> Exception:
    """Return the error with another path; itself if it names none, or this one."""
    text: _Text | None = getattr(error, "text", None)
    if text is None or not text.subject.path or text.subject.path == path:
        return error
    return error_about(type(error), text.subject._replace(path=path), text.before, text.after)
