"""The other rules: moves, retries, moments, arguments, and when a cluster is frozen."""

import random
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.db import connections
from hypothesis import given, strategies as st

from core.backoff import Backoff
from core.refusal import CancelVerdict
from scheduling.cluster import process_group
from scheduling.cluster.process_group import (
    OVERDUE_S,
    SILENT_S,
    STARTING_S,
    Pulse,
    Vitals,
    keep_connections,
    plan_by_index,
    why_frozen,
)
from scheduling.domain import calls
from scheduling.domain.calls import ENDED, Kind, Retry, Status
from scheduling.errors import NotAFunction, NotJson
from tests.looped import looped
from tests.scheduling.moves import moves


class TestTheMoves:
    def test_lead_out_of_no_end_and_to_each(self) -> None:
        all_moves = moves(Kind.ACTION) | moves(Kind.MUTATION)
        assert {source for source, _ in all_moves} == {"-", *(set(Status) - ENDED)}
        assert {target for _, target in all_moves} == set(Status)

    def test_never_start_a_mutation_visibly(self) -> None:
        assert (Status.PENDING, Status.IN_PROGRESS) not in moves(Kind.MUTATION)
        assert (Status.PENDING, Status.SUCCESS) in moves(Kind.MUTATION)

    def test_never_end_an_action_that_did_not_start_with_success(self) -> None:
        assert (Status.PENDING, Status.SUCCESS) not in moves(Kind.ACTION)

    @looped(
        ("status", "attempt", "verdict"),
        [
            (Status.PENDING, 1, CancelVerdict.BEFORE_START),
            (Status.PENDING, 2, CancelVerdict.BEFORE_RETRY),
            (Status.IN_PROGRESS, 1, CancelVerdict.WHILE_RUNNING),
            *((status, 1, CancelVerdict.TOO_LATE) for status in sorted(ENDED)),
        ],
    )
    def test_give_a_cancel_its_verdict(self, status: Status, attempt: int, verdict: CancelVerdict) -> None:
        assert calls.cancel_verdict(status, attempt=attempt) is verdict


class TestARetry:
    def test_doubles_up_to_the_cap(self) -> None:
        plain = Backoff(first_s=1, base=2, cap_s=20, jitter=0)
        assert [plain.delay_s(n, rng=random.Random(1)) for n in range(1, 8)] == [1, 2, 4, 8, 16, 20, 20]

    @pytest.mark.parametrize(
        ("retry", "plain"),
        [(Retry(), [2, 4, 8, 16]), (Retry(first=1), [1, 2, 4, 8]), (Retry(base=60, cap=100), [60, 100, 100, 100])],
    )
    def test_of_an_action_waits_base_to_the_power_of_its_failures_and_up_to_half_of_that_longer(
        self, retry: Retry, plain: list[float]
    ) -> None:
        for n, least in enumerate(plain, start=1):
            waits = [retry.delay_s(n, rng=random.Random(seed)) for seed in range(50)]
            assert least <= min(waits) <= max(waits) <= min(1.5 * least, retry.cap)
            assert len(set(waits)) > 1 or least == retry.cap

    @given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1), seed=st.integers())
    def test_never_waits_longer_than_the_cap(self, failures: int, jitter: float, seed: int) -> None:
        assert 0 <= Backoff(jitter=jitter).delay_s(failures, rng=random.Random(seed)) <= 3600

    @looped(
        ("attempt", "known", "idempotent", "tried"),
        [
            (1, True, False, True),
            (4, True, False, True),
            (5, True, False, False),
            (1, False, False, False),
            (1, False, True, True),
        ],
    )
    def test_follows_a_known_failure_or_an_idempotent_action(
        self, attempt: int, known: bool, idempotent: bool, tried: bool
    ) -> None:
        delay = calls.delay_before_next_s(
            Retry(), attempt=attempt, known=known, idempotent=idempotent, rng=random.Random(1)
        )
        assert (delay is not None) == tried

    def test_is_opt_in(self) -> None:
        assert calls.delay_before_next_s(None, attempt=1, known=True, idempotent=True, rng=random.Random(1)) is None

    @looped(
        "wrong",
        [{"max_attempts": 0}, {"base": 0.5}, {"first": -1}, {"cap": -1}, {"jitter": 2}, {"first": float("nan")}],
    )
    def test_refuses_numbers_without_sense(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValueError, match=r"must|needs"):
            Retry(**wrong)  # type: ignore[arg-type]


