"""A report as one HTML page, which needs no other file and no network."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bench.report.section import Plot, Section, Table

DPI = 160
MET, MISSED = "met", "not met"
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 60rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; }
h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
h1, h2 { line-height: 1.25; }
figure { margin: 1.5rem 0; } figure .wide { margin: 0; }
img { width: 100%; min-width: 38rem; height: auto; }
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
    title: str, setting: Mapping[str, str], sections: Sequence[Section], pictures: Mapping[str, bytes]
) -> str:
    """
    :param setting: what holds for all: date, machine, versions.
    :param pictures: of each plot's name, its PNG file.
    """
    contents = "".join(f'<li><a href="#{each.name}">{escape(each.title)}</a></li>' for each in sections)
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in setting.items())
    body = "".join(_section(each, pictures) for each in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>"
        f"{_overview(sections)}<nav><ul>{contents}</ul></nav>"
        f'<div class="wide"><table class="setting"><caption>Setting</caption>{rows}</table></div>'
        f"{body}</body></html>\n"
    )


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


def _section(section: Section, pictures: Mapping[str, bytes]) -> str:
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


def _plot(plot: Plot, picture: bytes) -> str:
    data = base64.b64encode(picture).decode()
    about = escape(plot.about)
    return (
        f'<figure><div class="wide"><img alt="{about}" src="data:image/png;base64,{data}"></div>'
        f"<figcaption>{about}</figcaption></figure>"
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
            f'<td data-name="{escape(name)}">{escape(value)}</td>'
            for name, value in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<table class="prose"><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def make_picture(figure: Any) -> bytes:
    """A figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
