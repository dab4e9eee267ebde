"""The tables of docs/, made from the raw results in docs/runs: ``python -m bench.pages``."""
