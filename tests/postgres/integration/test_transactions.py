"""Serializable transactions: collisions that really happen, between threads on connections of their own."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest import mock

import pytest
from django.db import Error, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from postgres.connections import released
from postgres.errors import NestedTransaction
from postgres.transactions import Gathered, collided, retried, serializable

pytestmark = pytest.mark.django_db(transaction=True)
RNG = random.Random(1)


def sql(statement: str, *params: int) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture(autouse=True)
def doctors() -> Iterator[None]:
    """The classic write skew: each of two doctors may go home as long as the other is on call."""
    sql("CREATE TABLE doctor (id int PRIMARY KEY, on_call bool NOT NULL, visits int NOT NULL DEFAULT 0)")
    sql("INSERT INTO doctor VALUES (1, true), (2, true)")
    yield
    sql("DROP TABLE doctor")


def together(*works: Callable[[], object]) -> list[object]:
    with ThreadPoolExecutor(len(works)) as threads:
        return [future.result() for future in [threads.submit(released()(work)) for work in works]]


@contextmanager
def kept_connection() -> Iterator[None]:
    """Connections of this process's own, not of the pool's, as scheduling.cluster.process_group keeps them."""
    own = {"OPTIONS": connection.settings_dict["OPTIONS"] | {"pool": False}, "CONN_MAX_AGE": None}
    connection.close()
    with mock.patch.dict(connection.settings_dict, own):
        try:
            yield
        finally:
            connection.close()


class TestSerializable:
    def test_returns_what_the_function_returns_after_the_commit(self) -> None:
        assert serializable(lambda: sql("SHOW transaction_isolation")[0][0], rng=RNG) == "serializable"

    def test_leaves_the_connection_as_it_was(self) -> None:
        serializable(lambda: None, rng=RNG)
        with transaction.atomic():
            assert sql("SHOW transaction_isolation") == [("read committed",)]

    def test_leaves_the_connection_as_it_was_after_an_error(self) -> None:
        with pytest.raises(ZeroDivisionError):
            serializable(lambda: sql("SELECT 1") and 1 / 0, rng=RNG)
        with transaction.atomic():
            assert sql("SHOW transaction_isolation") == [("read committed",)]

    def test_is_serializable_too_where_its_connection_is_made_anew(self) -> None:
        """A process of a cluster keeps its connection, and has it checked on the way into the first transaction of a
        task: after a crash of PostgreSQL that is where the new one comes from. In a chaos run a mutation read a list
        that another had not appended to yet, and appended behind that one."""
        with kept_connection():
            [(lost,)] = sql("SELECT pg_backend_pid()")
            together(lambda: sql("SELECT pg_terminate_backend(%s, 5000)", int(str(lost))))
            connection.close_if_unusable_or_obsolete()  # between two tasks
            [(new, level)] = serializable(
                lambda: sql("SELECT pg_backend_pid(), current_setting('transaction_isolation')"), rng=RNG
            )
            with transaction.atomic():
                afterwards = sql("SHOW transaction_isolation")
        assert (new != lost, level, afterwards) == (True, "serializable", [("read committed",)])

    def test_takes_no_round_trip_for_its_level(self) -> None:
        with CaptureQueriesContext(connection) as statements:
            serializable(lambda: sql("SELECT 1"), rng=RNG)
        assert [one["sql"] for one in statements] == ["BEGIN", "SELECT 1", "COMMIT"]

    def test_retries_a_write_skew_until_its_rule_holds(self) -> None:
        """Both read before either writes, once; under READ COMMITTED both would go home."""
        both_have_read = threading.Barrier(2, timeout=20)
        attempts: list[int] = []

        def go_home(doctor: int) -> Callable[[], bool]:
            is_first = iter([True])

            def work() -> bool:
                attempts.append(doctor)
                [(others,)] = sql("SELECT count(*) FROM doctor WHERE on_call AND id <> %s", doctor)
                if next(is_first, False):
                    both_have_read.wait()
                if others:
                    sql("UPDATE doctor SET on_call = false WHERE id = %s", doctor)
                return bool(others)

            return lambda: serializable(work, rng=RNG)

        went_home = together(go_home(1), go_home(2))
        assert sorted(map(bool, went_home)) == [False, True]
        assert sql("SELECT count(*) FROM doctor WHERE on_call") == [(1,)]
        assert len(attempts) >= 3  # the second may collide again with a first that has not committed yet

    def test_retries_a_deadlock(self) -> None:
        both_have_locked = threading.Barrier(2, timeout=20)
        attempts: list[int] = []

        def visit(first: int, second: int) -> Callable[[], None]:
            is_first = iter([True])

            def work() -> None:
                attempts.append(first)
                sql("SELECT 1 FROM doctor WHERE id = %s FOR UPDATE", first)
                if next(is_first, False):
                    both_have_locked.wait()
                sql("SELECT 1 FROM doctor WHERE id = %s FOR UPDATE", second)
                sql("UPDATE doctor SET visits = visits + 1 WHERE id = %s", first)

            return lambda: serializable(work, rng=RNG)

        together(visit(1, 2), visit(2, 1))
        assert sql("SELECT id, visits FROM doctor ORDER BY id") == [(1, 1), (2, 1)]
        assert len(attempts) >= 3

    def test_loses_no_update_among_many(self) -> None:
        def visit() -> None:
            [(visits,)] = sql("SELECT visits FROM doctor WHERE id = 1")
            sql("UPDATE doctor SET visits = %s WHERE id = 1", int(str(visits)) + 1)

        together(*[lambda: [serializable(visit, attempts=1000, rng=RNG) for _ in range(10)]] * 4)
        assert sql("SELECT visits FROM doctor WHERE id = 1") == [(40,)]

    def test_gives_up_with_the_last_error(self) -> None:
        attempts: list[int] = []

        def collide() -> None:
            attempts.append(1)
            sql("DO $$ BEGIN RAISE EXCEPTION 'always' USING ERRCODE = 'serialization_failure'; END $$")

        with pytest.raises(OperationalError, match="always"):
            serializable(collide, attempts=3, rng=RNG)
        assert len(attempts) == 3

    def test_retries_an_error_that_was_raised_from_a_collision(self) -> None:
        outcomes = iter(["40P01", "40001", ""])

        def work() -> str:
            state = next(outcomes)
            try:
                if state:
                    sql(f"DO $$ BEGIN RAISE EXCEPTION 'once' USING ERRCODE = '{state}'; END $$")
            except Error as error:
                raise RuntimeError("the function's own words") from error
            return "done"

        assert serializable(work, rng=RNG) == "done"

    def test_raises_other_errors_at_once_and_undoes_the_work(self) -> None:
        attempts: list[int] = []

        def fail() -> None:
            attempts.append(1)
            sql("DELETE FROM doctor")
            raise KeyError("no")

        with pytest.raises(KeyError):
            serializable(fail, rng=RNG)
        assert len(attempts) == 1
        assert sql("SELECT count(*) FROM doctor") == [(2,)]

    def test_refuses_to_nest(self) -> None:
        with transaction.atomic(), pytest.raises(NestedTransaction, match='another transaction of "default"'):
            serializable(lambda: None, rng=RNG)
        with pytest.raises(NestedTransaction):
            serializable(lambda: serializable(lambda: None, rng=RNG), rng=RNG)

    def test_refuses_to_try_less_than_once(self) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            serializable(lambda: None, attempts=0, rng=RNG)


class TestOnCommitHooks:
    def test_open_transactions_as_they_were_before(self) -> None:
        seen: list[object] = []

        def look() -> None:
            with transaction.atomic():
                seen.extend(sql("SHOW transaction_isolation"))

        serializable(lambda: transaction.on_commit(look), rng=RNG)
        assert seen == [("read committed",)]

    def test_run_once_for_the_attempt_that_committed(self) -> None:
        outcomes = iter(["first", "second"])
        hooks: list[str] = []

        def work() -> None:
            outcome = next(outcomes)
            transaction.on_commit(lambda: hooks.append(outcome))
            if outcome == "first":
                sql("DO $$ BEGIN RAISE EXCEPTION 'once' USING ERRCODE = '40001'; END $$")

        serializable(work, rng=RNG)
        assert hooks == ["second"]

    def test_that_collide_do_not_run_the_committed_work_again(self) -> None:
        attempts: list[int] = []

        def work() -> None:
            attempts.append(1)
            sql("UPDATE doctor SET visits = visits + 1 WHERE id = 1")
            transaction.on_commit(lambda: sql("DO $$ BEGIN RAISE EXCEPTION 'late' USING ERRCODE = '40001'; END $$"))

        with pytest.raises(OperationalError, match="late"):
            serializable(work, rng=RNG)
        assert (len(attempts), sql("SELECT visits FROM doctor WHERE id = 1")) == (1, [(1,)])


class TestGathered:
    def test_words_of_a_transaction_are_delivered_together_and_those_of_a_rollback_never(self) -> None:
        delivered: list[list[str]] = []
        gathered = Gathered(delivered.append)
        with transaction.atomic():
            gathered.add(["b", "a"])
            with transaction.atomic():
                gathered.add(["c"])
                transaction.set_rollback(True)
            gathered.add(["a", "d"])
            gathered.add([])
            assert delivered == []
        assert delivered == [["a", "b", "d"]]

    def test_what_delivering_raises_is_logged_and_words_after_it_go_out(self, caplog: pytest.LogCaptureFixture) -> None:
        delivered: list[list[str]] = []

        def deliver(words: list[str]) -> None:
            if "bad" in words:
                raise RuntimeError("nobody hears")
            delivered.append(words)

        gathered = Gathered(deliver)
        with transaction.atomic():
            gathered.add(["bad"])
        assert "nobody hears" in caplog.text
        gathered.add(["good"])
        assert delivered == [["good"]]


class TestCollided:
    def test_tells_collisions_from_other_errors(self) -> None:
        with pytest.raises(Error) as caught:
            sql("SELECT 1/0")
        assert not collided(caught.value)
        assert not collided(ValueError())


@pytest.mark.parametrize(("waits_s", "tries"), [(None, 2), (0.0, 1), (60.0, 2)])
def test_a_lock_that_was_lacking_is_asked_for_again_unless_the_process_waits_for_none_so_long(
    monkeypatch: pytest.MonkeyPatch, waits_s: float | None, tries: int
) -> None:
    """However slow the rest of it was: a ceiling that was moved slowly was not moved once more (seed 4101)."""
    if waits_s is not None:
        monkeypatch.setitem(connection.settings_dict, "LOCK_S", waits_s)
    count = 0

    @retried
    def lacks_it_once() -> None:
        nonlocal count
        count += 1
        if count == 1:
            with connection.cursor() as cursor:
                cursor.execute("DO $$ BEGIN RAISE lock_not_available; END $$")

    if tries == 1:
        with pytest.raises(OperationalError):
            lacks_it_once()
    else:
        lacks_it_once()
    assert count == tries
