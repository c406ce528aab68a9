"""Statements about idempotency keys."""

from collections.abc import Sequence

from django.db import OperationalError
from psycopg.errors import LockNotAvailable

from jobs.models import IdempotencyKey
from postgres import statements


def begin(owner_id: int, key: str, fingerprint: bytes, *, retention_s: float, wait_s: float) -> bool | None:
    """Note a request under its key; whether it is the first with it in `retention_s` seconds.

    None if the first is still being carried out after `wait_s`: then the transaction is broken, as by any error.
    """
    params = {"owner_id": owner_id, "key": key, "fingerprint": fingerprint, "retention_s": retention_s}
    params["wait_ms"] = f"{wait_s * 1000:.0f}ms"
    try:
        [row] = statements.load("jobs", "idempotency_begin").run(params)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return None
        raise
    return bool(row.is_first)


def known(owner_id: int, key: str) -> IdempotencyKey:
    """What is kept under a key that `begin` found."""
    return IdempotencyKey.objects.get(owner_id=owner_id, key=key)


def keep(owner_id: int, key: str, *, job_ids: Sequence[int | None], not_unique: Sequence[int]) -> None:
    """Keep which jobs a request was answered with."""
    IdempotencyKey.objects.filter(owner_id=owner_id, key=key).update(
        job_ids=list(job_ids), left_out=list(not_unique)
    )


def forget(owner_id: int, key: str) -> None:
    """Let the next request with this key be the first."""
    IdempotencyKey.objects.filter(owner_id=owner_id, key=key).delete()


def forget_older(age_s: float, *, limit: int) -> int:
    """Delete keys older than this, the oldest first; how many."""
    return len(statements.load("jobs", "idempotency_forget").run({"age_s": age_s, "limit": limit}))
