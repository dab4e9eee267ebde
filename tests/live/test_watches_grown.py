"""The tests of watches once more, on a map that has grown."""

from __future__ import annotations

from tests.live import (
    test_client_dictionary_changes,
    test_client_reach,
    test_client_spread,
    test_client_watch_recipes,
    test_client_watches,
)


class TestOneShot(test_client_watches.TestOneShot):
    form = "grown"


class TestManyEvents(test_client_watches.TestManyEvents):
    form = "grown"


class TestRecipes(test_client_watch_recipes.TestRecipes):
    form = "grown"


class TestWatchesGoOn(test_client_reach.TestWatchesGoOn):
    form = "grown"


class TestChanges(test_client_dictionary_changes.TestChanges):
    form = "grown"


class TestSpread(test_client_spread.TestSpread):
    form = "grown"
