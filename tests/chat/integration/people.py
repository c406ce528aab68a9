"""Words for tests about the chat: a group with people in it, something said, and how answers stand."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import Group, User

from examples.chat import operations
from examples.chat.models import Answer, Message
from jobs.models import Job, Worker
from ratelimits import operations as ratelimits
from tests import farm


def group(*names: str, name: str = "friends") -> tuple[Group, list[User]]:
    """A group with people of these names in it."""
    made = Group.objects.create(name=name)
    return made, [farm.user(each, groups=[made]) for each in names]


def worker(name: str = "w1", **options: Any) -> Worker:
    """A worker that answers."""
    return farm.worker(name, "chat", **options)


def ask(room: Group, by: User, text: str = "Why is the sky blue?") -> Answer:
    """A question, and its answer that waits. How often one may ask is not what this is about."""
    message = operations.post(room.pk, text, by=by, key=f"user:{by.pk}")
    ratelimits.reset("chat/send", key=f"user:{by.pk}")
    return Answer.objects.get(message__question=message)


def say(room: Group, by: User, text: str) -> Message:
    """Something said that nobody has to answer."""
    message = operations.post(room.pk, text, by=by, key=f"user:{by.pk}", asks=False)
    ratelimits.reset("chat/send", key=f"user:{by.pk}")
    return message


def job_of(answer: Answer) -> Job:
    """The job that writes an answer now."""
    answer.refresh_from_db()
    return Job.objects.get(pk=answer.job_id)


def stands(answer: Answer) -> tuple[str, str]:
    """An answer's state and text, as stored."""
    found = Answer.objects.select_related("message").get(pk=answer.pk)
    return found.state, found.message.text


def log(room: Group) -> Sequence[tuple[str, str]]:
    """All that was said, the instructions apart: role and text."""
    found = Message.objects.filter(group=room).exclude(role="system").order_by("id")
    return list(found.values_list("role", "text"))
