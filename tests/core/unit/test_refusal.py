"""Refusals: each class states its code, its sentence and its HTTP status, and the documentation lists them."""

import pickle
import re
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest

from accounts import errors as accounts
from alerts import errors as alerts
from core import api as shared, values
from core.refusal import Refusal, sentence_of
from examples.chat import errors as chat
from examples.imagegame import errors as imagegame
from jobfarm import api, requests
from jobs import errors as jobs
from live import errors as live
from outbox import errors as outbox
from ratelimits import errors as ratelimits
from ratelimits.errors import RateLimited
from scheduling import errors as scheduling
from tests.looped import looped
from webhooks import errors as webhooks

API = Path(__file__).parents[3] / "docs" / "api.md"
APPS = (
    accounts, alerts, api, requests, chat, imagegame, jobs, live, outbox, ratelimits, scheduling, shared, values,
    webhooks,
)  # fmt: skip
# Classes that callers need not tell apart: the sentence says what to do.
SHARED = {"forbidden", "not_found"}
# What the API answers beside the refusals of jobs; and of those, what only a page does.
OF_THE_API = {
    accounts.Unauthorized, accounts.CsrfFailed, accounts.InsufficientScope, alerts.BadRule, alerts.NotFound,
    api.UnsupportedMediaType, requests.TooLarge, requests.TooMany, requests.TooSlow, ratelimits.CountExceedsLimit,
    RateLimited, values.NotJsonError,
}  # fmt: skip
OF_PAGES = {jobs.LinkRanOut}


def every_refusal(base: type[Refusal] = Refusal) -> set[type[Refusal]]:
    """All that are declared in the modules above."""
    names = {module.__name__ for module in APPS}
    below = {kind for each in base.__subclasses__() for kind in {each, *every_refusal(each)}}
    return {kind for kind in below if kind.__module__ in names}


def of_the_api() -> set[type[Refusal]]:
    """What a call of the API may be answered."""
    apps = every_refusal(jobs.JobsError) | every_refusal(outbox.OutboxError)
    return apps - OF_PAGES | OF_THE_API


def by_name(kinds: set[type[Refusal]]) -> list[type[Refusal]]:
    return sorted(kinds, key=lambda kind: (kind.__module__, kind.__name__))


class Missing(Refusal, code="missing", http_status=404):
    """There is no {thing}
    here."""


class TestARefusal:
    def test_has_its_numbers_in_its_sentence_its_body_and_as_attributes(self) -> None:
        refusal = Missing(thing="lamp")
        assert (str(refusal), refusal.message, refusal.thing) == (
            "There is no lamp here.",
            "There is no lamp here.",
            "lamp",
        )
        assert refusal.body == {"thing": "lamp", "error": "missing", "message": "There is no lamp here."}

    def test_takes_a_sentence_of_its_own(self) -> None:
        assert Missing("It is {gone}.").message == "It is {gone}."

    def test_that_passes_asks_to_come_again(self) -> None:
        assert Missing(thing="lamp", retry_after=5).headers == {"Retry-After": "5", "Cache-Control": "no-store"}
        assert Missing(thing="lamp").headers == {}

    @pytest.mark.parametrize(
        "refusal",
        [
            Missing(thing="lamp"),
            live.BadTopic("No topic."),
            jobs.LeaseLost(reason="ended", job_status="timed_out"),
            webhooks.BadSignature(reason="stale"),
            RateLimited(name="a", key="b", retry_after=timedelta(seconds=1.5)),
        ],
        ids=lambda refusal: type(refusal).__name__,
    )
    def test_passes_between_processes(self, refusal: Refusal) -> None:
        copy = pickle.loads(pickle.dumps(refusal))
        assert (type(copy), str(copy), vars(copy)) == (type(refusal), str(refusal), vars(refusal))


class TestEachRefusal:
    @looped("kind", by_name(every_refusal()), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
    def test_states_a_code_a_sentence_and_a_status(self, kind: type[Refusal]) -> None:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)
        assert sentence_of(kind).endswith((".", "{why}", "{reason}", "{reasons}"))
        assert 400 <= kind.http_status <= 599

    def test_has_a_code_of_its_own_in_its_app(self) -> None:
        known: dict[tuple[str, str], set[str]] = defaultdict(set)
        for kind in every_refusal():
            if "code" in vars(kind) and kind.code not in SHARED:
                known[kind.__module__, kind.code].add(kind.__name__)
        assert {key: names for key, names in known.items() if len(names) > 1} == {}

    @looped("kind", by_name(of_the_api()), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
    def test_of_the_api_is_in_the_table_of_its_documentation(self, kind: type[Refusal]) -> None:
        rows = re.findall(rf"^\| {kind.http_status} \| (.*) \|$", API.read_text(), re.MULTILINE)
        assert [f"`{kind.code}`" in row for row in rows] == [True]
