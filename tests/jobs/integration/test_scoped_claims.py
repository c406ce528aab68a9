"""What a member's worker may take, where the statement has a range for the member and one for each group."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Job
from tests import farm

pytestmark = pytest.mark.django_db


@pytest.fixture
def club() -> Group:
    farm.kind()
    return Group.objects.create(name="club")


@pytest.fixture
def ada(club: Group) -> User:
    return farm.user("ada", groups=[club])


@pytest.fixture
def bob(club: Group) -> User:
    return farm.user("bob", groups=[club])


class TestAJobInTwoRanges:
    """It is mine, and my group's."""

    def test_takes_one_slot_of_a_ceiling(self, ada: User, club: Group) -> None:
        operations.set_ceiling("work", 3)
        [job] = farm.submit(1, owner=ada, group=club)
        claimed = operations.claim(farm.worker(owner=ada), limit=3)
        assert [one.id for one in claimed] == [job.pk]
        assert list(Job.objects.counted_in("work").values_list("pk", flat=True)) == [job.pk]

    def test_leaves_the_other_slots_to_other_jobs(self, ada: User, club: Group) -> None:
        operations.set_ceiling("work", 3)
        both = farm.submit(2, owner=ada, group=club)
        [mine] = farm.submit(1, owner=ada)
        claimed = operations.claim(farm.worker(owner=ada), limit=9)
        assert {one.id for one in claimed} == {mine.pk, *(job.pk for job in both)}
        assert operations.claim(farm.worker(), limit=9) == []


class TestAJobThatWaitedTooLong:
    """The janitor has not looked at it yet: nobody is to get it all the same."""

    @pytest.mark.parametrize("is_hidden", [False, True], ids=["from nobody", "from somebody else"])
    @pytest.mark.parametrize("whose", ["mine", "my group's", "everybody's"])
    def test_is_passed_over_for_the_one_behind_it(
        self, ada: User, bob: User, club: Group, whose: str, *, is_hidden: bool
    ) -> None:
        of: dict[str, dict[str, Any]] = {
            "mine": {"owner": ada},
            "my group's": {"owner": bob, "group": club},
            "everybody's": {},
        }
        expired, live = farm.submit(2, **of[whose])
        past = Now() - timedelta(seconds=1)
        farm.alter(expired, expires_at=past, run_at=Now() - timedelta(seconds=5))
        if is_hidden:
            other = farm.worker("other")
            farm.avoid([expired, live], other, ago_s=5)
        me = farm.worker("me", owner=None if whose == "everybody's" else ada)
        assert [claimed.id for claimed in operations.claim(me, limit=9)] == [live.pk]
        assert farm.status(expired) == "pending"

    @pytest.mark.parametrize("whose", ["mine", "my group's", "everybody's"])
    def test_brings_none_forward_that_stands_beside_it(self, ada: User, bob: User, club: Group, whose: str) -> None:
        """Of two ranges the one with the better head is read first: what nobody may take is no head."""
        of: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "mine": ({"owner": ada}, {"owner": bob, "group": club}),
            "my group's": ({"owner": bob, "group": club}, {"owner": ada}),
            "everybody's": ({}, {}),
        }
        its, another = of[whose]
        [expired] = farm.submit(1, priority=9, **its)
        [beside] = farm.submit(1, priority=-9, **its)
        [better] = farm.submit(1, **another)
        farm.alter(expired, expires_at=Now() - timedelta(seconds=1))
        if whose == "everybody's":
            farm.avoid([expired, beside], farm.worker("other"), ago_s=5)
        me = farm.worker("me", owner=None if whose == "everybody's" else ada)
        assert [operations.claim(me)[0].id for _ in range(2)] == [better.pk, beside.pk]
