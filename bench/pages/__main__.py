"""``python -m bench.pages``"""

from __future__ import annotations

import argparse
import sys

from bench import ROOT
from bench.pages.marked import PageError, pages, renewed, stale_tables


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pages",
        description="Make the tables in the pages of docs/ anew from the raw results in docs/runs.",
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a table is stale")
    is_check = parser.parse_args().check
    status = 0
    try:
        for page in pages(ROOT / "docs"):
            name = page.relative_to(ROOT)
            for marker in stale_tables(page):
                status = int(is_check)
                print(f"{name}: the table '{marker}' {'is stale' if is_check else 'is made anew'}")
            if not is_check:
                page.write_text(renewed(page))
    except PageError as error:
        print(error, file=sys.stderr)
        return 2
    if status:
        print("python -m bench.pages makes them anew")
    return status


if __name__ == "__main__":
    sys.exit(main())
