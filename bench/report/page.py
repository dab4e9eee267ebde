"""A report as one HTML page, which needs no network."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import matplotlib

from bench.report.section import Front, Plot, Section, Table

DPI = 160
MET, MISSED = "met", "not met"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
SVG, PNG = "svg", "png"
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 60rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
h1, h2 { line-height: 1.25; }
figure { margin: 1.5rem 0; } figure .wide { margin: 0; }
img { width: 100%; min-width: 38rem; height: auto; }
.front { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: 0 2rem; }
.front h2 { font-size: 1.1rem; margin: .5rem 0 0; border: 0; padding: 0; } .front p { margin: .3rem 0 .8rem; }
.first img { min-width: 0; max-width: 36rem; } .first { margin: 1rem 0; }
figcaption, caption { font-size: .9rem; color: #444; text-align: left; }
caption { font-weight: 600; padding-bottom: .3rem; }
.wide { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
.setting td, .prose td { overflow-wrap: anywhere; }
td.figure, th.figure { text-align: right; } td.figure, td.text { white-space: pre; }
.prose { margin: 1.5rem 0; } .prose td { white-space: normal; min-width: 4rem; }
caption span { display: inline-block; position: sticky; left: 0; max-width: calc(100vw - 2rem); }
td.met { color: #00664a; font-weight: 600; } td.missed { color: #a03800; font-weight: 600; }
@media (max-width: 40rem) {
  .prose, .prose tbody, .prose tr, .prose td { display: block; } .prose thead { display: none; }
  .prose tr { border-bottom: 1px solid #bbb; padding: .4rem 0; } .prose td { border: 0; padding: .1rem 0; }
  .prose td[data-name]::before { content: attr(data-name) ": "; color: #555; }
  .prose td:empty { display: none; } .prose caption { display: block; }
  .wide td:first-child, .wide th:first-child { position: sticky; left: 0; background: #fff;
    box-shadow: inset 0 -1px #ddd; }
}
aside { background: #f5f5f0; padding: .5rem 1rem; font-size: .9rem; } aside ul { padding-left: 1.2rem; }
nav ul { padding-left: 1.2rem; }
"""


def make_page(
    title: str,
    setting: Mapping[str, str],
    sections: Sequence[Section],
    pictures: Mapping[str, str],
    front: Front | None = None,
) -> str:
    """
    :param setting: what holds for all: date, machine, versions.
    :param pictures: of each plot's name, the address of its picture.
    """
    front = front or Front({})
    contents = "".join(
        f'<li><a href="#{each.name}">{escape(each.title)}</a></li>' for each in (*front.sections, *sections)
    )
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in setting.items())
    before, body = ("".join(_section(each, pictures) for each in some) for some in (front.sections, sections))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        f"{_front(front, pictures)}<nav><ul>{contents}</ul></nav>{before}{_overview(sections)}"
        f'<div class="wide"><table class="setting"><caption>Setting</caption>{rows}</table></div>'
        f"{body}</body></html>\n"
    )


def _front(front: Front, pictures: Mapping[str, str]) -> str:
    answers = "".join(
        f"<div><h2>{escape(asked)}</h2><p>{escape(answer)}</p></div>" for asked, answer in front.answers.items()
    )
    plots = "".join(f'<div class="first">{_plot(each, pictures[each.name])}</div>' for each in front.plots)
    return f'<div class="front">{answers}</div>{plots}' if answers else plots


def _overview(sections: Sequence[Section]) -> str:
    """What was asked, and what came of it."""
    rows = [
        (
            f'<a href="#{section.name}">{escape(each.asked)}</a>',
            escape(each.goal),
            escape(each.measured),
            each.is_met,
        )
        for section in sections
        for each in section.answers
    ]
    if not rows:
        return ""
    body = "".join(
        f'<tr><td>{asked}</td><td data-name="goal">{goal}</td><td data-name="measured">{measured}</td>'
        f"{_met(is_met)}</tr>"
        for asked, goal, measured, is_met in rows
    )
    return (
        '<table class="prose"><caption>Overview</caption><thead><tr><th>asked</th><th>goal</th><th>measured</th>'
        f"<th>met</th></tr></thead><tbody>{body}</tbody></table>"
    )


def _met(is_met: bool | None) -> str:
    if is_met is None:
        return "<td></td>"
    return f'<td class="{"met" if is_met else "missed"}">{MET if is_met else MISSED}</td>'


def _section(section: Section, pictures: Mapping[str, str]) -> str:
    caveats = "".join(f"<li>{escape(each)}</li>" for each in section.caveats)
    return "".join(
        (
            f'<section id="{section.name}"><h2>{escape(section.title)}</h2><p>{escape(section.about)}</p>',
            *(_plot(each, pictures[each.name]) for each in section.plots),
            *(_table(each) for each in section.tables),
            f"<aside><b>What this does not show</b><ul>{caveats}</ul></aside>" if caveats else "",
            "</section>",
        )
    )


def _plot(plot: Plot, address: str) -> str:
    about = escape(plot.about)
    width, height = (round(100 * inches) for inches in plot.figure.get_size_inches())
    return (
        f'<figure><div class="wide"><img alt="{about}" src="{address}" width="{width}" height="{height}" '
        f'loading="lazy"></div><figcaption>{about}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    kinds = table.kinds()

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="{kind}">{escape(value)}</{tag}>' for value, kind in zip(values, kinds, strict=True)
        )

    if table.is_prose:
        return _prose(table)
    head = f"<tr>{cells('th', table.columns)}</tr>"
    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><caption><span>{escape(table.title)}</span></caption>'
        f"<thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    )


def _prose(table: Table) -> str:
    """On a narrow screen each row becomes a paragraph."""
    head = "".join(f"<th>{escape(each)}</th>" for each in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td data-name="{escape(name)}">{LINK.sub(_link, escape(value))}</td>'
            for name, value in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<table class="prose"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _link(found: re.Match[str]) -> str:
    return f'<a href="{found[2]}">{found[1]}</a>'


def embed(picture: bytes) -> str:
    """The address of a PNG file that is part of the page."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def make_picture(figure: Any, kind: str = PNG) -> bytes:
    """A figure as a file.

    :param kind: `PNG` or `SVG`; an SVG file of the same figure is the same, and its text is text.
    """
    file = io.BytesIO()
    metadata = {"Date": None} if kind == SVG else None
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "figure"}):
        figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
    return file.getvalue()
