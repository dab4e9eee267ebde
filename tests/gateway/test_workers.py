"""A gateway of several processes, over ensembles in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import cast

from bench import ROOT
from parkazoo.kazoo_private import Create, Exists
from parkazoo.protocol.newer_requests import GetEphemerals
from tests.aio.aio_case import AioCase, until
from tests.gateway.gateway_case import ACL, RawProgram

PROGRAMS = 8
ESTABLISHED = "01"


class TestWorkers(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        command = [sys.executable, "-m", "parkazoo", "gateway", f"--hosts={self.cluster.hosts}", "--workers=2"]
        command += [f"--table={folder}/table", "--listen=127.0.0.1:0", "--verbose"]
        self.process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        self.stack.push_async_callback(self.end)
        assert self.process.stdout is not None
        self.port = int((await self.process.stdout.readline()).rpartition(b":")[2])

    async def end(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    def workers(self) -> list[int]:
        """Their process ids."""
        return [
            int(each)
            for task in Path(f"/proc/{self.process.pid}/task").glob("*/children")
            for each in task.read_text().split()
        ]

    async def program(self, session: tuple[int, bytes] | None = None) -> RawProgram:
        zk = await RawProgram.connect(self.port)
        self.stack.callback(zk.drop)
        return await (zk.begin() if session is None else zk.begin(session))

    def worker_of(self, zk: RawProgram) -> int:
        """The process that has its connection."""
        _, port = cast("tuple[str, int]", zk.writer.get_extra_info("sockname"))
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        wanted = f"{self.port:04X}", f"{port:04X}", ESTABLISHED
        (inode,) = (each[9] for each in lines if (each[1][-4:], each[2][-4:], each[3]) == wanted)
        return next(
            pid
            for pid in self.workers()
            if any(str(each.readlink()) == f"socket:[{inode}]" for each in Path(f"/proc/{pid}/fd").iterdir())
        )

    async def test_one_is_killed(self) -> None:
        """Its programs' sessions go on with the other or its successor. Those of the other notice nothing."""
        first, second = self.workers()
        programs: list[RawProgram] = []
        while len(programs) < PROGRAMS or len({*map(self.worker_of, programs)}) < 2:
            zk = await self.program()
            programs.append(zk)
            await zk.ask(Create(f"/e{len(programs)}", b"", ACL, 1))
        its = [zk for zk in programs if self.worker_of(zk) == first]
        os.kill(first, signal.SIGKILL)
        for zk in its:
            self.assertEqual(await zk.ended(), b"")
        await until(lambda: len(self.workers()) == 2 and first not in self.workers(), "another has started")
        self.assertIn(second, self.workers())
        for number, zk in enumerate(programs, 1):
            again = await self.program(zk.session) if zk in its else zk
            self.assertEqual((again.session, again.timeout_ms), (zk.session, zk.timeout_ms))
            self.assertEqual(await again.ask(GetEphemerals("/")), [f"/e{number}"])
            if zk not in its:
                continue
            while self.worker_of(again) != second:  # it goes on with each of them
                again.drop()
                again = await self.program(zk.session)
            self.assertEqual((await again.ask(Exists(f"/e{number}", None))).ephemeralOwner, zk.session[0])
        self.process.terminate()
        _, said = await self.process.communicate()
        self.assertEqual(self.process.returncode, 0)
        self.assertIn(b"has ended with status -9: another starts", said)
