"""Many processes at the farm's own operations, killed and cut off, and a checker of what tables and callers say.

`make test` runs a few seconds of it; `HAMMER_SECONDS=600 .venv/bin/python -m pytest tests/hammer` ten minutes.
"""
