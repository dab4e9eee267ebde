"""kazoo's parties, which make their folder again when another program has deleted it."""

from __future__ import annotations

from kazoo.recipe.party import BaseParty
from kazoo.recipe.party import Party as KazooParty
from kazoo.recipe.party import ShallowParty as KazooShallowParty

from parkazoo.recipe.swept import in_folder


class _PartyFolder(BaseParty):
    def _inner_join(self) -> None:
        in_folder(self._forget_folder, super()._inner_join)

    def _get_children(self) -> list[str]:
        return in_folder(self._forget_folder, self._list)

    def _list(self) -> list[str]:
        self._ensure_parent()
        return super()._get_children()

    def _forget_folder(self) -> None:
        self.ensured_path = False


class Party(_PartyFolder, KazooParty):
    """Replaces kazoo's Party: same methods, same znodes."""


class ShallowParty(_PartyFolder, KazooShallowParty):
    """Replaces kazoo's ShallowParty: same methods, same znodes."""
