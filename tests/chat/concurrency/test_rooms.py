"""The chat under races: one unanswered question each, and an answer is always where its job is."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import close_old_connections

from examples.chat import operations
from examples.chat.domain import answers as rules
from examples.chat.errors import ChatError, NoSuchMessage
from examples.chat.models import Answer, Message
from jobs import operations as jobs
from jobs.errors import JobsError, NotUnique
from jobs.models import Job, Worker
from tests import farm
from tests.chat.integration import people

pytestmark = pytest.mark.django_db(transaction=True)


def _try(action: Callable[[], Any]) -> str:
    """What became of a call: "done", or the name of the refusal."""
    try:
        action()
    except (ChatError, JobsError) as refusal:
        return type(refusal).__name__
    finally:
        close_old_connections()
    return "done"


def _agree() -> None:
    """Every answer stands where its job does, and has a text exactly when it is finished."""
    statuses = jobs.statuses(Job.objects.values_list("pk", flat=True))
    for answer in Answer.objects.select_related("message"):
        status = statuses[answer.job_id]
        assert rules.agrees(answer.state, status=status), f"{answer} is {answer.state}, its job {status}"
        assert (answer.message.text != "") == (answer.state == "finished")


class TestAsking:
    def test_fifty_times_at_once_asks_one_question_each(self) -> None:
        room, members = people.group(*(f"p{n}" for n in range(10)))
        posted = farm.at_once(
            *(
                partial(_try, partial(operations.post, room.pk, f"{n}?", by=member, key=f"k{member.pk}-{n}"))
                for n in range(5)
                for member in members
            )
        )
        assert Counter(posted) == {"done": 10, "Unanswered": 40}
        assert sorted(Answer.objects.values_list("asker_id", flat=True)) == [member.pk for member in members]
        assert Job.objects.count() == 10
        assert Message.objects.count() == 20
        _agree()

    def test_cancel_and_finish_at_once_leave_every_answer_where_its_job_is(self) -> None:
        """Each asker asks, cancels every other question, and asks on; workers answer, fail and fall silent."""
        room, members = people.group(*(f"p{n}" for n in range(4)))
        workers = [people.worker(f"w{n}") for n in range(3)]
        talking = {member.pk for member in members}
        farm.at_once(
            *(partial(_talk, room, member, talking, rounds=12) for member in members),
            *(partial(_answer_all, worker, until=lambda: not talking) for worker in workers),
            partial(_sweep, until=lambda: not talking),
        )
        _agree()
        _end_all(*workers)
        _agree()
        assert Job.objects.count() == 48
        assert set(Answer.objects.values_list("state", flat=True)) >= {"finished", "canceled"}
        assert operations.reconcile() == 0


class TestAskingAgain:
    def test_from_three_places_at_once_makes_one_job(self) -> None:
        room, [ada] = people.group("ada")
        for _ in range(10):
            answer = people.ask(room, ada)
            operations.cancel(room.pk, answer.pk, by=ada)
            first = people.job_of(answer).pk
            again = partial(operations.ask_again, room.pk, answer.pk, by=ada, key=f"k{answer.pk}")
            tried = farm.at_once(
                partial(_try, again), partial(_try, again), partial(_try, partial(jobs.retry, first, by=ada))
            )
            assert Counter(tried)["done"] == 1, tried
            assert set(tried) <= {"done", NotUnique.__name__, "NothingToAskAgain", "Unanswered"}
            [live] = Job.objects.filter(retry_of=first)
            assert people.job_of(answer) == live
            assert people.stands(answer) == ("waiting", "")
            operations.cancel(room.pk, answer.pk, by=ada)
        _agree()

    def test_for_another_answer_from_five_places_at_once_makes_one(self) -> None:
        room, [ada] = people.group("ada")
        worker = people.worker()
        for turn in range(1, 9):
            answer = people.ask(room, ada)
            farm.succeed(worker, farm.claim_one(worker), {"text": "So."})
            again = [
                partial(_try, partial(operations.ask_again, room.pk, answer.pk, by=ada, key=f"k{turn}-{n}"))
                for n in range(5)
            ]
            tried = farm.at_once(*again, partial(_answer_all, worker, until=lambda: True))[:5]
            assert Counter(tried)["done"] == 1, tried
            assert set(tried) <= {"done", "Unanswered", "NothingToAskAgain"}
            _end_all(worker)
            assert Message.objects.filter(role="assistant", question=answer.message.question).count() == 2
        _agree()

    def test_two_questions_and_a_new_one_leaves_one_open(self) -> None:
        room, [ada] = people.group("ada")
        worker = people.worker()
        for _ in range(10):
            two = [people.ask(room, ada) for _ in range(2) if _cancel_open(room, ada)]
            _cancel_open(room, ada)
            actions = [partial(operations.ask_again, room.pk, answer.pk, by=ada, key=f"k{answer.pk}") for answer in two]
            farm.at_once(
                *(partial(_try, action) for action in actions),
                partial(_try, partial(operations.post, room.pk, "New?", by=ada, key=f"n{two[0].pk}")),
            )
            assert Answer.objects.filter(asker=ada, state__in=rules.OPEN).count() == 1
            _end_all(worker)
            _agree()


class TestTakingBack:
    def test_while_workers_answer_leaves_neither_message_nor_running_job(self) -> None:
        room, members = people.group(*(f"p{n}" for n in range(12)))
        posted = [(people.ask(room, member), member) for member in members]
        questions = [(answer.message.question_id, member) for answer, member in posted]
        replies = farm.at_once(
            *(partial(_take_back, room, questions[n::3]) for n in range(3)),
            *(partial(_answer_all, people.worker(f"w{n}"), until=lambda: True) for n in range(2)),
        )
        _end_all(people.worker("last"))
        assert {word for words in replies[:3] for word in words or []} == {"done"}
        assert Message.objects.count() == Answer.objects.count() == 0
        assert set(farm.statuses()) <= {"success", "canceled", "failed", "timed_out"}
        assert operations.reconcile() == 0


def _talk(room: Group, asker: User, talking: set[int], *, rounds: int) -> None:
    """Ask one question after the other; `talking` holds those who have not ended, however they end."""
    try:
        for turn in range(rounds):
            farm.until(partial(_posted, room, asker, turn), what=f"question {turn}")
    finally:
        talking.discard(asker.pk)


def _posted(room: Group, asker: User, turn: int) -> bool:
    """Whether this question could be asked; every other one is canceled at once, or as soon as it is in the way."""
    posted = _try(partial(operations.post, room.pk, f"{turn}?", by=asker, key=f"{asker.pk}-{turn}")) == "done"
    if turn % 2:
        _cancel_open(room, asker)
    return posted


def _cancel_open(room: Group, asker: User) -> bool:
    for answer in Answer.objects.filter(group=room, asker=asker, state__in=rules.OPEN):
        try:
            operations.cancel(room.pk, answer.pk, by=asker)
        except NoSuchMessage:
            continue
    return True


def _answer_all(worker: Worker, *, until: Callable[[], bool]) -> None:
    while (claimed := jobs.claim(worker, limit=2)) or not until():
        for job in claimed:
            if job.id % 11 == 0:
                farm.expire_lease(job)
            elif job.id % 7 == 0:
                farm.fail(worker, job, "no", retryable=False)
            else:
                farm.succeed(worker, job, {"text": f"Answer {job.id}"})


def _end_all(*workers: Worker) -> None:
    """What is left when the race is over."""
    while jobs.sweep().taken_back or Job.objects.waiting().exists():
        for worker in workers:
            _answer_all(worker, until=lambda: True)
    assert not Job.objects.living().exists()


def _sweep(*, until: Callable[[], bool]) -> None:
    while not until():
        jobs.sweep()


def _take_back(room: Group, questions: Sequence[tuple[int | None, User]]) -> list[str]:
    return [_try(partial(operations.remove, room.pk, question or 0, by=member)) for question, member in questions]
