"""``python -m bench.pages``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import ROOT
from bench.pages.marked import PageError, pages, renewed, stale_tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pages",
        description="Make the tables in the pages of docs/ anew from the raw results in docs/runs.",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a table is stale")
    parser.add_argument("page", metavar="PAGE", type=Path, nargs="*", help="all with generated tables by default")
    options = parser.parse_args(arguments)
    status = 0
    try:
        for page in options.page or pages(ROOT / "docs"):
            stale = stale_tables(page)
            for marker in stale:
                status = int(options.check)
                print(f"{page}: the table '{marker}' {'is stale' if options.check else 'is made anew'}")
            if stale and not options.check:
                page.write_text(renewed(page))
    except (PageError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if status:
        print("python -m bench.pages makes them anew")
    return status


if __name__ == "__main__":
    sys.exit(main())
