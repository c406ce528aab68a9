"""One job, file or limit that fails each time holds up nobody else's: it is put aside with its reason."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.db.models.functions import Now
from pytest_django import Settings

from jobs import kinds, operations
from jobs.domain.hooks import Hooks
from jobs.management.commands import janitor
from jobs.models import Job, Mark, PausedOwner, Queue
from jobs.operations import content, quotas, set_aside
from jobs.operations.set_aside import ASIDE
from postgres import connections
from ratelimits import operations as ratelimits
from tests import farm
from tests.doctor import named_errors

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    ASIDE.forget()
    yield
    ASIDE.forget()


@pytest.fixture
def poison() -> Iterator[Job]:
    """A job that the database will not let end or wait again, whoever asks: the fault of its row alone."""
    farm.kind(max_attempts=1)
    farm.submit(2)
    [poisoned] = farm.submit(1)
    farm.submit(2)
    with connection.cursor() as cursor:
        cursor.execute(f"""
            CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'poisoned %', OLD.job_id USING ERRCODE = 'check_violation';
            END $$;
            CREATE TRIGGER poison_end BEFORE DELETE ON jobs_live FOR EACH ROW
            WHEN (OLD.job_id = {poisoned.pk}) EXECUTE FUNCTION poison();
            CREATE TRIGGER poison BEFORE UPDATE ON jobs_live FOR EACH ROW
            WHEN (OLD.job_id = {poisoned.pk} AND OLD.lease_secret IS NOT NULL AND NEW.lease_secret IS NULL)
            EXECUTE FUNCTION poison();
        """)
    yield poisoned
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER poison ON jobs_live; DROP TRIGGER poison_end ON jobs_live; DROP FUNCTION poison()")


def _statuses() -> list[str]:
    return list(farm.statuses())


def _is_put_aside(poisoned: Job) -> None:
    assert "could not end" in (farm.stored(poisoned).detail or "")
    assert f"The job {poisoned.pk} is put aside: IntegrityError: poisoned {poisoned.pk}" in named_errors()
    assert operations.next_due_s() is None  # the janitor does not turn on it


class TestTheSweep:
    def test_takes_back_all_but_the_one_that_cannot_be(self, poison: Job) -> None:
        me = farm.worker()
        for taken in operations.claim(me, limit=5):
            farm.expire_lease(taken)
        assert operations.sweep().taken_back == 4
        assert _statuses() == ["timed_out", "timed_out", "in_progress", "timed_out", "timed_out"]
        _is_put_aside(poison)
        assert operations.sweep().taken_back == 0

    def test_expires_all_but_the_one_that_cannot_be(self, poison: Job) -> None:
        farm.alter(Job.objects.all(), expires_at=Now() - timedelta(seconds=1))
        assert operations.sweep().expired == 4
        assert _statuses() == ["timed_out", "timed_out", "pending", "timed_out", "timed_out"]
        _is_put_aside(poison)

    def test_goes_on_where_the_limit_of_one_takes_nothing_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        farm.kind()
        jobs = farm.submit(3)
        farm.alter(Job.objects.all(), expires_at=Now() - timedelta(seconds=1))

        def give_back(rows: Iterable[Any]) -> None:
            if any(row.id == jobs[1].pk for row in rows):
                raise ValueError("this limit takes nothing back")

        monkeypatch.setattr(quotas, "give_back", give_back)
        assert operations.sweep().expired == 2
        assert _statuses() == ["timed_out", "pending", "timed_out"]
        monkeypatch.undo()
        ASIDE.forget()  # a minute later
        assert operations.sweep().expired == 1

    def test_goes_on_where_somebody_has_the_limit_of_one_locked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(connection.settings_dict, "LOCK_S", 0.1)
        ratelimits.make("few", ratelimits.TokenBucket(9, timedelta(hours=1)))
        for kind in (farm.kind("limited", limit="few"), farm.kind()):
            operations.submit(kind.name, {})
        farm.alter(Job.objects.all(), expires_at=Now() - timedelta(seconds=1))
        with psycopg.connect(connections.conninfo()) as somebody, connection.cursor() as cursor:
            somebody.execute("SELECT FROM ratelimits_bucket FOR UPDATE")
            cursor.execute("SET lock_timeout = '100ms'")
            assert operations.sweep().expired == 1
            cursor.execute("RESET lock_timeout")
        assert _statuses() == ["pending", "timed_out"]
        ASIDE.forget()  # a moment later
        assert operations.sweep().expired == 1

    def test_goes_on_where_a_hook_of_one_kind_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        farm.kind()
        farm.kind("hooked")

        def fail(_: Any) -> None:
            raise RuntimeError("the hook of this kind fails")

        monkeypatch.setitem(kinds.HOOKS, "hooked", Hooks(on_transition=fail))
        farm.submit(1, "hooked")
        farm.submit(1)
        farm.alter(Job.objects.all(), expires_at=Now() - timedelta(seconds=1))
        assert operations.sweep().expired == 2  # a move stands, whatever an app's function does


class TestLanes:
    @pytest.fixture(autouse=True)
    def _awake(self) -> Iterator[None]:
        """Three lanes in which nothing waits any more."""
        farm.kind()
        for priority in range(3):
            operations.cancel(farm.submit(1, priority=priority)[0].pk, by=None)
        with connection.cursor() as cursor:
            cursor.execute("""
                CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'poisoned' USING ERRCODE = 'check_violation';
                END $$""")
        yield
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION poison() CASCADE")

    def test_are_put_to_sleep_but_for_the_one_that_cannot_be_which_is_named(self) -> None:
        _, poisoned, _ = Mark.objects.order_by("lane_id").values_list("lane_id", flat=True)
        self._poison("jobs_mark", "DELETE", f"OLD.lane_id = {poisoned}")
        assert operations.tend_lanes() == 2
        assert list(Mark.objects.values_list("lane_id", flat=True)) == [poisoned]
        assert f"The lane {poisoned} cannot be tidied: IntegrityError: poisoned" in named_errors()

    def test_are_put_to_sleep_whatever_else_the_janitor_cannot_do(self) -> None:
        farm.worker(owner=farm.user())
        Queue.objects.update(by_owner=False)
        self._poison("jobs_queue", "UPDATE", "true")
        assert operations.tend_lanes() == 3
        assert "queues that keep owners apart failed, and was put aside: IntegrityError" in named_errors()

    def _poison(self, table: str, what: str, when: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"CREATE TRIGGER poison BEFORE {what} ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION poison()"
            )


class TestFiles:
    def test_that_cannot_be_deleted_hold_up_no_other(
        self, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
    ) -> None:
        settings.MEDIA_ROOT = tmp_path  # files of other tests' are unknown here too
        names = [default_storage.save(f"jobs/lost-{n}.txt", ContentFile(b"x")) for n in range(3)]
        delete, later = default_storage.delete, farm.now() + timedelta(hours=2)

        def refuse_one(name: str) -> None:
            if name == names[1]:
                raise ValueError("the storage does not like this name")
            delete(name)

        monkeypatch.setattr(default_storage, "delete", refuse_one)
        assert names[2] in operations.delete_orphaned_files(now=later)
        assert [default_storage.exists(name) for name in names] == [False, True, False]
        with pytest.raises(ValueError, match="does not like"):
            content.delete_files(names=names)  # after it tried all
        monkeypatch.undo()
        assert names[1] in operations.delete_orphaned_files(now=later)

    def test_a_lease_that_runs_out_while_jobs_change_theirs_is_taken_back_meanwhile(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "JANITOR_S": 0.0}
        monkeypatch.setattr(set_aside, "BATCH", 1)
        farm.kind()
        ada = farm.user("ada")
        farm.submit(1)
        lost = farm.claim_one(farm.worker())
        farm.submit(5, owner=ada)
        PausedOwner.objects.create(owner=ada)
        farm.expire_lease(lost)
        look, seen = janitor.between(janitor.Reports()), list[str]()

        def between() -> None:
            look()
            seen.append(farm.status(lost))

        operations.tend_lanes(between=between)
        assert (len(seen) >= 5, seen[0]) == (True, "pending")
