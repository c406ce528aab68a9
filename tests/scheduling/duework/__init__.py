"""The task backend against due-work-harness, which kills the processes that run tasks at each point (docs/chaos.md)."""
