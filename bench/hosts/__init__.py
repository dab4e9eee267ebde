"""Machines over SSH for an evaluation, real or emulated: docs/running-the-evaluation.md."""
