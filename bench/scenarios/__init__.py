"""The scenarios of the evaluation. Each measures in a lab, and shows what it has measured: docs/evaluation.md."""
