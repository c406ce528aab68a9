"""Keeping the newest state: what lies in a row is decided by what was told, never by when it came."""

import itertools
import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pytest_django import DjangoAssertNumQueries

from tests.webhook_samples import stored
from webhooks.domain.parts import ABSENT, Version, state_key
from webhooks.models import SandboxSession
from webhooks.models.resources import ClerkOrganization
from webhooks.queries.results import tombstone, upsert, upsert_session

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def upsert_of(name: str, version: Version, external_id: str = "org_1") -> bool:
    """Whether a state was stored."""
    return upsert(ClerkOrganization, external_id, version, name=name, slug=name.lower(), created_at=NOON)


def part(moment: datetime, **columns: Any) -> bool:
    """Whether a state was stored that says these columns alone."""
    parts = {"name": ABSENT, "slug": ABSENT, "created_at": ABSENT} | columns
    return upsert(ClerkOrganization, "org_1", Version(at=moment), **parts)


def row(external_id: str = "org_1") -> dict[str, Any]:
    found = stored(ClerkOrganization, external_id=external_id)
    return {field: getattr(found, field, None) for field in ("name", "slug", "state_at", "deleted_at", "created_at")}


NOTHING = {"name": None, "slug": None, "state_at": None, "deleted_at": None, "created_at": None}
ONE = {"name": "One", "slug": "one", "state_at": at(1), "deleted_at": None, "created_at": NOON}


class TestKeep:
    def test_stores_what_was_never_told(self) -> None:
        assert upsert_of("One", Version(at=at(1))) is True
        assert row() == ONE

    def test_lets_a_newer_state_win_as_a_whole(self) -> None:
        upsert_of("One", Version(at=at(1)))
        assert upsert_of("Two", Version(at=at(2))) is True
        assert row() == ONE | {"name": "Two", "slug": "two", "state_at": at(2)}

    def test_lets_an_older_state_change_nothing(self) -> None:
        upsert_of("Two", Version(at=at(2)))
        before = ClerkOrganization.objects.values().get()
        assert upsert_of("One", Version(at=at(1))) is False
        assert ClerkOrganization.objects.values().get() == before

    def test_does_not_store_the_same_again(self) -> None:
        upsert_of("One", Version(at=at(1)))
        assert upsert_of("One", Version(at=at(1))) is False

    def test_prefers_a_higher_number_then_a_higher_rank_of_one_moment(self) -> None:
        upsert_of("First", Version(at=at(1), number=1, rank=9))
        assert upsert_of("Second", Version(at=at(1), number=2)) is True
        assert upsert_of("Third", Version(at=at(1), number=2, rank=1)) is True
        assert upsert_of("Older", Version(at=at(1), number=1, rank=9)) is False
        assert row()["name"] == "Third"

    def test_never_lets_a_fallback_replace_what_is_none(self) -> None:
        assert upsert_of("Fallback", Version(at=at(1), is_fallback=True)) is True
        assert upsert_of("State", Version(at=at(0))) is True
        assert upsert_of("Newer fallback", Version(at=at(9), is_fallback=True)) is False
        assert row()["name"] == "State"

    def test_leaves_alone_what_a_state_does_not_say(self) -> None:
        upsert_of("One", Version(at=at(1)))
        assert part(at(2), name="Two") is True
        assert row() == ONE | {"name": "Two", "state_at": at(2)}

    def test_fills_in_from_an_older_state_what_the_newer_one_did_not_say(self) -> None:
        part(at(2), name="Two")
        assert row() == NOTHING | {"name": "Two", "state_at": at(2)}
        assert upsert_of("One", Version(at=at(1))) is True
        assert row() == ONE | {"name": "Two", "state_at": at(2)}

    def test_tells_nothing_apart_from_null_and_empty(self) -> None:
        upsert_of("One", Version(at=at(1)))
        part(at(2), slug="", created_at=None)
        assert row() == NOTHING | {"name": "One", "slug": "", "state_at": at(2)}
        assert ClerkOrganization.objects.get().document == {"name": "One", "slug": "", "created_at": None}

    def test_makes_a_row_of_an_id_alone_and_changes_none(self) -> None:
        assert part(at(9)) is True
        assert part(at(9)) is False
        assert row() == NOTHING
        assert upsert_of("One", Version(at=at(1))) is True
        assert part(at(9)) is False
        assert row()["state_at"] == at(1)

    def test_remembers_no_keys_of_fields_once_all_are_of_one_state(self) -> None:
        part(at(2), name="Two")
        upsert_of("Three", Version(at=at(3)))
        assert ClerkOrganization.objects.get().field_keys is None

    def test_lets_the_first_end_stay(self) -> None:
        upsert_of("Canceled", Version(at=at(2), first_wins=True))
        assert upsert_of("Completed", Version(at=at(1), first_wins=True)) is True
        assert upsert_of("Timed out", Version(at=at(3), first_wins=True)) is False
        assert row()["name"] == "Completed"

    def test_asks_one_statement(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        for version in (Version(at=at(1)), Version(at=at(2)), Version(at=at(1))):  # new, newer, older
            with django_assert_num_queries(1):
                upsert_of("One", version)


class TestTombstone:
    def test_marks_what_is_there(self) -> None:
        upsert_of("One", Version(at=at(1)))
        assert tombstone(ClerkOrganization, "org_1", at=at(2)) is True
        assert row() == ONE | {"deleted_at": at(2)}

    def test_comes_before_the_creation_and_wins(self) -> None:
        assert tombstone(ClerkOrganization, "org_1", at=at(2)) is True
        assert row() == NOTHING | {"deleted_at": at(2)}
        assert upsert_of("One", Version(at=at(1))) is True
        assert row() == ONE | {"deleted_at": at(2)}

    def test_stays_when_a_newer_state_is_told(self) -> None:
        tombstone(ClerkOrganization, "org_1", at=at(2))
        upsert_of("Later", Version(at=at(3)))
        assert row()["deleted_at"] == at(2)

    def test_counts_the_earliest_of_several(self) -> None:
        assert [tombstone(ClerkOrganization, "org_1", at=at(minute)) for minute in (2, 3, 2, 1)] == [
            True,
            False,
            False,
            True,
        ]
        assert row()["deleted_at"] == at(1)


versions = st.builds(
    Version, at=st.integers(0, 2).map(at), number=st.integers(0, 1), rank=st.integers(0, 1), is_fallback=st.booleans()
)
COLUMNS = ("name", "slug", "created_at")
states = st.tuples(
    versions,
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["One", "Two", ABSENT]),
            "slug": st.sampled_from(["one", "", ABSENT]),
            "created_at": st.sampled_from([NOON, None, ABSENT]),
        }
    ),
)
stories = st.lists(st.one_of(states, st.integers(0, 3).map(at)), min_size=1, max_size=8)


