"""Reads and single statements of the chat."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import Group, User
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery

from examples.chat.domain.answers import OPEN, State
from examples.chat.domain.texts import ANSWER_LIMIT, CONTEXT, PromptMessage
from examples.chat.models import ASSISTANT, SYSTEM, USER, Answer, Message
from postgres import statements

PAGE = 50  # messages on a page


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Messages, the oldest first; `older` is where the page before them ends, if there is one."""

    messages: tuple[Message, ...]
    older: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """A room from outside: how many are in it, and its last message (None: nothing yet)."""

    members: int
    last: Message | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One answer's next state."""

    job_id: int
    state: State
    attempt: int
    worker_name: str = ""
    error: str = ""
    starts_at: datetime | None = None
    text: str | None = None
    model_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A job that tries an ended one again."""

    job_id: int
    retry_of: int
    starts_at: datetime | None


def group(group_id: int) -> Group | None:
    """A group, if there still is one."""
    return Group.objects.filter(pk=group_id).first()


def person(user_id: int) -> User | None:
    """Somebody, if there still is such a person."""
    return User.objects.filter(pk=user_id).first()


def page(group_id: int, *, before: int | None = None) -> Page:
    """The newest messages of a room, or those before a message, each with its author and answer."""
    matching = Message.objects.filter(group_id=group_id).exclude(role=SYSTEM).order_by("-id")
    if before is not None:
        matching = matching.filter(id__lt=before)
    newer, older = (_replies_beside(id__gt=OuterRef("id")), _replies_beside(id__lt=OuterRef("id")))
    matching = matching.annotate(has_newer=Exists(newer), is_another=Exists(older))
    messages = list(matching.select_related("author", "question", "answer__asker")[: PAGE + 1])
    shown = messages[:PAGE]
    return Page(messages=tuple(shown[::-1]), older=shown[-1].pk if len(messages) > PAGE else None)


def _replies_beside(**condition: OuterRef) -> QuerySet[Message]:
    """Within a statement about messages: the other answers to the question of one."""
    return Message.objects.filter(question=OuterRef("question"), **condition)


def has_newer(reply: Message, *, besides: Message) -> bool:
    """Whether its question has a newer answer than `reply`, `besides` apart."""
    newer = Message.objects.filter(question=reply.question_id, pk__gt=reply.pk)
    return newer.exclude(pk=besides.pk).exists()


def add_message(group: Group, *, author: User, text: str) -> Message:
    """Store a message of a person."""
    return Message.objects.create(group=group, author=author, role=USER, text=text)


def instruct(group: Group, *, author: User, text: str) -> Message:
    """Keep instructions; they are the ones that count from now on."""
    return Message.objects.create(group=group, author=author, role=SYSTEM, text=text)


def instructions(group_id: int) -> Message | None:
    """The instructions of a room that count, with their author."""
    newest = Message.objects.filter(group_id=group_id, role=SYSTEM).select_related("author")
    return newest.order_by("-id").first()


def reply(question: Message) -> Message:
    """An empty message of the assistant."""
    return Message.objects.create(group_id=question.group_id, role=ASSISTANT, question=question)


def awaits(asker: User, *, group_id: int) -> bool:
    """Whether somebody waits for an answer in this group."""
    return Answer.objects.filter(group_id=group_id, asker=asker, state__in=OPEN).exists()


def begin_answer(reply: Message, *, asker: User, job_id: int, tokens: int, starts_at: datetime | None) -> Answer:
    """Keep how a message comes about. IntegrityError where the asker waits for another answer in this group."""
    return Answer.objects.create(
        message=reply, group_id=reply.group_id, asker=asker, job_id=job_id, tokens=tokens, starts_at=starts_at
    )


def prompts(replies: Sequence[int]) -> dict[int, list[PromptMessage]]:
    """For each of these messages of the assistant its prompt; one that was deleted is left out."""
    rows = statements.load("examples.chat", "prompts").run({"replies": list(replies), "context": CONTEXT})
    messages: dict[int, list[PromptMessage]] = defaultdict(list)
    for row in rows:
        messages[row.reply_id].append(PromptMessage(role=row.role, text=row.text))
    return messages


def answers_of(job_ids: Iterable[int]) -> dict[int, int]:
    """Which answer each of these jobs writes, by its id; jobs that write none are left out."""
    return dict(Answer.objects.filter(job_id__in=job_ids).values_list("job_id", "pk"))


def follow(answers: Sequence[Followed]) -> list[int]:
    """Let answers follow their jobs; the ids of the groups in which something changed."""
    rows = statements.load("examples.chat", "follow").run(
        {
            "job": [each.job_id for each in answers],
            "state": [each.state.value for each in answers],
            "attempt": [each.attempt for each in answers],
            "worker": [each.worker_name for each in answers],
            "error": [each.error for each in answers],
            "starts_at": [each.starts_at for each in answers],
            "model": [each.model_name for each in answers],
            "text": [None if each.text is None else each.text[:ANSWER_LIMIT] for each in answers],
        }
    )
    return [row.group_id for row in rows]


def ask_again(jobs: Sequence[Again]) -> list[int]:
    """Let jobs that try others again take over the answers of those; the ids of the groups."""
    rows = statements.load("examples.chat", "ask_again").run(
        {
            "job": [again.job_id for again in jobs],
            "retry_of": [again.retry_of for again in jobs],
            "starts_at": [again.starts_at for again in jobs],
        }
    )
    return [row.group_id for row in rows]


def message(message_id: int, *, group_id: int) -> Message | None:
    """A message of this room, with its answer if the assistant wrote it."""
    matches = Message.objects.filter(pk=message_id, group_id=group_id).exclude(role=SYSTEM)
    return matches.select_related("answer", "author", "question").first()


def answers_among(message_ids: Sequence[int]) -> list[Answer]:
    """The answers that these messages are, or were given."""
    theirs = Q(pk__in=message_ids) | Q(message__question__in=message_ids)
    return list(Answer.objects.filter(theirs).order_by("job_id"))


def job_of(answer_id: int) -> int | None:
    """The job that writes this answer at this moment."""
    return Answer.objects.values_list("job_id", flat=True).filter(pk=answer_id).first()


def delete(message_ids: Sequence[int]) -> list[int]:
    """Delete messages, with a question its answers; the ids of their groups."""
    doomed = Message.objects.filter(pk__in=message_ids)
    groups = list(doomed.values_list("group_id", flat=True).distinct())
    doomed.delete()
    return groups


def open_answers(*, after: int, limit: int) -> list[tuple[int, int, str]]:
    """Answers that are not over, in the order of their ids: id, job and state of each."""
    matches = Answer.objects.filter(state__in=OPEN, pk__gt=after).order_by("pk")
    return list(matches.values_list("pk", "job_id", "state")[:limit])


def close(job_ids: Sequence[int], *, error: str) -> list[int]:
    """End the answers of jobs that are no more, as failed; the ids of their groups."""
    lost = Answer.objects.filter(job_id__in=job_ids, state__in=OPEN)
    groups = list(lost.values_list("group_id", flat=True).distinct())
    lost.update(state=State.FAILED, error=error)
    return groups


def glances(group_ids: Sequence[int]) -> dict[int, Glance]:
    """Each of these rooms from outside."""
    newest = Message.objects.filter(group=OuterRef("pk")).exclude(role=SYSTEM).order_by("-id").values("id")
    rooms = Group.objects.filter(pk__in=group_ids).annotate(last_id=Subquery(newest[:1]), members=Count("user"))
    rows = list(rooms)
    last_messages = Message.objects.select_related("author").in_bulk([room.last_id for room in rows if room.last_id])
    return {room.pk: Glance(members=room.members, last=last_messages.get(room.last_id)) for room in rows}
