"""Handlers at the same moment, each in the serializable transaction that processes a delivery."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from postgres import transactions
from tests.farm import at_once
from tests.webhook_samples import changed, handle, sample, stored
from webhooks.handlers.registry import Event
from webhooks.models import Activity, SandboxSession
from webhooks.models.resources import GithubIssue, GithubRepository, SandboxToolUse

pytestmark = pytest.mark.django_db(transaction=True)

ISSUE = "github/issues.opened.1.json"
HOOK = "sandbox-hook-events/PreToolUse.3.json"
OPENED = datetime(2019, 5, 15, 15, 20, 18, tzinfo=UTC)
THREADS = 8
EACH = 25


def issue(n: int, *, repository: int = 186853002, minutes: int = 0) -> Event:
    """An issue of its own in a repository, as of some minutes after it was opened."""
    at = (OPENED + timedelta(minutes=minutes)).isoformat()
    numbers: dict[str, Any] = {"issue__id": n, "issue__number": n, "repository__id": repository}
    body = changed(ISSUE, issue__updated_at=at, issue__title=f"after {minutes}", **numbers)
    return sample(ISSUE).event(body=body, pk=n * 10_000 + minutes, delivery_id=f"{n}.{minutes}")


def processed(events: list[Event], *, attempts: int) -> int:
    """Handle each in a transaction of its own, tried so often; how many."""
    for event in events:
        transactions.serializable(partial(handle, event), attempts=attempts)
    return len(events)


def at_the_same_time(piles: list[list[Event]], *, attempts: int) -> int:
    """Each pile in a thread of its own; how many events were handled."""
    work: list[Callable[[], int]] = [partial(processed, pile, attempts=attempts) for pile in piles]
    return sum(at_once(*work))


class TestStrangers:
    """One attempt each: a single collision fails the test."""

    def test_that_are_new_do_not_collide(self) -> None:
        piles = [
            [issue(pile * EACH + n, repository=pile * EACH + n) for n in range(1, EACH + 1)] for pile in range(THREADS)
        ]
        assert at_the_same_time(piles, attempts=1) == THREADS * EACH
        assert GithubIssue.objects.count() == GithubRepository.objects.count() == Activity.objects.count() == 200

    def test_in_one_repository_do_not_collide(self) -> None:
        handle(issue(999))
        piles = [[issue(pile * EACH + n) for n in range(1, EACH + 1)] for pile in range(THREADS)]
        assert at_the_same_time(piles, attempts=1) == THREADS * EACH
        assert GithubIssue.objects.count() == 201

    def test_that_change_do_not_collide(self) -> None:
        results = [[issue(n, repository=n, minutes=minute) for minute in range(EACH)] for n in range(1, THREADS + 1)]
        assert at_the_same_time(results, attempts=1) == THREADS * EACH
        assert set(GithubIssue.objects.values_list("document__title", flat=True)) == {f"after {EACH - 1}"}


class TestOneThing:
    def test_ends_in_its_newest_state_whoever_comes_last(self) -> None:
        rng = random.Random(7)
        results = [issue(1, minutes=minute) for minute in range(THREADS * 10)]
        rng.shuffle(results)
        piles = [results[n::THREADS] for n in range(THREADS)]
        assert at_the_same_time(piles, attempts=1000) == THREADS * 10
        kept = stored(GithubIssue)
        assert (kept.title, kept.state_at) == ("after 79", OPENED + timedelta(minutes=79))
        assert Activity.objects.count() == THREADS * 10

    def test_of_one_delivery_handled_twice_at_once_is_written_once(self) -> None:
        assert at_the_same_time([[issue(1)] for _ in range(THREADS)], attempts=1000) == THREADS
        assert (GithubIssue.objects.count(), Activity.objects.count()) == (1, 1)

    def test_of_a_session_keeps_all_that_its_uses_of_tools_tell(self) -> None:
        def use(n: int) -> Event:
            at = OPENED + timedelta(seconds=n)
            return sample(HOOK).event(body=changed(HOOK, tool_use_id=f"toolu_{n}"), occurred_at=at, pk=n)

        piles = [[use(pile * 10 + n) for n in range(10)] for pile in range(THREADS)]
        assert at_the_same_time(piles, attempts=1000) == THREADS * 10
        session = SandboxSession.objects.get()
        assert (session.first_seen_at, session.last_seen_at) == (OPENED, OPENED + timedelta(seconds=79))
        assert SandboxToolUse.objects.count() == THREADS * 10
