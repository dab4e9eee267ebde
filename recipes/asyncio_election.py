"""asyncio's Election: the leader is a coroutine, which is cancelled when it leads no more.

Promise    `run` waits until this client leads, and awaits the coroutine. The client leads until that ends or the
           session does. The client that has waited longest is next.
SUSPENDED  Nothing happens to the coroutine. Another client may lead as soon as the servers end the session: a
           leader looks at `zk.state` before what only a leader may do.
LOST       The coroutine is cancelled, and `run` raises LockLostError. To stand again, `run` again.

Who cancels a task that leads makes it resign; one that waits stands no more.
"""

from __future__ import annotations

import asyncio
from typing import NoReturn

from _aio_clients import clients, end_session, run
from _clients import expect
from kazoo.client import KazooState

from parkazoo.aio import LockLostError, ParKazooClient


class Candidate:
    """:ivar leads: whether it does."""

    def __init__(self, name: str, zk: ParKazooClient) -> None:
        self.name = name
        self.zk = zk
        self.leads = asyncio.Event()

    async def run(self) -> NoReturn:
        """Stand for leader, again and again."""
        while True:
            election = self.zk.Election("/election", self.name)
            try:
                await election.run(self.lead)
            except LockLostError:
                print(self.name, "has lost its session, and stands again")

    async def lead(self) -> NoReturn:
        print(self.name, "leads")
        self.leads.set()
        try:
            while True:
                if self.zk.state == KazooState.CONNECTED:
                    pass  # a round of a leader's work
                await asyncio.sleep(0.05)
        finally:
            self.leads.clear()


async def main() -> None:
    async with clients(2) as (anna, ben), asyncio.TaskGroup() as tasks:
        election = ben.Election("/election")
        first, second = Candidate("anna", anna), Candidate("ben", ben)
        annas = tasks.create_task(first.run())
        await first.leads.wait()
        bens = tasks.create_task(second.run())
        while await election.contenders() != ["anna", "ben"]:
            await asyncio.sleep(0.05)
        expect(not second.leads.is_set(), "one leads")

        await end_session(anna)
        await second.leads.wait()
        while await election.contenders() != ["ben", "anna"]:
            await asyncio.sleep(0.05)
        expect(not first.leads.is_set(), "whose session has ended does not lead")

        bens.cancel()
        await first.leads.wait()
        expect(not second.leads.is_set(), "a leader that is cancelled resigns")
        annas.cancel()


if __name__ == "__main__":
    run(main())
