"""Live queries of the chat. Everybody in a group sees the same rendering; what is whose is marked in the browser."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.utils.safestring import SafeString

from accounts import operations as accounts
from examples.chat import operations, queries
from examples.chat.domain import answers
from examples.chat.domain.answers import ASKABLE, OPEN, State
from examples.chat.errors import NoSuchRoom
from examples.chat.models import Message
from jobs import operations as jobs
from live import html
from live.registry import Viewer, live_query

MEMBER = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEntry:
    """A message as the room shows it. `writing` is the stream of an answer that is being written, `why` the part that
    explains why it is not."""

    message: Message
    writing: SafeString | None = None
    why: SafeString | None = None

    @property
    def is_open(self) -> bool:
        """Whether the answer is still awaited."""
        return self.message.role == "assistant" and self.message.answer.state in OPEN

    @property
    def is_askable(self) -> bool:
        """Whether the question may be asked again: this is its newest answer, and it has ended."""
        return self.message.role == "assistant" and not self.has_newer and self.message.answer.state in ASKABLE

    @property
    def has_newer(self) -> bool:
        """Whether its question has a newer answer (read by queries.page)."""
        return bool(getattr(self.message, "has_newer", False))

    @property
    def is_another(self) -> bool:
        """Whether its question has an earlier answer (read by queries.page)."""
        return bool(getattr(self.message, "is_another", False))


def _of_room(group_id: int, **_: Any) -> list[str]:
    return [f"chat:{group_id}"]


def _rights(group_id: int, **_: Any) -> list[str]:
    return [f"group:{group_id}"]


@live_query(
    "chat-room",
    topics=_of_room,
    rights_topics=_rights,
    audiences=(MEMBER,),
    template="chat/live/room.html",
    at_most_every_s=0.05,
)
def room(*, group_id: int) -> Mapping[str, Any]:
    """The newest messages of a room, with the answers that are on their way."""
    page = queries.page(group_id)
    return {"entries": [entry(message) for message in page.messages], "older": page.older}


def entry(message: Message) -> MessageEntry:
    """A message with the live parts of the job behind it, if there is one that has not ended."""
    if message.role != "assistant":
        return MessageEntry(message=message)
    job_id, state = message.answer.job_id, message.answer.state
    if state == State.WRITING:
        return MessageEntry(
            message=message,
            writing=html.wrapper("job-output", {"job_id": job_id}, audience=MEMBER, element="div", css="message-text"),
        )
    if state in OPEN:
        arguments = {"job_id": job_id, "queue": answers.KIND}
        return MessageEntry(message=message, why=html.wrapper("job-why", arguments, audience=MEMBER))
    return MessageEntry(message=message)


@live_query(
    "chat-workers",
    topics=lambda group_id: ["workers", f"group:{group_id}"],
    rights_topics=_rights,
    audiences=(MEMBER,),
    template="chat/live/workers.html",
    at_most_every_s=0.5,
)
def workers(*, group_id: int) -> Mapping[str, Any]:
    """Which workers answer in this room."""
    return {"workers": jobs.workers_for(answers.KIND, group_id=group_id)}


@live_query(
    "chat-members",
    topics=lambda group_id: [f"group:{group_id}"],
    rights_topics=_rights,
    audiences=(MEMBER,),
    template="chat/live/members.html",
    at_most_every_s=0.2,
)
def members(*, group_id: int) -> Mapping[str, Any] | None:
    """Who is in this room."""
    group = queries.group(group_id)
    if group is None:
        return None
    return {"members": accounts.members(group), "owner": accounts.owner(group)}


@live_query(
    "chat-instructions",
    topics=lambda group_id: [f"chat-instructions:{group_id}"],
    rights_topics=_rights,
    audiences=(MEMBER,),
    template="chat/live/instructions.html",
)
def instructions(*, group_id: int) -> Mapping[str, Any]:
    """The instructions for the assistant in this room."""
    return {"instructions": queries.instructions(group_id)}


def _member(viewer: Viewer, *, group_id: int, **_: Any) -> str | None:
    if not isinstance(viewer.user, User) or not viewer.user.is_active:
        return None
    try:
        operations.room(group_id, by=viewer.user)
    except NoSuchRoom:
        return None
    return MEMBER


for part in (room, workers, members, instructions):
    part.may_see(_member)


@live_query(
    "chat-rooms",
    topics=lambda whose: [f"user:{whose}", "chat:*", "group:*"],
    audiences=(MEMBER,),
    template="chat/live/rooms.html",
    at_most_every_s=2.0,  # any message in any room makes it stale
)
def rooms(*, whose: int) -> Mapping[str, Any] | None:
    """Somebody's rooms, with the last message of each."""
    person = queries.person(whose)
    return None if person is None else {"rooms": operations.rooms_of(person)}


@rooms.may_see
def _(viewer: Viewer, *, whose: int) -> str | None:
    is_theirs = isinstance(viewer.user, User) and viewer.user.is_active and viewer.user.pk == whose
    return MEMBER if is_theirs else None
