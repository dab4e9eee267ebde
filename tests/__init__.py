"""The tests. ``python -m tests`` runs them all; see README.md beside this file."""
