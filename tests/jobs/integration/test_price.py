"""What a claim and an end pay for what a farm does not use: PostgreSQL reads the condition of a trigger from its text
in every statement. Of a claim of one job that was an eighth."""

import re
from importlib import resources
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from jobs import operations
from jobs.models import Charge, Live, UniqueKey, UsageDelta
from tests import farm

pytestmark = pytest.mark.django_db

# Of a trigger that is not PostgreSQL's own (pg_trigger.tgtype): it fires for each row, at a DELETE, at an UPDATE.
TRIGGERS = """
    SELECT t.tgname, t.tgtype & 8 > 0 AS at_delete, t.tgtype & 16 > 0 AS at_update,
           ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = t.tgrelid AND attnum = ANY (t.tgattr))
    FROM pg_trigger AS t WHERE t.tgrelid = 'jobs_live'::regclass AND NOT t.tgisinternal AND t.tgtype & 1 > 0
"""


def _triggers() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS)
        return list(cursor.fetchall())


def _set_by_a_claim() -> set[str]:
    text = resources.files("jobs").joinpath("sql/claim.sql").read_text(encoding="utf-8")
    return set(re.findall(r"(?<![.\w])(\w+) = ", text[text.index("    SET fence") : text.index("    WHERE live.ctid")]))


def test_no_condition_is_read_for_an_end() -> None:
    assert [name for name, at_delete, _, _ in _triggers() if at_delete] == []


def test_one_condition_is_read_for_a_claim_and_it_asks_for_output() -> None:
    columns = _set_by_a_claim()
    assert {"fence", "counted_in", "output_bytes"} <= columns
    read = [name for name, _, at_update, of in _triggers() if at_update and (not of or columns & set(of))]
    assert read == ["what_a_job_wrote_is_charged"]


class TestJobsThatEndTogether:
    """What the triggers did for each of them is done for all at once."""

    @pytest.mark.parametrize("fair", ["off", "owner"])
    def test_are_charged_to_their_shares_and_owners_and_free_their_keys(
        self, work_kind: None, ada: User, fair: str
    ) -> None:
        operations.set_fair("work", fair)
        key = "key {}" if fair == "owner" else None
        operations.submit_many(
            [operations.NewJob(kind="work", payload={}, owner=ada, unique_key=key and key.format(n)) for n in range(3)]
        )
        worker = farm.worker()
        claimed = operations.claim(worker, limit=3)
        Live.objects.filter(pk__in=[claimed[0].id, claimed[2].id]).update(output_bytes=5)
        done = [operations.Finished(job_id=one.id, lease=one.lease, outcome="success") for one in claimed]
        operations.finish(worker, done)
        assert Charge.objects.filter(queue="work", share=-1 - ada.pk).count() == (3 if key else 0)
        assert _written() == [(ada.pk, 5), (ada.pk, 5)]
        assert not UniqueKey.objects.exists()

    def test_are_not_charged_again_for_a_run_that_failed_before(self, work_kind: None, ada: User) -> None:
        [job] = farm.submit(1, owner=ada)
        worker = farm.worker()
        claimed = farm.claim_one(worker)
        Live.objects.update(output_bytes=5)
        farm.fail(worker, claimed)
        operations.cancel(job.pk, by=None)
        assert _written() == [(ada.pk, 5)]


def _written() -> list[tuple[int | None, int]]:
    return list(UsageDelta.objects.exclude(output_bytes=0).values_list("owner_id", "output_bytes"))
