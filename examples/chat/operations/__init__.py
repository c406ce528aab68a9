"""What people do in rooms, and the hooks that move answers. Each function is one use case, in one transaction."""

from examples.chat.operations.answer_jobs import on_transition, prepare, reconcile
from examples.chat.operations.messages import ask_again, cancel, discard, post, remove
from examples.chat.operations.rooms import Room, connect_worker, instruct, may_instruct, open_lobby, room, rooms_of

__all__ = [
    "Room",
    "ask_again",
    "cancel",
    "connect_worker",
    "discard",
    "instruct",
    "may_instruct",
    "on_transition",
    "open_lobby",
    "prepare",
    "reconcile",
    "remove",
    "room",
    "rooms_of",
    "post",
]
