"""`python -m tests.chaos`: a whole farm under load while one after another of its parts breaks (docs/chaos.md)."""
