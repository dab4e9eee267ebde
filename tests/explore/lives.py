"""What must hold in every state: a mirror has a home with a pin, and a directory gets few mirrors in one life."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import MIRRORS, PIN, PROOF, join, unescape
from tests.explore.model import Model
from tests.explore.scenario import Beginning, Violation
from tests.explore.znodes import Znodes


class Life(NamedTuple):
    """A directory that lives. `times` is how often it got its mirror."""

    czxid: int
    has_mirror: bool
    times: int


class Lives:
    """Every directory that has a mirror, or has had one in this life."""

    def __init__(self, lives: Mapping[str, Life]) -> None:
        self.lives = lives
        self.key: Hashable = tuple(sorted((path, life.has_mirror, life.times) for path, life in lives.items()))

    def after(self, beginning: Beginning, model: Model, most: int | None) -> Lives:
        """As the model is now.

        :param most: how often a directory may get its mirror in one life; None for any number.
        :raises Violation: it may not be so.
        """
        mirrors = [*mirrored(beginning, model)]
        now: dict[str, Life] = {}
        for directory in dict.fromkeys([*self.lives, *mirrors]):
            home = beginning.home(model, directory)
            znode = model.nodes[home.ensemble].get(home.path)
            if znode is None:
                continue
            before = self.lives.get(directory)
            if before is None or before.czxid != znode.czxid:
                before = Life(znode.czxid, False, 0)
            has_mirror = directory in mirrors
            times = before.times + (has_mirror and not before.has_mirror)
            if most is not None and times > most:
                raise Violation(f"{directory} got {times} mirrors in one life")
            now[directory] = Life(znode.czxid, has_mirror, times)
        return Lives(now)


def mirrored(beginning: Beginning, model: Model) -> Iterator[str]:
    """The directories that have a mirror.

    :raises Violation: it is not where it belongs, or its directory has no home with a pin that says so.
    """
    for ensemble, nodes in enumerate(model.nodes):
        for name in sorted(nodes[MIRRORS].children):
            directory = unescape(name)
            if not beginning.knows and beginning.placement.of_children(directory) != ensemble:
                raise Violation(f"the mirror of {directory} is on ensemble {ensemble}")
            home = beginning.home(model, directory)
            znode = model.nodes[home.ensemble].get(home.path)
            if znode is None or PIN not in znode.children:
                raise Violation(f"orphan: {directory} has a mirror but no home with a pin")
            pin = decode_pin(model.nodes[home.ensemble][join(home.path, PIN)].data or b"")
            # By the names in the explorer's contexts.
            if pin is None or pin.on != f"e{ensemble}" or pin.generation != name.partition("%~")[2]:
                raise Violation(f"the pin of {directory} names another ensemble than its mirror's: {pin}")
            yield directory
        if beginning.knows:
            _verify_homes(ensemble, nodes)


def _verify_homes(ensemble: int, nodes: Znodes) -> None:
    """Each home says by its pin, and once, where its children are."""
    for path, znode in nodes.items():
        if PROOF in znode.children and PIN not in znode.children:
            raise Violation(f"{path} on ensemble {ensemble} has a proof, and no pin")
        if PIN not in znode.children:
            continue
        pin = decode_pin(nodes[join(path, PIN)].data or b"")
        if pin is None or pin.is_native != (PROOF in znode.children):
            raise Violation(f"the pin of {path} on ensemble {ensemble} and its proof disagree: {pin}")
        if not pin.is_native and set(znode.children) - {PIN}:
            raise Violation(f"{path} on ensemble {ensemble} has children beside a pin that names {pin.on}")
