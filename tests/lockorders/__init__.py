"""In which order the transactions of the suite lock what others may wait for: `make locks` (docs/chaos.md).

With JOBFARM_LOCKS each process of pytest writes into that folder (`recording`); `python -m tests.lockorders FOLDER`
makes one graph of it, and fails on a circle.
"""
