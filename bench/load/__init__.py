"""The load of an evaluation, as each client host produces it: ``python -m bench.load PLAN RESULT``."""
