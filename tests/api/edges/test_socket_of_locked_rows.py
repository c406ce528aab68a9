"""The worker's WebSocket while the row of a job is locked by another session: the other jobs go on."""

import json
from collections.abc import Iterator

import pytest
from django.db import transaction
from websockets.sync.client import ClientConnection

from jobs.models import Live
from jobs.operations import report
from tests import farm
from tests.api.edges.callers import PATIENCE_S, Crew, ask

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def socket(crew: Crew) -> Iterator[ClientConnection]:
    with crew.socket() as open_socket:
        yield open_socket


def test_calls_about_one_job_whose_row_is_locked_hold_up_no_other_jobs_stream_or_lease(
    socket: ClientConnection,
) -> None:
    farm.submit(2, "chat")
    locked, other = ask(socket, type="claim", ref=0, limit=2)["jobs"]
    ended = {"job": locked["id"], "lease": locked["lease"]}
    runs = {"job": other["id"], "lease": other["lease"]}
    assert ask(socket, type="heartbeat", ref="confirmed", **ended)["lease_expires_at"]
    with transaction.atomic():
        Live.objects.select_for_update().get(pk=locked["id"])
        socket.send(json.dumps({"type": "finish", "ref": "ended", "outcome": "success", **ended}))
        farm.until(farm.waiting_for_locks, what="the finish")
        socket.send(json.dumps({"type": "output", "ref": "behind", "seq": 0, "text": "late", **ended}))
        assert ask(socket, type="output", ref=1, seq=0, text="Hello", **runs)["next_seq"] == 1
        assert ask(socket, type="heartbeat", ref=2, **runs)["lease_expires_at"]
        both = [{"id": of["job"], "lease": of["lease"]} for of in (ended, runs)]
        renewed = ask(socket, type="heartbeat_many", ref=3, jobs=both)["jobs"]
        assert [entry["id"] for entry in renewed if "lease_expires_at" in entry] == [locked["id"], other["id"]]
    answers = [json.loads(socket.recv(PATIENCE_S)) for _ in range(2)]
    assert [(answer["ref"], answer.get("error")) for answer in answers] == [("ended", None), ("behind", "lease_lost")]


def test_output_of_a_job_whose_row_is_locked_keeps_no_other_stream_waiting(
    socket: ClientConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LOCKED_MS", 20_000)  # the other's twenty pieces may take longer than half a second
    farm.submit(2, "chat")
    locked, other = ask(socket, type="claim", ref=0, limit=2)["jobs"]
    with transaction.atomic():
        Live.objects.select_for_update().get(pk=locked["id"])
        for seq in range(20):
            for ref, job in (("locked", locked), ("other", other)):
                about = {"ref": ref, "job": job["id"], "lease": job["lease"]}
                socket.send(json.dumps({"type": "output", "seq": seq, "text": "x", **about}))
        before = [json.loads(socket.recv(PATIENCE_S)) for _ in range(20)]
    assert [(answer["ref"], answer.get("next_seq")) for answer in before] == [("other", n + 1) for n in range(20)]
    after = [json.loads(socket.recv(PATIENCE_S)) for _ in range(20)]
    assert [(answer["ref"], answer.get("next_seq")) for answer in after] == [("locked", n + 1) for n in range(20)]


def test_output_of_many_jobs_whose_rows_are_locked_keeps_no_lease_waiting(socket: ClientConnection) -> None:
    farm.submit(6, "chat")
    other, *locked = ask(socket, type="claim", ref=0, limit=6)["jobs"]
    with transaction.atomic():
        assert len(Live.objects.select_for_update().filter(pk__in=[job["id"] for job in locked])) == 5
        for job in locked:
            about = {"job": job["id"], "lease": job["lease"]}
            socket.send(json.dumps({"type": "output", "ref": "locked", "seq": 0, "text": "x", **about}))
        farm.until(farm.waiting_for_locks, what="the output")
        assert ask(socket, type="heartbeat", ref=1, job=other["id"], lease=other["lease"])["lease_expires_at"]
    answers = [json.loads(socket.recv(PATIENCE_S)) for _ in locked]
    assert {answer["ref"] for answer in answers} == {"locked"}
