"""The tests. ``python -m tests`` runs them all; see README.md beside this file."""

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(threadName)s %(name)s: %(message)s"
