"""Topics are published after the commit, each once, and never when nothing was committed."""

import contextlib
import itertools
import json
import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries

from live import errors, operations
from tests.live.integration.support import listening

pytestmark = pytest.mark.django_db(transaction=True)


def topics(payloads: list[str]) -> list[list[str]]:
    """The topics of each message."""
    return [json.loads(payload)["message"]["topics"] for payload in payloads]


class TestTouch:
    def test_publishes_all_topics_of_a_transaction_in_one_message_each_once(self) -> None:
        with listening() as notifications:
            with transaction.atomic():
                operations.touch("job:7", "jobs")
                with transaction.atomic():
                    operations.touch("jobs", "queue:images")
                operations.touch("job:7")
                before = notifications()
            after = notifications()
        assert before == []
        assert topics(after) == [["job:7", "jobs", "queue:images"]]

    def test_publishes_nothing_after_a_rollback(self) -> None:
        with listening() as notifications:
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                operations.touch("job:7")
                raise ZeroDivisionError
            with transaction.atomic():
                operations.touch("job:8")
            assert topics(notifications()) == [["job:8"]]

    def test_forgets_the_topics_of_a_savepoint_that_was_rolled_back(self) -> None:
        with listening() as notifications:
            with transaction.atomic():
                operations.touch("job:1")
                with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                    operations.touch("job:2")
                    raise ZeroDivisionError
                operations.touch("job:3")
            assert topics(notifications()) == [["job:1", "job:3"]]

    def test_publishes_outside_of_the_transaction(self) -> None:
        """A NOTIFY inside it would hold a lock of the whole database until the commit is flushed."""
        in_transaction = []
        with listening():

            def look(execute: Callable[..., object], sql: str, *rest: object) -> object:
                if sql.startswith("NOTIFY"):
                    in_transaction.append(connection.in_atomic_block)
                return execute(sql, *rest)

            with connection.execute_wrapper(look), transaction.atomic():
                operations.touch("job:7")
        assert in_transaction == [False]

    def test_costs_one_round_trip_however_many_topics(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        many = [f"job:{n}" for n in range(3000)]
        with listening() as notifications:
            with django_assert_num_queries(1):
                operations.touch(*many)
            messages = topics(notifications())
        assert len(messages) > 1
        assert sorted(itertools.chain.from_iterable(messages)) == sorted(many)

    def test_publishes_at_once_outside_a_transaction(self) -> None:
        with listening() as notifications:
            operations.touch("job:7")
            assert topics(notifications()) == [["job:7"]]

    def test_says_nothing_without_topics(self) -> None:
        with listening() as notifications:
            operations.touch()
            assert notifications() == []

    def test_carries_whatever_characters_a_name_has(self) -> None:
        odd = ["queue:Bilder größer 🖼", "queue:a\nb", "queue:'; --", 'queue:"', "queue:\ud800"]
        with listening() as notifications:
            operations.touch(*odd)
            assert topics(notifications()) == [sorted(odd)]

    def test_works_in_a_thread_without_an_event_loop(self) -> None:
        def work() -> None:
            operations.touch("job:7")
            connection.close()

        with listening() as notifications:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert topics(notifications()) == [["job:7"]]

    def test_keeps_the_transactions_of_two_threads_apart(self) -> None:
        touched, committed = threading.Event(), threading.Event()

        def other() -> None:
            with transaction.atomic():
                operations.touch("other")
                touched.set()
                committed.wait(10)
            connection.close()

        with listening() as notifications:
            thread = threading.Thread(target=other)
            thread.start()
            touched.wait(10)
            with transaction.atomic():
                operations.touch("mine")
            first = notifications()
            committed.set()
            thread.join()
            assert (topics(first), topics(notifications())) == ([["mine"]], [["other"]])

    def test_never_fails_the_write_that_it_follows(self, caplog: pytest.LogCaptureFixture) -> None:
        def refuse(execute: Callable[..., object], sql: str, *rest: object) -> object:
            raise ConnectionResetError("the network is down")

        with listening() as notifications:
            with connection.execute_wrapper(refuse):
                operations.touch("job:7")
            assert notifications() == []
        assert [record.name for record in caplog.records if "Could not publish" in record.message] == ["live"]

    @pytest.mark.parametrize("topic", ["", "work:*", "x" * 1001])
    def test_refuses_what_is_no_topic(self, topic: str) -> None:
        with pytest.raises(errors.BadTopic):
            operations.touch("job:1", topic)
