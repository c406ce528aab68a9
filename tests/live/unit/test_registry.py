"""What a live query may be, and what it takes from a browser."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User

from live import apps, errors, registry
from tests.looped import looped


def read(*, job_id: int, part: str = "all") -> Mapping[str, Any]:
    """A read with one argument that must be given and one that need not."""
    return {"job_id": job_id, "part": part}


PARAMETERS = registry.declared(read)


def nothing() -> Mapping[str, Any]:
    """A read without arguments."""
    return {}


class TestArguments:
    def test_are_completed_with_defaults(self) -> None:
        assert registry.checked({"job_id": 7}, parameters=PARAMETERS) == {"job_id": 7, "part": "all"}

    @pytest.mark.parametrize("number", [0, -1, 2**63 - 1])
    def test_are_any_number_that_the_database_holds(self, number: int) -> None:
        assert registry.checked({"job_id": number}, parameters=PARAMETERS)["job_id"] == number

    @looped(
        ("given", "sentence"),
        [
            (None, "Arguments come as an object with names"),
            ([7], "Arguments come as an object with names"),
            ({}, "The argument 'job_id' is missing"),
            ({"job_id": 7, "x": 1}, "There is no argument 'x'"),
            ({"job_id": "7"}, "The argument 'job_id' must be a whole number"),
            ({"job_id": True}, "The argument 'job_id' must be a whole number"),
            ({"job_id": 7.0}, "The argument 'job_id' must be a whole number"),
            ({"job_id": 2**63}, "The argument 'job_id' is too large a number"),
            ({"job_id": 7, "part": 7}, "The argument 'part' must be a text"),
            ({"job_id": 7, "part": "x" * 1001}, "The argument 'part' is longer than 1000 characters"),
            ({"job_id": 7, "part": "\x00"}, "The argument 'part' holds characters that cannot be stored"),
            ({"job_id": 7, "part": "\udc00"}, "The argument 'part' holds characters that cannot be stored"),
        ],
    )
    def test_are_refused_with_a_sentence(self, given: object, sentence: str) -> None:
        with pytest.raises(errors.BadArguments) as refused:
            registry.checked(given, parameters=PARAMETERS)
        assert refused.value.message == sentence

    def test_have_one_text_however_they_were_ordered(self) -> None:
        assert registry.canonical({"b": 1, "a": "x"}) == registry.canonical({"a": "x", "b": 1})


class TestDeclaring:
    def test_refuses_arguments_that_are_neither_number_nor_text(self) -> None:
        def bad(*, jobs: list[int]) -> None: ...

        with pytest.raises(errors.BadDeclaration):
            registry.declared(bad)

    def test_shows_html_by_the_template_of_the_reads_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        query = registry.live_query("named", topics=list, audiences=["public"])(nothing)
        assert query.template == "unit/live/nothing.html"

    def test_takes_who_may_see_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        may_see = registry.for_holders("jobs.view_job")
        query = registry.live_query("held", topics=list, audiences=["operator"], may_see=may_see)(nothing)
        assert query.audience(registry.Viewer(user=User(is_active=True, is_superuser=True)), {}) == "operator"
        assert query.audience(registry.Viewer(user=User(is_active=False, is_superuser=True)), {}) is None

    def test_refuses_json_with_a_template(self) -> None:
        with pytest.raises(errors.BadDeclaration):
            registry.live_query("bad", topics=list, audiences=["public"], template="x", render="json")(nothing)

    def test_refuses_a_name_twice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        declare = registry.live_stream("twice", topics=list)
        declare(lambda after, limit: [])
        with pytest.raises(errors.BadDeclaration):
            declare(lambda after, limit: [])

    def test_is_checked_for_who_may_see_it_and_for_its_template(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        registry.live_query("unseen", topics=list, audiences=["public"], template="no/such.html")(nothing)
        assert [message.id for message in apps.check_live_queries()] == ["live.E001", "live.E002"]

    def test_lets_nobody_see_until_it_says_who(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        query = registry.live_stream("unseen", topics=list)(lambda after, limit: [])
        assert query.audience(registry.Viewer(user=None), {}) is None  # type: ignore[arg-type]

    def test_refuses_an_audience_that_was_not_declared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        declare = registry.live_query("q", topics=list, audiences=["public"], render="json", anonymous="always")
        query = declare(nothing)
        query.may_see(lambda viewer: "king")
        with pytest.raises(errors.BadDeclaration):
            query.audience(registry.Viewer(user=AnonymousUser()), {})

    @pytest.mark.parametrize(
        ("anonymous", "without", "with_ticket"),
        [("never", None, None), ("ticket", None, "public"), ("always", "public", "public")],
    )
    def test_is_asked_for_who_is_not_logged_in_as_it_declares(
        self,
        monkeypatch: pytest.MonkeyPatch,
        anonymous: registry.Anonymous,
        without: str | None,
        with_ticket: str | None,
    ) -> None:
        monkeypatch.setattr(registry, "_queries", {})
        declare = registry.live_query("q", topics=list, audiences=["public"], render="json", anonymous=anonymous)
        query = declare(nothing)
        query.may_see(lambda viewer: "public")
        stranger = AnonymousUser()
        assert query.audience(registry.Viewer(user=stranger), {}) == without
        assert query.audience(registry.Viewer(user=stranger, ticket="t"), {}) == with_ticket
        assert query.audience(registry.Viewer(user=User()), {}) == "public"
