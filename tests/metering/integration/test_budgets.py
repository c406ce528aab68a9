"""Budgets on the way of jobs: reserved at the submit, settled at the end, however that is."""

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts import operations as accounts
from jobs import operations
from jobs.errors import NotUnique, WaitsForBudget
from jobs.models import Job
from jobs.queries import reads
from metering import operations as metering
from metering.errors import BadBudget, BudgetExhausted, ExceedsBudget
from metering.models import Budget, Day, Reading, Reservation, Settlement, Window
from metering.queries import MOST_UNFOLDED
from postgres import clock
from tests import farm
from tests.metering import budgets
from tests.metering.budgets import answer, call, numbers

pytestmark = pytest.mark.django_db(transaction=True)


class TestTokens:
    def test_are_reserved_at_the_submit_and_what_is_not_used_is_given_back(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        assert numbers(budget) == (0, 100)
        farm.succeed(gpu, farm.claim_one(gpu), answer(12, 5))
        assert numbers(budget) == (17, 0)

    def test_count_beyond_what_was_expected(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        farm.succeed(gpu, farm.claim_one(gpu), answer(800, 700))
        assert numbers(budget) == (1500, 0)
        with pytest.raises(BudgetExhausted):
            call(ada)

    def test_of_a_kind_that_reports_none_are_not_bounded(self, ada: User, work_kind: None) -> None:
        budgets.budget("tokens", 0, person=ada)
        [job] = farm.submit(1, owner=ada)
        assert not job.is_metered

    def test_are_counted_once_for_each_attempt_that_hands_in_a_result(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        job = call(ada)
        farm.fail(gpu, farm.claim_one(gpu))
        assert numbers(budget) == (0, 100)
        farm.make_due(job)
        claimed = farm.claim_one(gpu)
        farm.succeed(gpu, claimed, answer(12, 5))
        farm.succeed(gpu, claimed, answer(12, 5))  # its answer was lost
        assert numbers(budget) == (17, 0)
        assert [*Reading.objects.order_by("fence").values_list("fence", "model", "tokens_out")] == [
            (1, "tiny", 0),
            (2, "tiny", 5),
        ]


class TestMoney:
    def test_is_reserved_and_settled_by_the_prices_of_the_model(self, ada: User) -> None:
        budgets.price(into=2, out=10)  # a million tokens
        budget, gpu = budgets.budget("money", 1, person=ada), budgets.worker()
        call(ada)
        assert numbers(budget)[1] == pytest.approx((10 * 2 + 90 * 10) / 1e6)
        farm.succeed(gpu, farm.claim_one(gpu), answer(100, 50))
        used, reserved = numbers(budget)
        assert used == pytest.approx((100 * 2 + 50 * 10) / 1e6)
        assert reserved == 0

    def test_is_not_bounded_for_a_model_without_a_price(self, ada: User) -> None:
        budget = budgets.budget("money", 0, person=ada)
        call(ada)
        assert numbers(budget) == (0, 0)


class TestSeconds:
    def test_are_those_of_all_attempts_also_of_the_lost(self, ada: User, work_kind: None) -> None:
        budget, gpu = budgets.budget("seconds", 1000, person=ada), budgets.worker()
        [job] = farm.submit(1, owner=ada)
        claimed = farm.claim_one(gpu)
        farm.alter(job, claimed_at=clock.now() - timedelta(seconds=30))
        farm.lose(claimed)
        farm.make_due(job)
        claimed = farm.claim_one(gpu)
        farm.alter(job, claimed_at=clock.now() - timedelta(seconds=10))
        farm.succeed(gpu, claimed)
        used, reserved = numbers(budget)
        assert 40 <= used < 100  # and what the test itself took
        assert reserved == 0

    def test_are_expected_to_be_a_minute_until_the_kind_has_run(self, ada: User, work_kind: None) -> None:
        budget = budgets.budget("seconds", 1000, person=ada)
        farm.submit(1, owner=ada)
        farm.submit(1, owner=ada, timeout_s=7)
        assert numbers(budget) == (0, 67)

    def test_are_expected_to_be_the_mean_of_the_kinds_runs(self, ada: User, work_kind: None) -> None:
        gpu = budgets.worker()
        farm.submit(2, owner=ada)
        for seconds in (5, 15):
            claimed = farm.claim_one(gpu)
            farm.alter(claimed, claimed_at=clock.now() - timedelta(seconds=seconds))
            farm.succeed(gpu, claimed)
        farm.until(lambda: metering.roll_up() and Day.objects.get().attempts == 2, what="the count of both")
        budget = budgets.budget("seconds", 1000, person=ada)
        farm.submit(1, owner=ada)
        assert 9 <= numbers(budget)[1] <= 11


class TestWhoseBudget:
    def test_of_a_group_bounds_its_jobs_and_no_others(self, ada: User) -> None:
        team = Group.objects.create(name="team")
        ada.groups.add(team)
        budget = budgets.budget("tokens", 150, group=team)
        call(ada, group=team)
        call(ada)
        assert numbers(budget) == (0, 100)
        with pytest.raises(BudgetExhausted):
            call(ada, group=team)

    def test_of_a_person_takes_of_a_bulk_what_is_theirs(self, ada: User) -> None:
        eve = farm.user("eve")
        taken = [budgets.budget("seconds", 1000, person=person) for person in (ada, eve)]
        farm.kind()
        operations.submit_many([farm.new_job(owner=person) for person in (ada, ada, eve)])
        assert [numbers(each) for each in taken] == [(0, 120), (0, 60)]

    def test_of_a_token_bounds_what_comes_with_it(self, ada: User) -> None:
        token, _ = accounts.create_token(ada, name="one", scopes=["submit"])
        budgets.budget("tokens", 150, token=token)
        call(ada, token_id=token.pk)
        with pytest.raises(BudgetExhausted) as refused:
            call(ada, token_id=token.pk)
        assert "the API token one" in refused.value.message.replace("The", "the", 1)
        call(ada)

    def test_all_of_them_must_have_room_and_one_without_takes_of_none(self, ada: User) -> None:
        token, _ = accounts.create_token(ada, name="one", scopes=["submit"])
        of_person = budgets.budget("tokens", 1000, person=ada)
        of_token = budgets.budget("tokens", 150, token=token)
        call(ada, token_id=token.pk)
        with pytest.raises(BudgetExhausted):
            call(ada, token_id=token.pk)
        assert (numbers(of_person), numbers(of_token)) == ((0, 100), (0, 100))

    def test_a_job_tried_again_counts_for_its_token(self, ada: User) -> None:
        token, _ = accounts.create_token(ada, name="one", scopes=["submit"])
        budgets.budget("tokens", 150, token=token)
        job = call(ada, token_id=token.pk)
        operations.cancel(job.pk, by=ada)
        again = operations.retry(job.pk, by=ada)
        assert again.token_id == token.pk
        operations.cancel(again.pk, by=ada)

    def test_there_is_one_for_each_subject_unit_and_period(self, ada: User) -> None:
        budgets.budget("tokens", 10, person=ada)
        budgets.budget("tokens", 10, person=ada, period="month")
        with pytest.raises(BadBudget, match="already"):
            budgets.budget("tokens", 20, person=ada)

    def test_of_nobody_or_less_than_nothing_is_refused(self, ada: User) -> None:
        with pytest.raises(BadBudget):
            budgets.budget("tokens", 10)
        with pytest.raises(BadBudget):
            budgets.budget("tokens", -1, person=ada)
        assert not Budget.objects.exists()


class TestAFullBudget:
    def test_refuses_and_says_when_there_is_room(self, ada: User) -> None:
        budgets.budget("tokens", 150, person=ada)
        call(ada)
        with pytest.raises(BudgetExhausted) as refused:
            call(ada)
        wait_s = (budgets.tomorrow() - clock.now()).total_seconds()
        assert refused.value.retry_after_s == pytest.approx(wait_s, abs=5)
        assert f"from {budgets.tomorrow():%Y-%m-%d} 00:00 UTC on" in refused.value.message
        assert Job.objects.count() == 1
        assert budgets.is_balanced()

    def test_refuses_for_good_what_no_window_has_room_for(self, ada: User) -> None:
        budgets.budget("tokens", 99, person=ada)
        with pytest.raises(ExceedsBudget):
            call(ada, may_wait=True)

    def test_lets_a_job_wait_for_the_next_window_that_has_room(self, ada: User) -> None:
        budget = budgets.budget("tokens", 150, person=ada)
        call(ada)
        first, second = call(ada, may_wait=True), call(ada, may_wait=True)
        assert first.run_at == budgets.tomorrow()
        assert second.run_at == budgets.tomorrow() + timedelta(days=1)
        assert numbers(budget) == (0, 100)
        assert Window.objects.count() == 3

    def test_says_so_where_a_waiting_job_is_asked_why(self, ada: User) -> None:
        budgets.budget("tokens", 150, person=ada)
        call(ada)
        job = call(ada, may_wait=True)
        [reason, *_] = reads.why_not_running(job.pk)
        assert reason.code == "waiting_for_budget"
        until = f"{budgets.tomorrow():%Y-%m-%d %H:%M:%S} UTC"
        assert reason.sentence.startswith(f"Waiting for the budget of 150 tokens per day of ada until {until}")

    def test_is_not_gone_round_by_running_the_job_now(self, ada: User) -> None:
        budgets.budget("tokens", 150, person=ada)
        call(ada)
        job = call(ada, may_wait=True)
        with pytest.raises(WaitsForBudget):
            operations.run_now(job.pk, by=ada)
        assert farm.stored(job).run_at == budgets.tomorrow()

    def test_counts_a_job_of_later_in_the_window_it_is_due_in(self, ada: User) -> None:
        budget = budgets.budget("tokens", 150, person=ada)
        call(ada)
        later = budgets.tomorrow() + timedelta(hours=3)
        assert call(ada, run_at=later).run_at == later
        assert numbers(budget) == (0, 100)

    def test_has_room_again_once_it_is_raised(self, ada: User, boss: User) -> None:
        budget = budgets.budget("tokens", 150, person=ada)
        call(ada)
        metering.change(budget.pk, amount=Decimal(200), by=boss)
        call(ada)
        assert numbers(budget) == (0, 200)

    def test_is_of_the_month_too(self, ada: User) -> None:
        budgets.budget("tokens", 150, person=ada, period="month")
        call(ada)
        job = call(ada, may_wait=True)
        assert job.run_at.day == 1
        assert job.run_at > clock.now()


class TestAnEnd:
    def test_before_the_start_gives_all_back(self, ada: User) -> None:
        budget = budgets.budget("tokens", 1000, person=ada)
        operations.cancel(call(ada).pk, by=ada)
        assert numbers(budget) == (0, 0)

    def test_by_expiry_gives_all_back(self, ada: User) -> None:
        budget = budgets.budget("tokens", 1000, person=ada)
        job = call(ada, expires_at=clock.now() + timedelta(hours=1))
        farm.alter(job, expires_at=clock.now())
        assert operations.sweep().expired == 1
        assert numbers(budget) == (0, 0)

    def test_by_loss_gives_tokens_back(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        farm.time_out(farm.claim_one(gpu))
        assert numbers(budget) == (0, 0)

    def test_by_cancel_of_a_running_job_gives_tokens_back(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        operations.cancel(farm.claim_one(gpu).id, by=ada)
        assert numbers(budget) == (0, 0)

    def test_in_a_batch_with_failures_settles_each_by_its_own(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada), call(ada)
        good, bad = operations.claim(gpu, limit=2)
        operations.finish(gpu, [
            operations.Finished(job_id=good.id, lease=good.lease, outcome="success", result=answer(1, 2)),
            operations.Finished(job_id=bad.id, lease=bad.lease, outcome="failed", error="no", retryable=False),
        ])  # fmt: skip
        assert numbers(budget) == (3, 0)

    def test_in_a_later_window_settles_in_the_one_it_was_reserved_in(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        job = call(ada)
        yesterday = budgets.tomorrow() - timedelta(days=2)
        Reservation.objects.filter(job_id=job.pk).update(starts_at=yesterday)
        Window.objects.update(starts_at=yesterday)
        call(ada)
        farm.succeed(gpu, farm.claim_one(gpu), answer(1, 2))
        metering.roll_up()
        assert numbers(budget) == (0, 100)
        window = Window.objects.get(starts_at=yesterday)
        assert (window.used, window.reserved) == (3, 0)

    def test_stands_where_metering_fails_and_is_settled_by_the_roll_up(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        claimed = farm.claim_one(gpu)
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE metering_settlement RENAME TO metering_gone")
            try:
                assert farm.succeed(gpu, claimed, answer(1, 2)) == "success"
            finally:
                cursor.execute("ALTER TABLE metering_gone RENAME TO metering_settlement")
        assert Reservation.objects.count() == 1
        metering.roll_up()
        assert not Reservation.objects.exists()
        assert numbers(budget)[1] == 0

    def test_of_a_job_whose_budget_was_deleted_leaves_nothing(self, ada: User, boss: User) -> None:
        budget, gpu = budgets.budget("tokens", 1000, person=ada), budgets.worker()
        call(ada)
        metering.remove(budget.pk, by=boss)
        farm.succeed(gpu, farm.claim_one(gpu), answer(1, 2))
        metering.roll_up()
        metering.forget()
        assert not any(table.objects.exists() for table in (Reservation, Settlement, Window))


class TestATwin:
    def test_of_a_job_that_a_newer_one_replaces_is_reserved_once_also_where_there_is_room_for_one(
        self, ada: User
    ) -> None:
        budget = budgets.budget("tokens", 150, person=ada)
        jobs = {call(ada, unique_key="once", on_conflict="replace").pk for _ in range(3)}
        assert (len(jobs), numbers(budget)) == (1, (0, 100))
        gpu = budgets.worker()
        claimed = farm.claim_one(gpu)
        with pytest.raises(BudgetExhausted):
            call(ada, unique_key="once", on_conflict="after")
        farm.succeed(gpu, claimed, answer(10, 20))
        assert numbers(budget) == (30, 0)

    def test_reserves_nothing(self, ada: User) -> None:
        budget = budgets.budget("tokens", 1000, person=ada)
        call(ada, unique_key="once")
        with pytest.raises(NotUnique):
            call(ada, unique_key="once")
        assert numbers(budget) == (0, 100)
        assert budgets.is_balanced()


class TestStatements:
    def test_of_a_submit_are_three_more(self, ada: User) -> None:
        budgets.budget("tokens", 1000, person=ada)
        call(ada)
        assert _of_metering(lambda: call(ada)) == ["SELECT", "metering.balances", "metering.reserve"]

    def test_of_an_end_are_one_beside_the_tokens(self, ada: User) -> None:
        budgets.budget("tokens", 1000, person=ada)
        gpu = budgets.worker()
        call(ada)
        claimed = farm.claim_one(gpu)
        made = _of_metering(lambda: farm.succeed(gpu, claimed, answer(1, 2)))
        assert made == ["metering.keep_readings", "metering.settle"]

    def test_of_a_submit_fold_many_settlements(self, ada: User) -> None:
        budget, gpu = budgets.budget("tokens", 100_000, person=ada), budgets.worker()
        for _ in range(MOST_UNFOLDED + 1):
            call(ada)
        ended = [
            operations.Finished(job_id=one.id, lease=one.lease, outcome="success", result=answer(1, 2))
            for _ in range(2)
            for one in operations.claim(gpu, limit=100)
        ]
        operations.finish(gpu, ended)
        assert Settlement.objects.count() == MOST_UNFOLDED + 1
        call(ada)
        assert not Settlement.objects.exists()
        assert numbers(budget) == (3 * (MOST_UNFOLDED + 1), 100)


def _of_metering(call: Callable[[], object]) -> list[str]:
    """The statements about budgets and tokens that a call makes, in order."""
    with CaptureQueriesContext(connection) as captured:
        call()
    ours = [query["sql"] for query in captured.captured_queries if "metering_" in query["sql"]]
    named = [re.search(r"/\* (\S+) \*/", sql) for sql in ours]
    return [match[1] if match else sql.split()[0] for match, sql in zip(named, ours, strict=True)]


class TestWithoutBudgets:
    def test_a_submit_and_an_end_make_no_statement_more(self, ada: User, work_kind: None) -> None:
        me = farm.worker()
        farm.submit(1, owner=ada)
        with CaptureQueriesContext(connection) as captured:
            farm.submit(1, owner=ada)
            farm.succeed(me, farm.claim_one(me))
        assert not [query["sql"] for query in captured.captured_queries if "metering" in query["sql"]]

    def test_an_end_of_a_kind_with_tokens_makes_one_insert(self, ada: User) -> None:
        gpu = budgets.worker()
        call(ada)
        claimed = farm.claim_one(gpu)
        with CaptureQueriesContext(connection) as captured:
            farm.succeed(gpu, claimed, answer(1, 2))
        named = [query["sql"] for query in captured.captured_queries if "metering" in query["sql"]]
        assert len(named) == 1
        assert "metering.keep_readings" in named[0]
