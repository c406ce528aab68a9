"""Which topics a change makes stale: noted inside its transaction, published after the commit."""

from collections.abc import Iterable

from live import operations as live


def changed(deliveries: Iterable[int], *, sources: Iterable[str]) -> None:
    """Deliveries came, or stand somewhere else."""
    live.touch(
        "deliveries",
        *(f"delivery:{pk}" for pk in deliveries),
        *(f"webhook-source:{source}" for source in set(sources)),
    )


def refused(source: str) -> None:
    """A request of a source was refused."""
    live.touch("refusals", f"webhook-source:{source}")


def secrets_changed(source: str) -> None:
    """A source has other secrets."""
    live.touch("webhook-secrets", f"webhook-source:{source}")
