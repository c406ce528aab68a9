"""The worker's WebSocket while the row of a job is locked by another session: the other jobs go on."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from django.db import transaction
from websockets.sync.client import ClientConnection

from jobs.models import Live
from tests import farm
from tests.api.edges.callers import PATIENCE_S, Crew, ask, messages_of

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
        finish = {"type": "finish", "ref": "ended", "outcome": "success", **ended}
        socket.send(json.dumps(finish))
        farm.until(farm.waiting_for_locks, what="the finish")
        socket.send(json.dumps({"type": "output", "ref": "behind", "seq": 0, "text": "late", **ended}))
        socket.send(json.dumps({"type": "output", "ref": 1, "seq": 0, "text": "Hello", **runs}))
        socket.send(json.dumps({"type": "heartbeat", "ref": 2, **runs}))
        both = [{"id": of["job"], "lease": of["lease"]} for of in (ended, runs)]
        socket.send(json.dumps({"type": "heartbeat_many", "ref": 3, "jobs": both}))
        answers = {answer["ref"]: answer for answer in islice(messages_of(socket), 5)}
    assert answers[1]["next_seq"] == 1
    assert answers[2]["lease_expires_at"]
    renewed = [entry["id"] for entry in answers[3]["jobs"] if "lease_expires_at" in entry]
    assert renewed == [locked["id"], other["id"]]
    assert [ref for ref in answers if isinstance(ref, str)] == ["ended", "behind"]
    for waited in ("ended", "behind"):  # neither longer than half a second: they are to be sent again
        assert (answers[waited]["status"], answers[waited]["error"]) == (503, "unavailable")
    assert ask(socket, **finish)["status"] == "success"


def test_a_finish_of_several_of_which_one_is_locked_is_to_be_made_one_by_one(socket: ClientConnection) -> None:
    farm.submit(4, "chat")
    locked, *others = ask(socket, type="claim", ref=0, limit=3)["jobs"]
    entries = [{"id": job["id"], "lease": job["lease"], "outcome": "success"} for job in (locked, *others)]
    with transaction.atomic():
        Live.objects.select_for_update().get(pk=locked["id"])
        refused = ask(socket, type="finish_many", ref=1, finished=entries, claim_next=1)
        assert (refused["status"], refused["error"]) == (409, "some_locked")
        alone = [{"type": "finish", "job": entry.pop("id"), **entry} for entry in entries]
        answers = [ask(socket, **finish) for finish in alone]
        assert [answer["status"] for answer in answers] == [503, "success", "success"]
        assert len(ask(socket, type="claim", ref=5)["jobs"]) == 1
    assert ask(socket, **alone[0])["status"] == "success"


def test_output_of_a_job_whose_row_is_locked_keeps_no_other_stream_waiting(socket: ClientConnection) -> None:
    farm.submit(2, "chat")
    locked, other = ask(socket, type="claim", ref=0, limit=2)["jobs"]
    with transaction.atomic():
        Live.objects.select_for_update().get(pk=locked["id"])
        for seq in range(20):
            for ref, job in (("locked", locked), ("other", other)):
                about = {"ref": ref, "job": job["id"], "lease": job["lease"]}
                socket.send(json.dumps({"type": "output", "seq": seq, "text": "x", **about}))
        answers: dict[str, list[dict[str, Any]]] = {"locked": [], "other": []}
        while len(answers["other"]) < 20:
            answer = next(messages_of(socket))
            answers[answer["ref"]].append(answer)
        stored = [answer for answer in answers["locked"] if "next_seq" in answer]
    assert [answer.get("next_seq") for answer in answers["other"]] == [n + 1 for n in range(20)]
    assert stored == []
    for _ in range(20 - len(answers["locked"])):
        assert json.loads(socket.recv(PATIENCE_S))["ref"] == "locked"
    for seq in range(20):  # those that were refused meanwhile are sent again, the others are stored once
        again = ask(socket, type="output", seq=seq, text="x", job=locked["id"], lease=locked["lease"])
        assert again["next_seq"] > seq


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
