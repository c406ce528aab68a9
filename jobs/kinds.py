"""Kinds declared in code. Every app may have a `kinds.py`; `declare` in it makes the kind known."""

from jobs.domain.kinds import Kind
from jobs.errors import InvalidValue
from ratelimits import limits
from ratelimits.domain.algebra import possible
from ratelimits.errors import RateLimitsError

DECLARED: dict[str, Kind] = {}


def declare(kind: Kind) -> Kind:
    """Make `kind` known to this process. The same name again must say the same, or ValueError.

    Raises InvalidValue for a limit that is not declared, or that could never grant what one job takes.
    """
    check_limit(kind)
    known = DECLARED.setdefault(kind.name, kind)
    if known != kind:
        raise ValueError(f"kind {kind.name!r} is declared twice with different defaults")
    return kind


def check_limit(kind: Kind) -> None:
    """Raise InvalidValue unless the kind's limit, if it names one, is declared and could grant what a job takes."""
    if kind.limit is None:
        return
    try:
        possible(limits.find(kind.limit), count=kind.limit_count, reserve=True)
    except RateLimitsError as refusal:
        raise InvalidValue(field="limit", why=refusal.message) from refusal


CHAT = declare(Kind(name="chat", timeout_s=600))
IMAGE = declare(Kind(name="image", timeout_s=600))
