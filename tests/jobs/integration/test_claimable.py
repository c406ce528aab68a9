"""Is there work? What the bell is told, for each set of queues and each scope."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group

from jobs import operations
from jobs.queries import reads
from jobs.queries.reads import Interest
from tests import farm

pytestmark = pytest.mark.django_db


def _jobs(*queues: str, owner_id: int | None = None, most: int = 100) -> int:
    [found] = reads.claimable([(Interest(queues=queues, owner_id=owner_id), most)], horizon_s=5.0)
    return found.jobs


class TestWhatCanBeClaimed:
    def test_is_counted_over_all_queues_up_to_what_was_asked(self) -> None:
        farm.kind()
        farm.kind("other")
        farm.submit(3)
        farm.submit(4, "other")
        assert [_jobs("work"), _jobs("work", "other"), _jobs("work", "other", most=5), _jobs("nowhere")] == [3, 7, 5, 0]

    def test_is_not_what_runs_waits_for_later_or_lies_in_a_paused_queue(self) -> None:
        farm.kind()
        farm.kind("other")
        farm.submit(3)
        farm.submit(2, "other")
        farm.submit(5, run_at=farm.now() + timedelta(hours=1))
        farm.claim_one(farm.worker())
        operations.pause("other")
        assert _jobs("work", "other") == 2

    def test_is_no_more_than_a_queue_has_room_for(self) -> None:
        farm.kind()
        farm.submit(9)
        me = farm.worker()
        operations.set_ceiling("work", 4)
        assert _jobs("work") == 4
        mine = operations.claim(me, limit=3)
        assert _jobs("work") == 1
        operations.set_ceiling("work", 2)
        farm.succeed(me, mine[0])
        assert (_jobs("work"), operations.claim(me, limit=9)) == (0, [])

    def test_by_a_members_worker_is_its_owners_and_the_groups_and_each_job_once(self) -> None:
        farm.kind()
        club, closed = Group.objects.create(name="club"), Group.objects.create(name="closed")
        ada, bob = farm.user("ada", groups=[club]), farm.user("bob", groups=[club, closed])
        for person in (ada, bob):
            farm.worker(person.username, owner=person)
        farm.submit(1, owner=ada)
        farm.submit(2, owner=ada, group=club)
        farm.submit(4, owner=bob, group=club)
        farm.submit(8, owner=bob, group=closed)
        farm.submit(16)
        counts = [_jobs("work", owner_id=owner_id) for owner_id in (ada.pk, bob.pk, None)]
        assert counts == [1 + 2 + 4, 2 + 4 + 8, 31]
        assert len(operations.claim(farm.worker("hers", owner=ada), limit=50)) == counts[0]

    def test_is_answered_for_each_interest_in_their_order(self) -> None:
        farm.kind()
        farm.kind("other")
        farm.submit(3)
        farm.submit(1, "other", run_at=farm.now() + timedelta(seconds=30))
        farm.submit(1, "other", run_at=farm.now() + timedelta(seconds=600))
        requests = [(Interest(queues=(name,)), 2) for name in ("other", "work", "other")]
        first, second, third = reads.claimable(requests, horizon_s=60.0)
        assert [first.jobs, second.jobs, third.jobs] == [0, 2, 0]
        assert second.next_due_in_s is None
        assert first.next_due_in_s is not None
        assert 1 < first.next_due_in_s <= 30
