"""Histories of whole runs, and a checker of them: `python -m tests.histories FILE` (docs/chaos.md)."""
