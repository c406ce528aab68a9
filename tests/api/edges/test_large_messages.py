"""A megabyte of result, whatever way its worker writes it down: taken within the limit, refused over it by a socket,
which is not closed for it. Over HTTP it becomes a file (test_large_payloads)."""

import json
from typing import Any

import pytest
from django.conf import settings

from jobs import operations
from jobs.models import Job
from tests.api.edges.callers import Crew, ask, messages_of

MEGABYTE = settings.JOBFARM["PAYLOAD_BYTES"]
BODY = settings.JOBFARM["BODY_BYTES"]
WAYS = ["http", "socket"]


def escaped(character: str, *, stored_bytes: int) -> str:
    """JSON of a text so long when stored, each character written as an escape, as many languages do."""
    units = character.encode("utf-16-be")
    one = "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return '"' + one * ((stored_bytes - 2) // len(character.encode())) + '"'


def finished(crew: Crew, way: str, result: str) -> dict[str, Any]:
    """What the farm says to a finish with this result, written as it is; over the socket it must live on."""
    operations.submit("chat", {})
    job = crew.claim_one()
    fields = f'"lease":"{job["lease"]}","outcome":"success","result":{result}'
    if way == "http":
        path = f"/api/v1/worker/jobs/{job['id']}/finish"
        headers = {"Content-Type": "application/json"}
        stored_answer = crew.http.post(path, content=f"{{{fields}}}".encode(), headers=headers).json()
        return {**stored_answer, "job": job["id"]}
    with crew.socket() as socket:
        socket.send(f'{{"type":"finish","ref":7,"job":{job["id"]},{fields}}}')
        stored_answer = next(answer for answer in messages_of(socket) if answer.get("ref") == 7)
        assert ask(socket, type="claim", ref=8)["ref"] == 8
        return {**stored_answer, "job": job["id"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("character", ["e", "é", "語", "😀"])
def test_a_megabyte_in_escapes_is_taken(crew: Crew, way: str, character: str) -> None:
    stored_answer = finished(crew, way, escaped(character, stored_bytes=MEGABYTE))
    assert stored_answer["status"] == "success", stored_answer
    result = Job.objects.whole().get(pk=stored_answer["job"]).result
    assert result == character * ((MEGABYTE - 2) // len(character.encode()))


def test_a_little_more_is_refused(crew: Crew) -> None:
    stored_answer = finished(crew, "socket", escaped("é", stored_bytes=MEGABYTE + 2))
    assert stored_answer["error"] == "too_large"
    assert Job.objects.get(pk=stored_answer["job"]).status == "in_progress"


def test_more_than_any_message_may_be_is_refused(crew: Crew) -> None:
    stored_answer = finished(crew, "socket", json.dumps("x" * BODY))
    assert (stored_answer["error"], stored_answer["limit"]) == ("too_large", BODY)


def test_a_message_is_measured_in_bytes(crew: Crew) -> None:
    stored_answer = finished(crew, "socket", '"' + "語" * (BODY // 3) + '"')
    assert (stored_answer["error"], stored_answer["limit"]) == ("too_large", BODY)
