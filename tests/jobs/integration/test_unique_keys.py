"""Whose a unique key is, which job a twin's refusal names, and what that costs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from jobs import operations
from jobs.errors import NotUnique
from jobs.models import Job
from jobs.queries import submits
from postgres import connections, statements
from tests import farm, rows
from tests.explained import explain
from tests.jobs.limits.integration import sample
from tests.rows import Sql

pytestmark = [pytest.mark.usefixtures("no_dead_rows"), pytest.mark.django_db]
Owner = User | None
INDEX = "only_one_live_job_per_owner_kind_and_unique_key"


def _new(key: str | None, owner: Owner = None, kind: str = "work") -> operations.NewJob:
    return operations.NewJob(kind=kind, payload=1, unique_key=key, owner=owner)


def _twin(key: str, owner: Owner = None, kind: str = "work") -> int:
    """The job that stands in the way of one with this key."""
    with pytest.raises(NotUnique) as refused:
        operations.submit(kind, 1, unique_key=key, owner=owner)
    job: int = refused.value.job
    return job


class TestAUniqueKey:
    def test_is_refused_to_its_owner_alone_and_the_refusal_names_the_living_twin(self) -> None:
        farm.kind()
        ada, bob = farm.user("ada"), farm.user("bob")
        hers = operations.submit("work", 1, unique_key="daily", owner=ada)
        his = operations.submit("work", 1, unique_key="daily", owner=bob)
        assert (_twin("daily", ada), _twin("daily", bob)) == (hers.pk, his.pk)
        operations.cancel(hers.pk, by=ada)
        newer = operations.submit("work", 1, unique_key="daily", owner=ada)
        assert (_twin("daily", ada), _twin("daily", bob)) == (newer.pk, his.pk)

    def test_of_jobs_without_an_owner_is_the_sites_own(self) -> None:
        farm.kind()
        operations.submit("work", 1, unique_key="daily", owner=farm.user("ada"))
        sites = operations.submit("work", 1, unique_key="daily")
        assert _twin("daily") == sites.pk

    def test_of_another_kind_is_another(self) -> None:
        farm.kind()
        farm.kind("other")
        ada = farm.user("ada")
        one, other = (operations.submit(kind, 1, unique_key="k", owner=ada).pk for kind in ("work", "other"))
        assert (_twin("k", ada), _twin("k", ada, "other")) == (one, other)

    def test_of_a_running_twin_names_it_too(self) -> None:
        farm.kind()
        [job] = farm.submit(1, unique_key="k")
        farm.claim_one(farm.worker())
        assert _twin("k") == job.pk

    def test_in_a_bulk_names_the_twin_of_each_be_it_in_the_table_or_in_the_call(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        old = operations.submit("work", 1, unique_key="a", owner=ada)
        answers = operations.submit_many(
            [_new("a", ada), _new("b", ada), _new("b", ada), _new("a"), _new(None, ada), _new("a")]
        )
        made = [answer if isinstance(answer, int) else None for answer in answers]
        named = [answer.job if isinstance(answer, NotUnique) else None for answer in answers]
        assert [pk is None for pk in made] == [True, False, True, False, False, True]
        assert named == [old.pk, None, made[1], None, None, made[3]]

    def test_is_named_to_who_tries_a_job_again(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        old = farm.ended("failed", unique_key="k", owner=ada)
        operations.submit("work", 1, unique_key="k")  # the site's own is in nobody's way
        newer = operations.submit("work", 1, unique_key="k", owner=ada)
        with pytest.raises(NotUnique) as refused:
            operations.retry(old.pk, by=ada)
        assert refused.value.job == newer.pk


class TestAnOwnerWhoIsDeleted:
    def test_leaves_jobs_without_a_key_so_that_two_may_go(self) -> None:
        """Their jobs come to have no owner, all of them; the site's own may have the same key too."""
        farm.kind()
        people = [farm.user("ada"), farm.user("bob")]
        sites = operations.submit("work", 1, unique_key="daily")
        jobs = [operations.submit("work", 1, unique_key="daily", owner=person) for person in people]
        ended = operations.submit("work", 1, unique_key="weekly", owner=people[0])
        operations.cancel(ended.pk, by=None)
        for person in people:
            person.delete()
        left = Job.objects.filter(pk__in=[job.pk for job in jobs])
        kept = [(job.owner_id, job.unique_key, job.status) for job in left]
        assert kept == [(None, None, "pending")] * 2
        assert _twin("daily") == sites.pk
        assert Job.objects.get(pk=ended.pk).unique_key == "weekly"  # an ended job is never changed


