"""Where znodes are in a model whose pins decide that."""

from __future__ import annotations

from parkazoo.protocol.pin import Pin, decode_pin
from parkazoo.protocol.placement import MIRRORS, PIN, Place, escape, join, split
from tests.explore.model import Model


def home_by_pins(model: Model, root: int, path: str) -> Place:
    """Where a znode is, or would be.

    :param root: the ensemble that holds the children of ``/``.
    """
    parent, name = split(path)
    if parent == "/":
        return Place(root, path)
    above = home_by_pins(model, root, parent)
    pin = pin_at(model, above)
    if pin is None or pin.is_native:
        return Place(above.ensemble, join(above.path, name))
    generation = f"%~{pin.generation}" if pin.generation else ""
    return Place(int(str(pin.on)[1:]), f"{MIRRORS}/{escape(parent)}{generation}/{name}")


def pin_at(model: Model, home: Place) -> Pin | None:
    """The pin of a home, if there is one."""
    znode = model.nodes[home.ensemble].get(join(home.path, PIN))
    return None if znode is None else decode_pin(znode.data or b"")
