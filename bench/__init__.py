"""Benchmarks, run from a checkout; they need the extra ``bench``."""
