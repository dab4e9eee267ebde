"""Has porcupine judge the corpus, and keeps its verdicts: python -m tests.faults.porcupine

Needs Go. The verdicts are in verdicts.json, and a test compares ours with them. Another seed compares at once:
python -m tests.faults.porcupine --seed anything --count 1000
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.faults.linearizable import Operation, find_refusal
from tests.faults.porcupine.corpus import as_json, make_corpus

HERE = Path(__file__).parent
VERDICTS = HERE / "verdicts.json"
COUNT = 60


def judge(histories: Sequence[Sequence[Operation]]) -> list[bool]:
    """Porcupine's verdicts: whether each history is linearizable.

    :raises subprocess.CalledProcessError: Go cannot build or run it.
    """
    lines = "".join(as_json(history) + "\n" for history in histories)
    said = subprocess.run(["go", "run", "."], cwd=HERE, input=lines, capture_output=True, text=True, check=True)
    verdicts = said.stdout.split()
    if unknown := set(verdicts) - {"Ok", "Illegal"}:
        raise ValueError(f"porcupine says {unknown}")
    return [verdict == "Ok" for verdict in verdicts]


def digest(histories: Sequence[Sequence[Operation]]) -> str:
    """What tells a corpus from others."""
    return hashlib.sha256("\n".join(map(as_json, histories)).encode()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.porcupine", description=__doc__)
    parser.add_argument("--seed", default="", help="of histories that are only compared")
    parser.add_argument("--count", type=int, default=COUNT, help="histories of each kind")
    options = parser.parse_args()
    corpus = make_corpus(options.count, options.seed)
    histories = [history for _, history in corpus]
    try:
        theirs = judge(histories)
    except FileNotFoundError:
        parser.error("there is no go")
    except subprocess.CalledProcessError as error:
        parser.error(f"go failed:\n{error.stderr}")
    ours = [find_refusal(history) is None for history in histories]
    for kind in dict.fromkeys(kind for kind, _ in corpus):
        of_kind = [verdict for (each, _), verdict in zip(corpus, theirs, strict=True) if each == kind]
        print(f"{len(of_kind)} histories, {of_kind.count(False)} refused by porcupine: {kind}")
    different = [index for index in range(len(corpus)) if ours[index] != theirs[index]]
    print(f"{len(different)} on which we differ {different or ''}")
    if not options.seed:
        kept = {
            "made by": "python -m tests.faults.porcupine",
            "histories of each kind": options.count,
            "SHA-256 of the corpus": digest(histories),
            "accepted": "".join("01"[verdict] for verdict in theirs),
        }
        VERDICTS.write_text(json.dumps(kept, indent=2) + "\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
