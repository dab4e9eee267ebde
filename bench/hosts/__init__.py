"""Machines over SSH for an evaluation, real or emulated: docs/guide/running-the-evaluation.md."""
