"""Which topics a change makes stale: said inside its transaction, published after the commit."""

from collections.abc import Iterable

from live import operations as live


def said(group_ids: Iterable[int]) -> None:
    """What is said in these rooms, or how it comes about, changed."""
    live.touch(*(f"chat:{group_id}" for group_id in group_ids))


def instructed(group_id: int) -> None:
    """The instructions of this room changed."""
    live.touch(f"chat-instructions:{group_id}")
