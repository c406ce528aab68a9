"""What members do in a room: post a message, ask the assistant, cancel, ask again, take a message back.

Whoever touches an answer and its job takes the job first: the answer then moves by the hook, in the job's transaction.
"""

from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from core.refusal import CancelVerdict
from examples.chat import limits, queries
from examples.chat.domain import answers, texts
from examples.chat.domain.answers import ASKABLE, State
from examples.chat.errors import InvalidText, NoSuchMessage, NothingToAskAgain, NotYours, TooOld, Unanswered
from examples.chat.models import ASSISTANT, Answer, Message
from examples.chat.operations import rooms
from jobs import errors as jobs_errors, operations as jobs
from jobs.domain.states import Status
from jobs.operations import Cancellation
from postgres import transactions
from ratelimits import operations as ratelimits

_ONE_UNANSWERED = "one_unanswered_question_for_each_person_in_a_group"


@transactions.retried
def post(group_id: int, text: str, *, by: User, key: str, asks: bool = True) -> Message:
    """Post a message in a room and, if `asks`, have it answered: the message, the empty answer and the job at once.

    `key` says whose tokens of the limit on messages it takes (accounts.http.limit_key). Raises NoSuchRoom,
    InvalidText, Unanswered while an earlier question of theirs waits in this group, and RateLimited: too many
    messages, or (by name `chat completion tokens`) answers are booked out for ten minutes. A refusal takes nothing.
    """
    text = texts.tidied(text)
    if not text or not texts.is_storable(text, limit=texts.MESSAGE_LIMIT):
        raise InvalidText(limit=texts.MESSAGE_LIMIT)
    group = rooms.room(group_id, by=by)
    ratelimits.limit(limits.SEND, key=key, throws=True)
    message = queries.add_message(group, author=by, text=text)
    if asks:
        _ask(message, by)
    rooms.touch([group_id])
    return message


def cancel(group_id: int, answer_id: int, *, by: User) -> Cancellation:
    """Cancel an answer; returns the outcome. For who asked. Raises NoSuchRoom, NoSuchMessage, NotYours."""
    answer = _answer(group_id, answer_id, by)
    if answer.asker_id != by.pk:
        raise NotYours
    return _canceled(answer, by)


@transactions.retried
def ask_again(group_id: int, answer_id: int, *, by: User, key: str) -> None:
    """Have a question answered once more. For who asked.

    An answer that has a text stays, and another one is added; it must be the newest to its question, so that a repeated
    call adds none. One without a text is taken over by a new job. Raises NoSuchRoom, NoSuchMessage, NotYours,
    NothingToAskAgain, Unanswered, RateLimited, and TooOld for a job that the farm has deleted. A refusal takes nothing.
    """
    answer = _answer(group_id, answer_id, by)
    if answer.asker_id != by.pk:
        raise NotYours
    if State(answer.state) not in ASKABLE:
        raise NothingToAskAgain
    ratelimits.limit(limits.SEND, key=key, throws=True)
    if answer.message.text:
        _add_another(answer, by)
    else:
        _take_over(answer, by)


def _add_another(answer: Answer, by: User) -> None:
    question = answer.message.question
    assert question is not None  # a constraint of the table: the assistant only answers
    reply = _ask(question, by)
    # Asked after the new answer is stored: a call that adds one at the same time is either refused there (one
    # unanswered question for each person) or has committed, and is seen here.
    if queries.has_newer(answer.message, besides=reply):
        raise NothingToAskAgain
    rooms.touch([answer.group_id])


def _take_over(answer: Answer, by: User) -> None:
    job_id = _tried_again(answer.job_id, by)
    # The hook gave it the answer, unless the answer had moved on or another question of theirs waits.
    if queries.job_of(answer.pk) != job_id:
        raise Unanswered


def remove(group_id: int, message_id: int, *, by: User) -> None:
    """Delete one's own message, or an answer that one asked for; an answer that is still awaited is canceled.

    With a question go its answers. Raises NoSuchRoom, NoSuchMessage, NotYours.
    """
    message = _message(group_id, message_id, by)
    owner_id = message.answer.asker_id if message.role == ASSISTANT else message.author_id
    if owner_id != by.pk:
        raise NotYours
    discard([message.pk])


@transactions.retried
def discard(message_ids: Sequence[int]) -> None:
    """Delete messages, whoever wrote them, with a question its answers; jobs that write one are canceled."""
    for answer in queries.answers_among(message_ids):
        _canceled(answer, None)
    rooms.touch(queries.delete(message_ids))


# The order of locks is that of `jobs`: a job, then its limit, then what is stored of the answer. Who stored the answer
# first and reserved tokens then would meet, in a circle, who tries a job again: that holds tokens, and waits to see
# whether the answer that is being stored stands in its way.
def _ask(question: Message, by: User) -> Message:
    if queries.awaits(by, group_id=question.group_id):
        raise Unanswered
    reply = queries.reply(question)
    tokens = texts.estimated_tokens(queries.prompts([reply.pk])[reply.pk])
    job = jobs.submit(
        answers.KIND, {"answer": reply.pk}, owner=by, group=question.group,
        unique_key=f"answer:{reply.pk}", limit_count=tokens,
    )  # fmt: skip
    starts_at = job.run_at if job.limit_until else None
    try:
        with transaction.atomic():
            queries.begin_answer(reply, asker=by, job_id=job.pk, tokens=tokens, starts_at=starts_at)
    except IntegrityError as error:
        if _ONE_UNANSWERED in str(error):
            raise Unanswered from None
        raise
    return reply


def _tried_again(job_id: int, by: User) -> int:
    try:
        return jobs.retry(job_id, by=by).pk
    except jobs_errors.NotFound:
        raise TooOld from None
    except (jobs_errors.NotEnded, jobs_errors.NotUnique):
        raise NothingToAskAgain from None


def _canceled(answer: Answer, by: User | None) -> Cancellation:
    try:
        return jobs.cancel(answer.job_id, by=by)
    except jobs_errors.NotFound:
        return Cancellation(verdict=CancelVerdict.TOO_LATE, status=Status.FAILED)  # it ended long ago


def _answer(group_id: int, answer_id: int, by: User) -> Answer:
    message = _message(group_id, answer_id, by)
    if message.role != ASSISTANT:
        raise NoSuchMessage
    return message.answer


def _message(group_id: int, message_id: int, by: User) -> Message:
    rooms.room(group_id, by=by)
    message = queries.message(message_id, group_id=group_id)
    if message is None:
        raise NoSuchMessage
    return message
