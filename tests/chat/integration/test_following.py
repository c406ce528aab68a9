"""Answers follow their jobs, and workers are told what the room says when they take one."""

from typing import Any

import pytest
from django.contrib.auth.models import Group

from examples.chat import operations
from examples.chat.models import Answer
from jobs import kinds, operations as jobs
from jobs.domain.hooks import Hooks
from jobs.models import Attempt, Job
from scheduling import operations as scheduling
from tests import farm
from tests.browser.farmhands import write
from tests.chat.integration import people

pytestmark = pytest.mark.django_db


def _state(answer: Answer) -> dict[str, Any]:
    answer.refresh_from_db()
    names = ("state", "attempt", "worker_name", "error")
    return {name: getattr(answer, name) for name in names}


def _messages(claimed: jobs.ClaimedJob) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in claimed.payload["messages"]]


class TestAnAnswer:
    def test_is_written_by_a_worker_and_finished_with_its_text(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker("mo")
        claimed = farm.claim_one(worker)
        assert _state(answer) == {"state": "writing", "attempt": 1, "worker_name": "mo", "error": ""}
        farm.succeed(worker, claimed, {"text": " Because. ", "model": "m", "finish_reason": "stop"})
        assert _state(answer) == {"state": "finished", "attempt": 1, "worker_name": "mo", "error": ""}
        assert people.stands(answer) == ("finished", "Because.")

    def test_leaves_no_half_text_behind_when_an_attempt_fails(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker("mo")
        claimed = farm.claim_one(worker)
        write(worker, claimed, "Half of ")
        farm.fail(worker, claimed, "Traceback\n  File x\nMemoryError: no room\n")
        assert people.stands(answer) == ("retrying", "")
        assert _state(answer)["error"] == "MemoryError: no room"
        assert answer.starts_at == people.job_of(answer).run_at
        farm.pass_time(people.job_of(answer), 60)
        second = farm.claim_one(worker)
        assert _state(answer) == {"state": "writing", "attempt": 2, "worker_name": "mo", "error": ""}
        farm.succeed(worker, second, {"text": "Whole."})
        assert people.stands(answer) == ("finished", "Whole.")

    def test_fails_for_good_times_out_and_is_given_back_as_its_job(self) -> None:
        room, [ada, bob, cem] = people.group("ada", "bob", "cem")
        answers, worker = [people.ask(room, by) for by in (ada, bob, cem)], people.worker()
        failing, silent, released = jobs.claim(worker, limit=3)
        farm.fail(worker, failing, "no", retryable=False)
        farm.time_out(silent)
        jobs.release(worker, released.id, released.lease)
        assert [people.stands(answer) for answer in answers] == [("failed", ""), ("timed_out", ""), ("waiting", "")]

    @pytest.mark.parametrize(
        ("result", "kept"),
        [
            ("plain", "plain"), ({"text": 7}, "Streamed."), (None, "Streamed."), ({"text": " "}, "Streamed."),
            ({"text": "x" * 100_001}, "x" * 100_000),
        ],
        ids=["plain", "number", "nothing", "blank", "long"],
    )  # fmt: skip
    def test_takes_what_a_handler_of_ones_own_hands_in(self, result: Any, kept: str) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        claimed = farm.claim_one(worker)
        write(worker, claimed, "Stream", "ed.\n")
        farm.succeed(worker, claimed, result)
        assert people.stands(answer) == ("finished", kept)

    def test_says_so_when_a_worker_answers_with_nothing(self) -> None:
        room, [ada] = people.group("ada")
        answer, worker = people.ask(room, ada), people.worker()
        farm.succeed(worker, farm.claim_one(worker))
        assert people.stands(answer) == ("finished", "(The worker answered with nothing.)")

    def test_of_a_batch_are_written_each_with_its_own_text(self) -> None:
        room, members = people.group(*(f"p{n}" for n in range(8)))
        answers, worker = [people.ask(room, member) for member in members], people.worker()
        claimed = jobs.claim(worker, limit=8)
        jobs.finish(
            worker,
            [
                jobs.Finished(job_id=job.id, lease=job.lease, outcome="success", result={"text": f"to {job.id}"})
                for job in claimed
            ],
        )
        assert [people.stands(answer)[1] for answer in answers] == [f"to {job.id}" for job in claimed]


class TestThePrompt:
    def test_holds_the_newest_instructions_and_the_last_five_finished_messages(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        operations.instruct(room.pk, "Be long.", by=ada)
        operations.instruct(room.pk, "Be brief.", by=ada)
        for number in range(4):
            people.say(room, bob, f"line {number}")
        finished, worker = people.ask(room, bob, "First?"), people.worker()
        farm.succeed(worker, farm.claim_one(worker), {"text": "First."})
        canceled = people.ask(room, bob, "Second?")
        operations.cancel(room.pk, canceled.pk, by=bob)
        people.ask(room, ada, "Third?")
        assert _messages(farm.claim_one(worker)) == [
            ("system", "Be brief."), ("user", "line 3"), ("user", "First?"), ("assistant", "First."),
            ("user", "Second?"), ("user", "Third?"),
        ]  # fmt: skip
        assert finished.state == "waiting"

    def test_is_read_when_a_worker_takes_it(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        message = people.say(room, bob, "a secret")
        people.ask(room, ada, "Why?")
        people.say(room, bob, "later")
        operations.remove(room.pk, message.pk, by=bob)
        operations.instruct(room.pk, "Speak French.", by=ada)
        assert _messages(farm.claim_one(people.worker())) == [("system", "Speak French."), ("user", "Why?")]

    def test_has_no_instructions_once_they_are_taken_back(self) -> None:
        room, [ada] = people.group("ada")
        operations.instruct(room.pk, "Be brief.", by=ada)
        operations.instruct(room.pk, "  ", by=ada)
        people.ask(room, ada, "Why?")
        assert _messages(farm.claim_one(people.worker())) == [("user", "Why?")]

    def test_knows_nothing_of_other_rooms(self) -> None:
        room, [ada] = people.group("ada")
        other, [eve] = people.group("eve", name="others")
        operations.instruct(other.pk, "Be evil.", by=eve)
        people.say(other, eve, "a secret")
        people.ask(room, ada, "Why?")
        assert _messages(farm.claim_one(people.worker())) == [("user", "Why?")]

    def test_of_a_job_from_the_api_stays_what_it_was(self) -> None:
        job = jobs.submit("chat", {"prompt": "Plain"})
        claimed = farm.claim_one(people.worker())
        assert (claimed.id, claimed.payload) == (job.pk, {"prompt": "Plain"})
        assert job.limit_count == 1000

    def test_of_an_answer_that_nobody_waits_for_any_more_is_not_asked_and_blocks_nobody(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        gone = people.ask(room, ada)
        stolen = people.job_of(gone)
        question = gone.message.question
        assert question is not None
        question.delete()  # behind the chat's back
        forged = jobs.submit("chat", {"answer": people.ask(room, bob).pk}, owner=bob)
        worker = people.worker()
        claimed = farm.claim_one(worker)
        assert claimed.payload["messages"] == [{"role": "user", "content": "Why is the sky blue?"}]
        farm.succeed(worker, claimed, {"text": "So."})
        assert jobs.claim(worker) == []
        assert [farm.status(job) for job in (stolen, forged)] == ["canceled", "canceled"]
        errors = set(Attempt.objects.values_list("error", flat=True))
        assert errors == {"No message waits for this answer any more."}

    def test_of_a_group_that_was_dissolved_is_not_asked(self) -> None:
        room, [ada] = people.group("ada")
        job = people.job_of(people.ask(room, ada))
        Group.objects.filter(pk=room.pk).delete()
        assert jobs.claim(people.worker()) == []
        assert farm.status(job) == "canceled"


class TestAWorkerOfAMember:
    def test_answers_in_the_groups_of_its_owner_and_nowhere_else(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        other, [eve] = people.group("eve", name="others")
        elsewhere, here = people.ask(other, eve), people.ask(room, bob)
        mine = people.worker("laptop", owner=ada)
        claimed = jobs.claim(mine, limit=5)
        assert [job.id for job in claimed] == [people.job_of(here).pk]
        assert people.stands(elsewhere) == ("waiting", "")
        served = [(w.name, w.owner, w.is_busy) for w in jobs.workers_for("chat", group_id=room.pk)]
        assert served == [("laptop", "ada", True)]
        assert jobs.workers_for("chat", group_id=other.pk) == []


class TestReconcile:
    def test_finds_nothing_to_mend_in_a_sound_farm(self) -> None:
        room, [ada, bob, cem] = people.group("ada", "bob", "cem")
        for by in (ada, bob, cem):
            people.ask(room, by)
        worker = people.worker()
        first, _ = jobs.claim(worker, limit=2)
        farm.fail(worker, first)
        assert operations.reconcile() == 0

    def test_mends_what_a_hook_missed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        room, people_in = people.group("ada", "bob", "cem", "dee", "eli")
        answers, worker = [people.ask(room, by) for by in people_in], people.worker()
        done, failed, running, canceled = jobs.claim(worker, limit=4)
        with monkeypatch.context() as patch:
            patch.setitem(kinds.HOOKS, "chat", Hooks(on_transition=_fails))
            farm.succeed(worker, done, {"text": "Done."})
            farm.fail(worker, failed, "no", retryable=False)
            jobs.release(worker, running.id, running.lease)
            jobs.cancel(canceled.id, by=None)
        assert {people.stands(answer)[0] for answer in answers[:4]} == {"writing"}
        assert operations.reconcile() == 4
        assert [people.stands(answer) for answer in answers] == [
            ("finished", "Done."), ("failed", ""), ("waiting", ""), ("canceled", ""), ("waiting", ""),
        ]  # fmt: skip
        assert _state(answers[1])["error"] == "no"
        assert operations.reconcile() == 0

    def test_ends_what_the_farm_has_forgotten(self) -> None:
        room, [ada] = people.group("ada")
        answer = people.ask(room, ada)
        Answer.objects.filter(pk=answer.pk).update(job_id=10**12)
        assert operations.reconcile() == 1
        assert people.stands(answer) == ("failed", "")
        assert Job.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_farm_reconciles_by_itself() -> None:
    room, [ada] = people.group("ada")
    answer = people.ask(room, ada)
    Answer.objects.filter(pk=answer.pk).update(state="writing")
    row = scheduling.run_after(0, operations.reconcile)  # as the cron does
    scheduling.run_due()
    row.refresh_from_db()
    assert (row.status, row.result) == ("success", 1)
    assert people.stands(answer) == ("waiting", "")


def _fails(_moves: Any) -> None:
    raise RuntimeError("a hook with a fault")