def newest(parts: list[tuple[Version, dict[str, Any]]], column: str | None = None) -> tuple[str, Any, Any]:
    """The key, the moment and the column of the newest of these states that says something, or says this column."""
    found: list[tuple[str, Any, Any]] = [("", None, None)]
    for version, columns in parts:
        present = {name: value for name, value in columns.items() if value is not ABSENT}
        written = present | {"created_at": NOON.isoformat()} if present.get("created_at") else present
        if present and (column is None or column in present):
            found.append((state_key(version, written), version.at, present.get(column or "")))
    return max(found, key=lambda one: one[0])


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(story=stories, seed=st.integers(0, 1000))
def test_every_order_of_a_story_ends_with_the_newest_of_each_column_and_the_earliest_deletion(
    story: list[Any], seed: int
) -> None:
    ClerkOrganization.objects.all().delete()
    shuffled = story * 2
    random.Random(seed).shuffle(shuffled)
    for part in shuffled:
        if isinstance(part, datetime):
            tombstone(ClerkOrganization, "org_1", at=part)
        else:
            upsert(ClerkOrganization, "org_1", part[0], **part[1])
    parts = [part for part in story if isinstance(part, tuple)]
    kept = row()
    assert kept["deleted_at"] == min((part for part in story if isinstance(part, datetime)), default=None)
    assert kept["state_at"] == newest(parts)[1]
    assert {name: kept[name] for name in COLUMNS} == {name: newest(parts, name)[2] for name in COLUMNS}
    # Once more, and nothing is news.
    assert not any(upsert(ClerkOrganization, "org_1", version, **columns) for version, columns in parts)


class TestReceive:
    def test_keeps_each_part_newest_for_itself(self) -> None:
        parts = [
            partial(upsert_session, "s", at(1), phase="started", model="sonnet", folder="/a"),
            partial(upsert_session, "s", at(2), phase="working", phase_rank=1, folder="/b"),
            partial(upsert_session, "s", at(3), phase="ended", phase_rank=4, reason="logout"),
            partial(upsert_session, "s", at(9), sandbox="sbx"),
        ]
        shown = ("first_seen_at", "last_seen_at", "phase", "reason", "model", "folder", "sandbox")
        for order in itertools.permutations(parts):
            SandboxSession.objects.all().delete()
            for part in (*order, *order):
                part()
            assert SandboxSession.objects.values(*shown).get() == {
                "first_seen_at": at(1),
                "last_seen_at": at(9),
                "phase": "ended",
                "reason": "logout",
                "model": "sonnet",
                "folder": "/b",
                "sandbox": "sbx",
            }

    def test_decides_within_a_second_by_the_phase(self) -> None:
        upsert_session("s", NOON, phase="ended", phase_rank=4, reason="other")
        upsert_session("s", NOON, phase="idle", phase_rank=3)
        assert SandboxSession.objects.values_list("phase", "reason").get() == ("ended", "other")
