"""Asking, canceling, asking again, taking back: the message, the answer and the job are one."""

import pytest
from django.db import transaction

from core.refusal import CancelVerdict
from examples.chat import operations
from examples.chat.errors import InvalidText, NoSuchMessage, NoSuchRoom, NothingToAskAgain, NotYours, TooOld, Unanswered
from examples.chat.models import Answer, Message
from jobs import operations as jobs
from jobs.models import Job
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from tests import farm
from tests.browser.farmhands import write
from tests.chat.integration import people

pytestmark = pytest.mark.django_db


class TestSay:
    def test_keeps_the_message_the_empty_answer_and_the_job_at_once(self) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada, "  Why?\r\n ")
        job = people.job_of(answer)
        assert people.log(room) == [("user", "Why?"), ("assistant", "")]
        assert (answer.state, answer.asker, answer.group, answer.message.author) == ("waiting", ada, room, None)
        assert (job.kind, job.owner, job.group, job.payload) == ("chat", ada, room, {"answer": answer.pk})
        assert job.limit_count == answer.tokens == 1024 + 4 + 1

    def test_leaves_nothing_behind_when_the_transaction_does_not_commit(self) -> None:
        room, [ada] = people.group("ada")
        with farm.rolled_back():
            people.ask(room, ada)
        assert (Message.objects.count(), Answer.objects.count(), Job.objects.count()) == (0, 0, 0)

    def test_without_a_question_is_a_message_and_no_more(self) -> None:
        room, [ada] = people.group("ada")
        people.say(room, ada, "Hello")
        people.say(room, ada, "Hello?")
        assert people.log(room) == [("user", "Hello"), ("user", "Hello?")]
        assert Job.objects.count() == 0

    def test_is_for_members(self) -> None:
        room, _ = people.group("ada")
        for group_id in (room.pk, 10**9):
            with pytest.raises(NoSuchRoom):
                operations.post(group_id, "Hi", by=farm.user(f"eve{group_id}"), key="user:1")
        assert Message.objects.count() == 0

    @pytest.mark.parametrize("text", ["", " \n ", "a\x00b", "\ud800", "x" * 4001])
    def test_refuses_what_cannot_be_kept(self, text: str) -> None:
        room, [ada] = people.group("ada")
        with pytest.raises(InvalidText):
            operations.post(room.pk, text, by=ada, key="user:1")

    def test_is_limited_by_its_key_to_three_at_once(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        for _ in range(3):
            operations.post(room.pk, "Hi", by=ada, key="session:abc", asks=False)
        with pytest.raises(RateLimited) as refusal:
            operations.post(room.pk, "Hi", by=ada, key="session:abc", asks=False)
        assert 5 < refusal.value.retry_after.total_seconds() <= 6
        operations.post(room.pk, "Hi", by=bob, key="session:def", asks=False)
        assert Message.objects.count() == 4

    def test_asks_one_question_at_a_time_in_a_group_and_a_refusal_takes_nothing(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        other, _ = people.group(name="others")
        ada.groups.add(other)
        people.ask(room, ada)
        left = ratelimits.get_value("chat/send", key="k").value
        with pytest.raises(Unanswered):
            operations.post(room.pk, "And why not?", by=ada, key="k")
        assert ratelimits.get_value("chat/send", key="k").value == left
        people.say(room, ada, "Never mind")
        people.ask(room, bob)
        people.ask(other, ada)
        assert (Message.objects.count(), Job.objects.count()) == (7, 3)

    @pytest.mark.parametrize("end", ["success", "failed", "canceled", "timed_out"])
    def test_asks_again_once_the_question_before_is_over(self, end: str) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada)
        claimed = farm.claim_one(worker := people.worker())
        match end:
            case "success":
                farm.succeed(worker, claimed, {"text": "So."})
            case "failed":
                farm.fail(worker, claimed, retryable=False)
            case "canceled":
                operations.cancel(room.pk, answer.pk, by=ada)
            case "timed_out":
                farm.time_out(claimed)
        people.ask(room, ada)
        assert Job.objects.count() == 2

    def test_waits_for_tokens_and_says_from_when_on(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        began = farm.now()
        ratelimits.limit("chat completion tokens", count=300_000)
        emptied = farm.now()
        answer = people.ask(room, ada)
        job = people.job_of(answer)
        assert job.limit_until is not None
        assert answer.starts_at == job.run_at
        assert job.run_at > job.created_at
        # A large request has its place: what is asked later, and smaller, starts after it.
        later = people.ask(room, bob, "?")
        assert people.job_of(later).run_at > job.run_at
        operations.cancel(room.pk, answer.pk, by=ada)
        operations.cancel(room.pk, later.pk, by=bob)
        before = farm.now()
        value = ratelimits.get_value("chat completion tokens").value
        least, most = (
            (until - since).total_seconds() * 5000 for since, until in ((emptied, before), (began, farm.now()))
        )
        assert least - 1000 < value < most + 1000  # what came in meanwhile, and all that was given back

    def test_is_refused_when_answers_are_booked_out(self) -> None:
        room, [ada] = people.group("ada")
        ratelimits.limit("chat completion tokens", count=3_300_000, reserve=True)
        with pytest.raises(RateLimited) as refusal:
            people.ask(room, ada)
        assert refusal.value.name == "chat completion tokens"
        assert Message.objects.count() == 0


class TestCancel:
    def test_says_what_it_came_to_and_is_for_who_asked(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        answer = people.ask(room, ada)
        with pytest.raises(NotYours):
            operations.cancel(room.pk, answer.pk, by=bob)
        assert operations.cancel(room.pk, answer.pk, by=ada).verdict is CancelVerdict.BEFORE_START
        assert people.stands(answer) == ("canceled", "")
        assert operations.cancel(room.pk, answer.pk, by=ada).verdict is CancelVerdict.TOO_LATE

    def test_refuses_the_result_that_comes_after_it(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        claimed = farm.claim_one(worker)
        assert operations.cancel(room.pk, answer.pk, by=ada).verdict is CancelVerdict.WHILE_RUNNING
        farm.succeed(worker, claimed, {"text": "Too late"})
        assert people.stands(answer) == ("canceled", "")

    def test_finds_nothing_elsewhere(self) -> None:
        room, [ada] = people.group("ada")
        other, _ = people.group(name="others")
        ada.groups.add(other)
        answer = people.ask(room, ada)
        question = answer.message.question
        assert question is not None
        for group_id, message_id in [(other.pk, answer.pk), (room.pk, question.pk), (room.pk, 10**12)]:
            with pytest.raises(NoSuchMessage):
                operations.cancel(group_id, message_id, by=ada)


class TestAskAgain:
    @pytest.mark.parametrize("end", ["failed", "canceled", "timed_out"])
    def test_gives_the_answer_to_a_new_job(self, end: str) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        claimed = farm.claim_one(worker)
        match end:
            case "failed":
                farm.fail(worker, claimed, "no memory", retryable=False)
            case "canceled":
                operations.cancel(room.pk, answer.pk, by=ada)
            case "timed_out":
                farm.time_out(claimed)
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        again = people.job_of(answer)
        assert (again.retry_of_id, again.limit_count) == (claimed.id, answer.tokens)
        answer.refresh_from_db()
        assert (answer.state, answer.attempt, answer.error, answer.worker_name) == ("waiting", 0, "", "")
        farm.succeed(worker, farm.claim_one(worker), {"text": "At last."})
        assert people.stands(answer) == ("finished", "At last.")

    def test_is_for_who_asked_and_for_what_is_over_without_an_answer(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        answer, worker = people.ask(room, ada), people.worker()
        with pytest.raises(NothingToAskAgain):
            operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        farm.succeed(worker, farm.claim_one(worker), {"text": "So."})
        with pytest.raises(NotYours):
            operations.ask_again(room.pk, answer.pk, by=bob, key="k")
        assert Job.objects.count() == 1

    def test_of_an_answer_with_a_text_adds_another_one_and_keeps_the_first(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        farm.succeed(worker, farm.claim_one(worker), {"text": "So."})
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        assert people.log(room) == [("user", "Why is the sky blue?"), ("assistant", "So."), ("assistant", "")]
        another = farm.claim_one(worker)
        assert [each["content"] for each in another.payload["messages"]] == ["Why is the sky blue?"]
        farm.succeed(worker, another, {"text": "Or so."})
        assert [text for _, text in people.log(room)[1:]] == ["So.", "Or so."]
        assert people.stands(answer) == ("finished", "So.")

    def test_of_an_answer_is_for_the_newest_one_alone(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        farm.succeed(worker, farm.claim_one(worker), {"text": "So."})
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        with pytest.raises(Unanswered):
            operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        farm.succeed(worker, farm.claim_one(worker), {"text": "Or so."})
        left = ratelimits.get_value("chat/send", key="k").value
        with pytest.raises(NothingToAskAgain):
            operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        assert ratelimits.get_value("chat/send", key="k").value == pytest.approx(left, abs=0.5)
        assert (Job.objects.count(), Message.objects.count()) == (2, 3)

    def test_of_a_stopped_answer_keeps_what_was_written(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        claimed = farm.claim_one(worker)
        write(worker, claimed, "Half of ", "it.")
        operations.cancel(room.pk, answer.pk, by=ada)
        assert people.stands(answer) == ("canceled", "Half of it.")
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        farm.succeed(worker, farm.claim_one(worker), {"text": "All of it."})
        assert [text for _, text in people.log(room)[1:]] == ["Half of it.", "All of it."]

    def test_from_the_page_of_a_stopped_job_begins_with_an_empty_text(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        write(worker, farm.claim_one(worker), "Half of it.")
        operations.cancel(room.pk, answer.pk, by=ada)
        jobs.retry(people.job_of(answer).pk, by=ada)
        assert people.stands(answer) == ("waiting", "")

    def test_waits_for_its_turn_behind_another_question_of_theirs(self) -> None:
        room, [ada] = people.group("ada")
        first = people.ask(room, ada)
        operations.cancel(room.pk, first.pk, by=ada)
        people.ask(room, ada)
        with pytest.raises(Unanswered):
            operations.ask_again(room.pk, first.pk, by=ada, key="k")
        assert people.stands(first) == ("canceled", "")
        assert Job.objects.count() == 2

    def test_is_limited_like_a_message(self) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada)
        operations.cancel(room.pk, answer.pk, by=ada)
        ratelimits.limit("chat/send", key="k", count=3)
        with pytest.raises(RateLimited):
            operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        assert Job.objects.count() == 1

    def test_finds_a_job_that_was_tried_again_from_its_own_page(self) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada)
        operations.cancel(room.pk, answer.pk, by=ada)
        again = jobs.retry(people.job_of(answer).pk, by=ada)
        assert (people.job_of(answer).pk, people.stands(answer)) == (again.pk, ("waiting", ""))

    def test_is_too_late_for_a_job_that_was_forgotten(self) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada)
        operations.cancel(room.pk, answer.pk, by=ada)
        Job.objects.filter(pk=people.job_of(answer).pk).delete()
        with pytest.raises(TooOld):
            operations.ask_again(room.pk, answer.pk, by=ada, key="k")


class TestRemove:
    def test_takes_a_question_back_with_its_answer_and_cancels_the_job(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        people.say(room, bob, "Hello")
        answer = people.ask(room, ada)
        job = people.job_of(answer)
        question = answer.message.question
        assert question is not None
        with pytest.raises(NotYours):
            operations.remove(room.pk, question.pk, by=bob)
        operations.remove(room.pk, question.pk, by=ada)
        assert people.log(room) == [("user", "Hello")]
        assert farm.status(job) == "canceled"
        assert Answer.objects.count() == 0

    def test_takes_an_answer_back_and_leaves_the_question(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        farm.succeed(worker, farm.claim_one(worker), {"text": "So."})
        operations.remove(room.pk, answer.pk, by=ada)
        assert people.log(room) == [("user", "Why is the sky blue?")]

    def test_is_all_or_nothing(self) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada)
        with farm.rolled_back(), transaction.atomic():
            operations.remove(room.pk, answer.pk, by=ada)
        assert people.stands(answer) == ("waiting", "")
        assert farm.status(people.job_of(answer)) == "pending"
