"""``python -m bench.pages``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import ROOT
from bench.pages import committed
from bench.pages.marked import PageError, pages, renewed, stale_tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pages",
        description="Make the tables in the pages of docs/ anew from the raw results in docs/runs, and with them "
        "docs/evaluation: the page of all results, its plots, and the figures over commits.",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if something is stale")
    parser.add_argument("--draw", action="store_true", help="draw the plots of docs/evaluation, stale or not")
    parser.add_argument(
        "page",
        metavar="PAGE",
        type=Path,
        nargs="*",
        help="by default all with generated tables, and docs/evaluation",
    )
    options = parser.parse_args(arguments)
    made = "is stale" if options.check else "is made anew"
    status = 0
    try:
        for page in options.page or pages(ROOT / "docs"):
            stale = stale_tables(page)
            for marker in stale:
                status = int(options.check)
                print(f"{page}: the table '{marker}' {made}")
            if stale and not options.check:
                page.write_text(renewed(page))
        if not options.page:
            whole = committed.make()
            if options.draw or whole.is_stale():
                status = int(options.check)
                print(f"{committed.FOLDER} {made}")
                if not options.check:
                    whole.write()
    except (PageError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if status:
        print("python -m bench.pages makes them anew")
    return status


if __name__ == "__main__":
    sys.exit(main())
