"""A worker's calls, over either link, as a history has them."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jobfarm_client.errors import Refused, Unreachable
from jobfarm_worker.protocol import Call
from tests.histories import recording, worker_calls
from tests.histories.recording import Recorder

LEASE = "3-" + "0" * 32
LOST = {"id": 6, "error": "lease_lost", "message": "It was lost."}


def recorded(path: Path, call: Call, answer: dict[str, Any] | Exception) -> list[tuple[Any, ...]]:
    """What is written down of this call, given its answer or what it raised."""

    async def send(*_: object, **__: object) -> dict[str, Any]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with path.open("w") as file:
        sending = worker_calls._recorded(send, Recorder(file, process="w", refuses=worker_calls.is_refusal), "w1")
        with suppress(Refused, Unreachable):
            assert asyncio.run(sending(None, call, timeout_s=1)) == answer
    return [(one.call, one.outcome, one.job, one.fence, one.answer) for one in recording.calls([path])]


@pytest.mark.parametrize(
    ("call", "answer", "lines"),
    [
        (Call(verb="hello"), {}, []),
        (Call(verb="claim"), {"jobs": [{"id": 5, "fence": 3}]}, [("claim", "ok", 5, 3, None)]),
        (Call(verb="claim", body={"wait": 20}), {"jobs": []}, []),  # it waits for an answer, and no job does
        (Call(verb="submit", job=5, body={"lease": LEASE, "position": 0}), {"id": 9}, [("child", "ok", 5, 3, None)]),
        (Call(verb="claim"), Unreachable(), [("claim", "unknown", None, None, None)]),
        (
            Call(verb="finish", job=5, body={"lease": LEASE}), {"status": "success", "jobs": [{"id": 7, "fence": 1}]},
            [("finish", "ok", 5, 3, "success"), ("claim", "ok", 7, 1, None)],
        ),
        (
            Call(verb="finish", job=5, body={"lease": LEASE, "claim_next": 1}), Unreachable(),
            [("finish", "unknown", 5, 3, None), ("claim", "unknown", None, None, None)],
        ),
        (
            Call(verb="finish", job=5, body={"lease": LEASE}),
            Refused(status=409, code="lease_lost", message="", details={}), [("finish", "failed", 5, 3, "lease_lost")],
        ),
        (
            Call(verb="release", job=5, body={"lease": LEASE}),
            Refused(status=503, code="server_busy", message="", details={}), [("release", "unknown", 5, 3, None)],
        ),
        (
            Call(verb="finish_many", body={"finished": [{"id": 5, "lease": LEASE}, {"id": 6, "lease": LEASE}]}),
            {"finished": [{"id": 5, "status": "pending"}, LOST], "jobs": []},
            [("finish", "ok", 5, 3, "pending"), ("finish", "failed", 6, 3, "lease_lost")],
        ),
        (
            Call(verb="heartbeat_many", body={"jobs": [{"id": 5, "lease": LEASE}, {"id": 6, "lease": LEASE}]}),
            {"jobs": [{"id": 5, "lease_expires_at": "soon"}, LOST]},
            [("report", "ok", 5, 3, None), ("report", "failed", 6, 3, "lease_lost")],
        ),
        (Call(verb="output", job=5, body={"lease": LEASE}), {"next_seq": 1}, [("report", "ok", 5, 3, None)]),
        (Call(verb="release", job=5, body={"lease": LEASE}), {"status": "pending"}, [("release", "ok", 5, 3, None)]),
        (
            Call(verb="unclaim", body={"jobs": [{"id": 5, "lease": LEASE}, {"id": 6, "lease": LEASE}]}),
            {"unclaimed": [6]}, [("withdraw", "ok", 5, 3, "kept"), ("withdraw", "ok", 6, 3, "withdrawn")],
        ),
    ],
)  # fmt: skip
def test_each_is_written_down(tmp_path: Path, call: Call, answer: Any, lines: list[tuple[Any, ...]]) -> None:
    assert recorded(tmp_path / "calls", call, answer) == lines


def test_what_an_attempt_waits_for_and_what_a_claim_brings_are_written_down(tmp_path: Path) -> None:
    wait = {"signal": "go", "until": "2030-01-01T00:00:00+00:00"}
    call = Call(verb="finish", job=5, body={"lease": LEASE, "outcome": "suspended", "wait": wait})
    brought = {"signal": {"name": "go", "data": 1}, "after": [{"id": 2, "status": "success", "result": "long"}]}
    recorded(tmp_path / "calls", call, {"status": "pending", "jobs": [{"id": 5, "fence": 4, **brought}]})
    end, claim = recording.calls([tmp_path / "calls"])
    assert end.more["waits"] == {"5": {**wait, "until_s": 1893456000.0}}
    assert (claim.more["signal"], claim.more["after"]) == (brought["signal"], [{"id": 2, "status": "success"}])
