"""Tags: what may be one, how they are stored, and that a list of one tag costs as much as its page."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from hypothesis import given, strategies as st

from jobs import operations
from jobs.domain import records
from jobs.domain.filters import Filters
from jobs.errors import InvalidValue
from jobs.models import Job, Tag
from jobs.queries import lists, reads
from tests import farm, rows
from tests.looped import looped
from tests.rows import Sql

pytestmark = pytest.mark.django_db
MANY = 100_000
ROWS = 5_000  # of the 51 jobs, their outcomes and what lies beside them: some hundreds


def _tagged(tag: str) -> list[int]:
    return [job.pk for job in lists.page(viewer=lists.EVERYBODY, filters=Filters(tag=tag)).jobs]


@given(
    st.lists(
        st.text("aZ9ßж_.:/@+#=-", min_size=1, max_size=records.LONGEST_TAG), min_size=1, max_size=records.MOST_TAGS
    )
)
def test_what_is_a_tag_is_found_in_a_text_of_tags(names: list[str]) -> None:
    assert records.checked_tags(names) == tuple(dict.fromkeys(names))
    assert records.is_tags(",".join(names))


@looped("wrong", [[""], ["a,b"], ["a b"], ["{a}"], ['"'], ["a" * 65], ["\x00"], [7], [f"t{n}" for n in range(11)]])
def test_what_is_no_tag_is_refused(wrong: list[Any]) -> None:
    farm.kind()
    with pytest.raises(InvalidValue) as refusal:
        operations.submit("work", None, tags=wrong)
    assert refusal.value.field == "tags"
    assert not Job.objects.exists()


@looped("count", [1, 3, 60], rolled_back=True)  # by one statement, from arrays, by COPY
def test_a_job_keeps_its_tags_and_is_found_by_each(count: int) -> None:
    farm.kind()
    named = ["NULL", "größe", "tenant:7", "tenant:7"]
    jobs = farm.submit(count, tags=named)
    farm.submit(count)
    ids = [job.pk for job in reversed(jobs)]
    assert {tuple(job.tags or ()) for job in Job.objects.filter(pk__in=ids)} == {("NULL", "größe", "tenant:7")}
    for tag in named:
        assert _tagged(tag) == ids[: lists.PAGE]
    assert _tagged("tenant:7,größe") == ids[: lists.PAGE]
    assert _tagged("tenant:7,other") == _tagged("other") == _tagged(",") == []
    assert Job.objects.filter(tags=None).count() == count


def test_a_retry_and_a_copy_have_the_same_tags() -> None:
    farm.kind()
    ada = farm.user("ada")
    job = operations.submit("work", None, owner=ada, tags=["a", "b"])
    operations.cancel(job.pk, by=None)
    again, copy = operations.retry(job.pk, by=ada), operations.clone(job.pk, by=ada)
    assert _tagged("a") == [copy.pk, again.pk, job.pk]


def test_a_job_that_is_deleted_for_its_age_takes_its_tags_along() -> None:
    farm.kind()
    old, kept = farm.submit(2, tags=["a", "b"])
    operations.cancel(old.pk, by=None)
    farm.age(old, 40 * 86400)
    farm.retain()
    assert {row.job_id for row in Tag.objects.all()} == {kept.pk}


def test_pages_of_a_tag_follow_one_another_and_other_filters_choose_among_its_jobs() -> None:
    farm.kind()
    farm.kind("other")
    ids = [job.pk for job in farm.submit(7, tags=["a"])]
    [odd] = farm.submit(1, kind="other", tags=["a"])
    filters = Filters(tag="a")
    first = lists.page(viewer=lists.EVERYBODY, filters=filters, limit=5)
    second = lists.page(viewer=lists.EVERYBODY, filters=filters, before=first.older, limit=5)
    assert [job.pk for page in (first, second) for job in page.jobs] == [odd.pk, *reversed(ids)]
    assert second.older is None
    assert lists.count(viewer=lists.EVERYBODY, filters=filters) == lists.Matches(number=8, is_all=True)
    assert [job.pk for job in lists.page(viewer=lists.EVERYBODY, filters=Filters(tag="a", kind="other")).jobs] == [
        odd.pk
    ]


def test_a_list_of_one_tag_of_many_jobs_reads_few_rows() -> None:
    """Once the tables are counted, as the janitor does within seconds where they outgrow what is known of them."""
    farm.kind()
    tagged = Sql("CASE WHEN n <= 60 THEN '{many,rare}' ELSE '{many}' END")
    rows.fill(MANY, status="success", fence=1, tags=tagged)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO jobs_tag (tag, job_id) SELECT unnest(tags), id FROM jobs_job")
        cursor.execute("ANALYZE jobs_job, jobs_tag, jobs_outcome, jobs_live")
    newest, *of_tags = [
        _rows(lambda tag=tag: lists.page(viewer=lists.EVERYBODY, filters=Filters(tag=tag)))  # type: ignore[misc]
        for tag in ("", "many", "rare")
    ]
    assert max(newest, *of_tags) < ROWS, (newest, of_tags)


@pytest.mark.django_db(transaction=True)
def test_the_janitor_counts_the_tags_when_there_are_many_more_than_postgresql_knows() -> None:
    """By a plan of few a page of one tag reads and sorts all of the tag's."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_tag")
        cursor.execute("INSERT INTO jobs_tag (tag, job_id) SELECT 'many', n FROM generate_series(1, 5000) AS n")
        cursor.execute("SELECT pg_stat_force_next_flush()")
    assert "jobs_tag" in reads.next_wake().outgrown
    operations.next_due_s()
    assert "jobs_tag" not in reads.next_wake().outgrown


def _rows(read: Callable[[], object]) -> int:
    """How many rows the statements of this read look at: pages grow with what other tests rolled back."""
    counts: list[int] = []

    def explain(execute: Callable[..., Any], sql: Any, params: Any, many: Any, context: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
            [[[plan]]] = cursor.cursor.fetchall()
        waiting = [plan["Plan"] if isinstance(plan, dict) else json.loads(plan)["Plan"]]
        while waiting:
            node = waiting.pop()
            waiting += node.get("Plans", ())
            each = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            counts.append(int(each * node["Actual Loops"]))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        read()
    return sum(counts)
