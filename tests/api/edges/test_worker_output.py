"""Output over the worker's WebSocket: pieces that come while others are stored are stored together."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from websockets.sync.client import ClientConnection

from jobs import operations
from jobs.models import OutputChunk
from tests import farm
from tests.api.edges.callers import PATIENCE_S, Crew

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def socket(crew: Crew) -> Iterator[ClientConnection]:
    with crew.socket() as open_socket:
        yield open_socket


@pytest.fixture
def held(crew: Crew) -> list[dict[str, Any]]:
    """Twenty jobs that the worker holds."""
    operations.submit_many([operations.NewJob(kind="chat", payload=n) for n in range(20)])
    return crew.claim(limit=20)


@contextmanager
def _locked() -> Iterator[None]:
    """Whoever writes output waits until the end of the block, also where it passes rows that are locked."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE jobs_outputchunk IN SHARE MODE")
        yield


def _send(socket: ClientConnection, job: dict[str, Any], seq: int, text: str) -> None:
    about = {"type": "output", "job": job["id"], "lease": job["lease"]}
    socket.send(json.dumps({**about, "ref": [job["id"], seq], "seq": seq, "text": text}))


def _answers(socket: ClientConnection, count: int) -> dict[tuple[int, int], dict[str, Any]]:
    messages = (json.loads(socket.recv(PATIENCE_S)) for _ in range(1000))
    named = ((tuple(message["ref"]), message) for message in messages if "ref" in message)
    return dict(next(named) for _ in range(count))


def _sent_while_first_waits(
    socket: ClientConnection, held: Sequence[dict[str, Any]], pieces: Sequence[tuple[int, int, str]]
) -> dict[tuple[int, int], dict[str, Any]]:
    """The answers to a piece of the first job, which has to wait, and to these (place of a job, seq, text) behind it.
    The last message is one that is answered at once, so all have come when the lock is given up."""
    with _locked():
        _send(socket, held[0], 0, "first")
        farm.until(farm.waiting_for_locks, what="the first piece")
        for place, seq, text in pieces:
            _send(socket, held[place], seq, text)
        socket.send("{")
        while json.loads(socket.recv(PATIENCE_S))["type"] != "error":
            pass
    return _answers(socket, len(pieces) + 1)


def _transactions() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM jobs_outputchunk")
        return int(cursor.fetchone()[0])


def test_of_many_jobs_is_stored_together(socket: ClientConnection, held: list[dict[str, Any]]) -> None:
    pieces = [(place, 0, f"of {place}") for place in range(1, 20)]
    answers = _sent_while_first_waits(socket, held, pieces)
    assert {answer["next_seq"] for answer in answers.values()} == {1}
    assert {answer["type"] for answer in answers.values()} == {"output"}
    stored = dict(OutputChunk.objects.values_list("job", "text"))
    assert [stored[job["id"]] for job in held] == ["first", *(text for _, _, text in pieces)]
    # One by a thread, one by the loop, which waited, and what came meanwhile: where processors are busy, in parts.
    assert _transactions() <= 6, "of 20 pieces"


def test_of_one_job_keeps_its_order(socket: ClientConnection, held: list[dict[str, Any]]) -> None:
    pieces = [(place, seq, f"{place}.{seq}") for seq in range(1, 4) for place in (0, 1)]
    pieces = [(1, 0, "1.0"), *pieces]
    answers = _sent_while_first_waits(socket, held, pieces)
    assert {ref[1] + 1 == answer["next_seq"] for ref, answer in answers.items()} == {True}
    for place, first in ((0, "first"), (1, "1.0")):
        rows = OutputChunk.objects.filter(job=held[place]["id"]).order_by("seq").values_list("text", flat=True)
        assert list(rows) == [first, *(f"{place}.{seq}" for seq in range(1, 4))]


def test_that_is_refused_is_answered_beside_what_is_stored(
    socket: ClientConnection, held: list[dict[str, Any]], crew: Crew
) -> None:
    lost = held[2]
    assert crew.post(f"jobs/{lost['id']}/release", lease=lost["lease"]).status_code == 200
    answers = _sent_while_first_waits(socket, held, [(1, 0, "kept"), (2, 0, "lost"), (3, 5, "gap")])
    of = {place: answers[held[place]["id"], seq] for place, seq in ((1, 0), (2, 0), (3, 5))}
    assert of[1]["next_seq"] == 1
    assert [(of[n]["status"], of[n]["error"]) for n in (2, 3)] == [(409, "lease_lost"), (409, "output_gap")]
    assert OutputChunk.objects.count() == 2


@pytest.fixture
def poison(server: Any) -> Iterator[Callable[[], int]]:
    """A trigger that stands for whatever PostgreSQL may refuse of one row; how often it was asked to store that."""
    with connection.cursor() as cursor:
        cursor.execute("""
            CREATE SEQUENCE tries;
            CREATE FUNCTION refuse_poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.text = 'poison' THEN
                    PERFORM nextval('tries');  -- which no rollback takes back
                    RAISE EXCEPTION 'poison' USING ERRCODE = '55P03';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER poison BEFORE INSERT ON jobs_outputchunk FOR EACH ROW EXECUTE FUNCTION refuse_poison();
        """)
    yield _tries
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER poison ON jobs_outputchunk; DROP FUNCTION refuse_poison(); DROP SEQUENCE tries")


def _tries() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tries")
        return int(cursor.fetchone()[0])


def test_that_makes_a_statement_fail_fails_alone(
    socket: ClientConnection, held: list[dict[str, Any]], poison: Callable[[], int]
) -> None:
    answers = _sent_while_first_waits(socket, held, [(1, 0, "kept"), (2, 0, "poison"), (3, 0, "kept")])
    assert answers[held[2]["id"], 0]["status"] == 503
    assert poison() == 2
    assert sorted(OutputChunk.objects.values_list("text", flat=True)) == ["first", "kept", "kept"]


def test_that_fails_is_not_tried_again_where_it_came_alone(
    socket: ClientConnection, held: list[dict[str, Any]], poison: Callable[[], int]
) -> None:
    _send(socket, held[0], 0, "poison")
    assert _answers(socket, 1)[held[0]["id"], 0]["status"] == 503
    assert poison() == 1


def test_before_a_finish_is_stored_before_it(socket: ClientConnection, held: list[dict[str, Any]]) -> None:
    """Other calls stay where they came: what is written before a job's end is of that job."""
    with _locked():
        _send(socket, held[0], 0, "first")
        farm.until(farm.waiting_for_locks, what="the first piece")
        _send(socket, held[1], 0, "last words")
        done = {"type": "finish", "job": held[1]["id"], "lease": held[1]["lease"], "outcome": "success"}
        socket.send(json.dumps({**done, "ref": [0, 0]}))
        _send(socket, held[2], 0, "after")
    answers = _answers(socket, 4)
    assert answers[0, 0]["status"] == "success"
    assert answers[held[1]["id"], 0]["next_seq"] == answers[held[2]["id"], 0]["next_seq"] == 1
