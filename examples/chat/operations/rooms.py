"""Rooms: one for each group, the instructions for the assistant, and members' own workers."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import Group, User

from accounts import operations as accounts
from accounts.errors import GroupNameTaken
from examples.chat import queries
from examples.chat.domain import answers, texts
from examples.chat.errors import InstructionsTooLong, NoSuchRoom, NotYourInstructions
from examples.chat.models import Message
from jobs import operations as jobs
from jobs.errors import InvalidValue
from live import operations as live
from postgres import transactions

LOBBY = "lobby"
WORKER_NAME_LIMIT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A room in the list of rooms: the group, and what can be seen from outside."""

    group: Group
    members: int
    last: Message | None


def rooms_of(user: User) -> list[Room]:
    """The rooms somebody may enter, the one with the newest message first."""
    groups = accounts.groups_of(user)
    glances = queries.glances([group.pk for group in groups])
    rooms = [
        Room(group=group, members=glances[group.pk].members, last=glances[group.pk].last)
        for group in groups
        if group.pk in glances
    ]
    return sorted(rooms, key=lambda room: room.last.pk if room.last else 0, reverse=True)


def room(group_id: int, *, by: User) -> Group:
    """The group whose room this is. Raises NoSuchRoom, also for a group that `by` is not in."""
    for group in accounts.groups_of(by):
        if group.pk == group_id:
            return group
    raise NoSuchRoom


def may_instruct(group: Group, *, user: User, present: Message | None) -> bool:
    """Whether somebody may write the instructions of a room: who wrote them last, who keeps the group, and where there
    are none, any member."""
    if present is None or present.author_id in {None, user.pk}:
        return True
    return accounts.owner(group) == user


@transactions.retried
def instruct(group_id: int, text: str, *, by: User) -> None:
    """Tell the assistant how to answer in this room; an empty text takes the instructions back.

    Questions that no worker has taken yet are answered by the new ones. Raises NoSuchRoom, InstructionsTooLong,
    NotYourInstructions.
    """
    text = texts.tidied(text)
    if not texts.is_storable(text, limit=texts.INSTRUCTIONS_LIMIT):
        raise InstructionsTooLong(limit=texts.INSTRUCTIONS_LIMIT)
    group = room(group_id, by=by)
    present = queries.instructions(group_id)
    if not may_instruct(group, user=by, present=present):
        raise NotYourInstructions
    if text != (present.text if present else ""):
        queries.instruct(group, author=by, text=text)
        live.touch(f"chat-instructions:{group_id}")


def connect_worker(group_id: int, name: str, *, by: User) -> tuple[str, str]:
    """Make a worker of this member's own, which answers in all of their groups: its name, and its key, shown once.

    Raises NoSuchRoom, jobs.errors.InvalidValue for a name that is no name.
    """
    room(group_id, by=by)
    name = " ".join(name.split()) or f"{by.get_username()}'s worker"[:WORKER_NAME_LIMIT]
    if len(name) > WORKER_NAME_LIMIT or not name.isprintable():
        raise InvalidValue(field="name", why=f"at most {WORKER_NAME_LIMIT} characters that can be printed")
    worker, key = jobs.create_worker(name, queues=[answers.KIND], owner=by)
    return worker.name, key


def open_lobby(*, by: User) -> Group | None:
    """The first room of a new farm, with `by` in it; None if a group of that name is there already."""
    try:
        return accounts.create_group(LOBBY, by=by)
    except GroupNameTaken:
        return None


def touch(group_ids: Iterable[int]) -> None:
    """Say that messages of these rooms, or the states of their answers, changed: published after the commit."""
    live.touch(*(f"chat:{group_id}" for group_id in group_ids))
