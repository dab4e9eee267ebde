"""Structures on top of the client, beyond the recipes of kazoo."""