class Meanwhile:
    """Lets something happen on another connection right after a statement of ours, as often as it is said."""

    def __init__(self, statement: str, *doings: Callable[[], Any]) -> None:
        self._mark, self._doings, self.seen = f"/* jobs.{statement} */", list(doings), 0

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        if self._mark in str(sql):
            self.seen += 1
            if self._doings:
                self._elsewhere(self._doings.pop(0))
        return answer

    def _elsewhere(self, doing: Callable[[], Any]) -> None:
        def run() -> None:
            with connections.released():
                doing()

        with ThreadPoolExecutor(1) as pool:
            pool.submit(run).result()


@pytest.mark.django_db(transaction=True)
class TestATwinThatEndsAtThatMoment:
    def test_is_in_nobodys_way(self) -> None:
        farm.kind()
        [old] = farm.submit(1, unique_key="k")
        meanwhile = Meanwhile("submit_one", lambda: operations.cancel(old.pk, by=None))
        with connection.execute_wrapper(meanwhile):
            new = operations.submit("work", 2, unique_key="k")
        assert (meanwhile.seen, farm.status(new), Job.objects.count()) == (2, "pending", 2)

    def test_is_in_no_bulks_way_which_still_stores_each_job_once_and_takes_its_tokens_once(self) -> None:
        sample.kind(limit=sample.SLOW)
        old, other = (farm.submit(1, unique_key=key)[0] for key in ("b", "d"))
        operations.claim(farm.worker(), limit=2)  # what has started keeps its tokens: its end waits for no limit
        meanwhile = Meanwhile("submit", lambda: operations.cancel(old.pk, by=None))
        with connection.execute_wrapper(meanwhile):
            answers = operations.submit_many([_new(key) for key in ("a", "b", "c", "d")])
        assert [isinstance(answer, int) for answer in answers] == [True, True, True, False]
        assert answers[3].job == other.pk  # type: ignore[union-attr]  # the one that was left out
        assert (meanwhile.seen, Job.objects.count(), Job.objects.count()) == (2, 5, 5)
        assert sample.used(sample.SLOW) == {"": 5.0}  # both old ones, and three new

    def test_and_comes_again_as_often_as_one_looks_is_refused_without_naming_a_job_that_has_ended(self) -> None:
        farm.kind()
        farm.submit(1, unique_key="k")

        def leave() -> None:
            operations.cancel(Job.objects.waiting().get().pk, by=None)

        def come() -> None:
            farm.submit(1, unique_key="k")

        tries = submits.MOST_TRIES
        leaves, comes = Meanwhile("submit_one", *[leave] * tries), Meanwhile("living_twins", *[come] * tries)
        with connection.execute_wrapper(leaves), connection.execute_wrapper(comes):
            refused = operations.submit_many([_new("k")])
        assert [answer.job for answer in refused if isinstance(answer, NotUnique)] == [None]
        assert (leaves.seen, comes.seen) == (tries, tries)


class TestThePlan:
    def test_of_finding_a_twin_reads_only_its_owners_entry_among_three_thousand_of_the_same_key(self) -> None:
        farm.kind()
        ada = farm.user("ada")
        rows.fill(3_000, owner_id=Sql("1000000 + n"), unique_key="daily")
        twins = [operations.submit("work", 1, unique_key="daily", owner=owner).pk for owner in (ada, None)]
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE jobs_uniquekey")
        given = {"owner_id": [ada.pk, None], "kind": ["work"] * 2, "unique_key": ["daily"] * 2}
        statement = statements.load("jobs", "living_twins")
        assert [row.id for row in sorted(statement.run(given))] == twins
        plan = explain(statement, given)["Plan"]
        on_jobs = [node for node in _nodes(plan) if node.get("Relation Name") == "jobs_uniquekey"]
        assert {node["Index Name"] for node in on_jobs} == {INDEX}
        assert sum(node.get("Rows Removed by Filter", 0) for node in on_jobs) == 0
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 30

    def test_of_a_plain_submit_has_nothing_to_do_with_the_index(self) -> None:
        farm.kind()
        sizes = [_size()]
        for key in (None, "key"):
            operations.submit_many([_new(key and f"{key} {n}") for n in range(1000)])
            sizes.append(_size())
        assert sizes[0] == sizes[1] < sizes[2]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _size() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size(%s::regclass)", [INDEX])
        size: int = cursor.fetchone()[0]
    return size
