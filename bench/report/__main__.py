"""``python -m bench.report FOLDER``"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.scenarios.results import ReportError, make_report


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description="Make report.html and PNG files from saved results."
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="with the results: SCENARIO.json")
    try:
        print(make_report(parser.parse_args().folder))
    except ReportError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
