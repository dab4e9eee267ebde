"""Runs bench/sampler.py beside this program, for the hosts that are on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

from bench import ROOT, sampler

END_TIMEOUT_S = 10.0

Hear = Callable[[Mapping[str, Any]], None]


@contextmanager
def sampled(
    hosts: Mapping[str, Any], hear: Hear, lost: Callable[[str], None], before: Sequence[str] = ()
) -> Iterator[None]:
    """As `bench.lab.Lab.watch`.

    :param hosts: as the sampler takes them.
    :param before: comes before the command.
    """
    process = subprocess.Popen(
        [*before, sys.executable, "-m", sampler.__name__, json.dumps(hosts)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # ^C is for this program, which ends it
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    reader = threading.Thread(target=_read, args=(process.stdout, hear), daemon=True)
    reader.start()
    try:
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        reader.join()
        said = process.stderr.read().strip().splitlines()
        process.stderr.close()
        process.stdout.close()
        if process.wait():
            lost(f"the sampler has ended: {said[-1] if said else f'status {process.returncode}'}")


def _read(output: IO[str], hear: Hear) -> None:
    for line in output:
        hear(json.loads(line))
