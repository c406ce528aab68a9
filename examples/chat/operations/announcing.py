"""Which topics a change makes stale: touched inside its transaction, published after the commit."""

from collections.abc import Iterable

from live import operations as live


def messages_changed(group_ids: Iterable[int]) -> None:
    """Messages of these rooms, or the state of their answers, changed."""
    live.touch(*(f"chat:{group_id}" for group_id in group_ids))


def instructed(group_id: int) -> None:
    """The instructions of this room changed."""
    live.touch(f"chat-instructions:{group_id}")
