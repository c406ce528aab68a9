"""Kinds declared in code. Every app may have a `kinds.py`; `declare` in it makes the kind known."""

from jobs.domain.kinds import Kind

DECLARED: dict[str, Kind] = {}


def declare(kind: Kind) -> Kind:
    """Make `kind` known to this process. The same name again must say the same, or ValueError."""
    known = DECLARED.setdefault(kind.name, kind)
    if known != kind:
        raise ValueError(f"kind {kind.name!r} is declared twice with different defaults")
    return kind


CHAT = declare(Kind(name="chat", timeout_s=600))
IMAGE = declare(Kind(name="image", timeout_s=600))
