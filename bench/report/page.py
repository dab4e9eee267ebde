"""A report as one HTML page, which needs no other file and no network."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bench.report.section import Plot, Section, Table

DPI = 160
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
.setting td { overflow-wrap: anywhere; }
td.figure, th.figure { text-align: right; } td.figure, td.text { white-space: nowrap; }
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
        f'<div class="wide"><table class="setting"><caption>Setting</caption>{rows}</table></div>'
        f"<nav><ul>{contents}</ul></nav>{body}</body></html>\n"
    )


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

    head = f"<tr>{cells('th', table.columns)}</tr>"
    rows = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><caption>{escape(table.title)}</caption>'
        f"<thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    )


def make_picture(figure: Any) -> bytes:
    """A figure as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
