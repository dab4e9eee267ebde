"""Packets between emulated hosts that are dropped, as a chaos matrix says: at the receiver, by a rule per sender.

Each receiver has a table of nftables, with a chain for each of its senders. The kernel alone knows them, so any
process may change them. A receiver's rules change all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from bench.hosts.namespaces import network_of, run
from bench.lab import Matrix

TABLE = "parkazoo-chaos"
PARTS = 1_000_000
THREADS = 16
NOT_THERE = f"add table ip {TABLE}\ndelete table ip {TABLE}"  # whether it was or not


class Dropping:
    """
    :param emulation: its name.
    :param addresses: of the hosts, by which they know each other.
    """

    def __init__(self, emulation: str, addresses: Mapping[str, str]) -> None:
        self._emulation = emulation
        self._addresses = addresses

    @property
    def hosts(self) -> Collection[str]:
        return self._addresses.keys()

    def set(self, matrix: Matrix, receivers: Collection[str] | None = None, *, one_by_one: bool = False) -> None:
        """
        :param receivers: those that get their rules, be it none; None: all.
        :param one_by_one: not all at once.
        """
        receivers = self.hosts if receivers is None else receivers
        texts = {
            receiver: "\n".join(
                [
                    NOT_THERE,
                    *(
                        self._rule(sender, row[receiver])
                        for sender, row in matrix.items()
                        if row.get(receiver)  # a probability of 0 takes no rule
                    ),
                ]
            )
            for receiver in receivers
        }
        with ThreadPoolExecutor(1 if one_by_one else THREADS) as pool:
            for _ in pool.map(self._change, texts.keys(), texts.values()):
                pass

    def update(self, sender: str, receiver: str, p: float) -> None:
        """Change that one alone."""
        self._change(receiver, self._rule(sender, p))

    def clear(self) -> None:
        self.set({})

    def _rule(self, sender: str, p: float) -> str:
        chance = f"numgen random mod {PARTS} < {max(1, int(p * PARTS))}" if 0 < p < 1 else ""
        chain = f"ip {TABLE} from-{sender}"
        lines = [
            f"add table ip {TABLE}",
            f"add chain ip {TABLE} in {{ type filter hook input priority 0; }}",
            f"add map ip {TABLE} senders {{ type ipv4_addr : verdict; }}",
            f"flush chain ip {TABLE} in",
            f"add rule ip {TABLE} in ip saddr vmap @senders",
            f"add chain {chain}",
            f"flush chain {chain}",
            f"add rule {chain} {chance} counter {'drop' if p else 'return'}",
            f"add element ip {TABLE} senders {{ {self._addresses[sender]} : jump from-{sender} }}",
        ]
        return "\n".join(lines)

    def _change(self, receiver: str, text: str) -> None:
        run("ip", "netns", "exec", network_of(self._emulation, receiver), "nft", "-f", "-", stdin=text)
