"""Real statements on a real PostgreSQL, interleaved on purpose: actors stop before each statement and each commit, and
a scheduler lets one of them go at a time (docs/chaos.md). `make schedules MINUTES=10` runs many."""