class TestAMoment:
    NOW = datetime(2024, 3, 10, 1, 59, tzinfo=UTC)

    @pytest.mark.parametrize("days", [-1, 0, 1])
    def test_is_kept_also_when_it_has_passed(self, days: int) -> None:
        given = self.NOW + timedelta(days=days)
        assert calls.moment(given, now=self.NOW) == given

    def test_may_be_five_years_away(self) -> None:
        assert calls.delay(5 * 365 * 86400) == timedelta(days=5 * 365)


def _takes_positions(word: str) -> str:
    return word


async def _is_async(*, word: str) -> str:
    return word


class TestAFunction:
    @looped("function", [_takes_positions, _is_async, lambda *, word: word, len, Backoff])
    def test_is_refused_unless_it_is_plain_and_takes_names(self, function: object) -> None:
        with pytest.raises(NotAFunction):
            calls.signature(function, name="it")  # type: ignore[arg-type]

    @given(
        value=st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**53), 2**53)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
            max_leaves=10,
        )
    )
    def test_gets_json_back_as_it_was(self, value: object) -> None:
        assert calls.json_value(value, name="f", part="x") == value

    def test_is_refused_json_that_is_too_deep(self) -> None:
        value: object = 0
        for _ in range(5000):
            value = [value]
        with pytest.raises(NotJson):
            calls.json_value(value, name="f", part="x")


class TestAFrozenCluster:
    def test_is_one_that_dispatches_nothing_while_a_worker_is_free(self) -> None:
        overdue = Vitals(silent_s=0.5, overdue_s=OVERDUE_S + 0.1)
        assert why_frozen(overdue, age_s=100) == "a dispatch is overdue while a worker is free"

    def test_is_not_one_that_was_only_slow_for_a_moment(self) -> None:
        assert why_frozen(Vitals(silent_s=SILENT_S - 1, overdue_s=OVERDUE_S - 1), age_s=100) is None

    def test_is_one_that_has_fallen_silent(self) -> None:
        silent = why_frozen(Vitals(silent_s=SILENT_S + 1), age_s=100)
        assert silent == f"it has shown no sign of life for {SILENT_S + 1:.0f} s"

    def test_is_not_one_that_finds_a_backlog_of_hours_and_works_it_off(self) -> None:
        """From when it was found, and not from when it was due; and anew with each dispatch."""
        pulse, found = Pulse(), []
        pulse.beat()
        for is_overdue in (True, True, False):
            pulse.note_overdue(is_overdue=is_overdue)
            found.append(
                (pulse.is_overdue, pulse.vitals().overdue_s < OVERDUE_S, why_frozen(pulse.vitals(), age_s=100))
            )
        assert found == [(True, True, None), (True, True, None), (False, True, None)]

    def test_is_not_one_that_waited_for_a_database_that_is_back_just_now(self) -> None:
        assert why_frozen(Vitals(silent_s=100, overdue_s=100), age_s=1) is None

    def test_keeps_no_lock_and_waits_for_none_so_long_that_it_is_called_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What becomes of one that is stopped, or meets a locked table, is tried in concurrency/test_clusters.py."""
        begins_with, wrapper = {}, connections["default"]
        monkeypatch.setattr(process_group, "_own_options", {})
        for prepare in (plan_by_index, partial(keep_connections, Kind.MUTATION)):
            with monkeypatch.context() as patch:
                patch.setattr(wrapper, "settings_dict", deepcopy(wrapper.settings_dict))
                prepare()
                begins_with[prepare] = {*wrapper.settings_dict["OPTIONS"]["options"].split()}
        dispatcher, worker = begins_with.values()
        assert {"lock_timeout=2000", "idle_in_transaction_session_timeout=8000"} <= dispatcher
        assert "idle_in_transaction_session_timeout=600000" in worker

    def test_is_one_that_never_began_to_work(self) -> None:
        assert why_frozen(Vitals(silent_s=None), age_s=STARTING_S) is None
        assert why_frozen(Vitals(silent_s=None), age_s=STARTING_S + 1) == "it never began to work"
