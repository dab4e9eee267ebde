"""The scenarios of the evaluation. Each measures in a lab and shows its figures: docs/design/evaluation.md."""
