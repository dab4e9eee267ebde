"""``python -m bench.load PLAN RESULT``: carry out a plan (a JSON file), write all requests into a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.load.plan import Plan, PlanError

USAGE = "usage: python -m bench.load PLAN.json RESULT.npz"


def main(arguments: list[str]) -> int:
    from bench.load.process import ProcessError, run_processes  # noqa: PLC0415 - children import this file too

    if len(arguments) != 2:
        return _fail(USAGE)
    source, target = map(Path, arguments)
    try:
        plan = Plan.from_json(json.loads(source.read_text()))
        accounts = run_processes(plan)
        from bench.load.result import write_result  # noqa: PLC0415 - numpy takes its time

        write_result(target, plan, accounts)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        return _fail(f"{source} is no JSON: {error}")
    except PlanError as error:
        return _fail(f"{source}: {error}")
    except ProcessError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted")
    return 0


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
