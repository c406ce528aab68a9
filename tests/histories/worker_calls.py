"""The calls of a worker's process as its two links make them: `record` writes them down from then on."""

import functools
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jobfarm_client.errors import Refused
from jobfarm_worker.links import HttpLink, SocketLink
from jobfarm_worker.protocol import Call
from tests.histories.recording import Open, Part, Recorder

_NAMES: Final = {
    "claim": "claim", "finish": "finish", "finish_many": "finish", "heartbeat": "report", "heartbeat_many": "report",
    "output": "report", "release": "release", "unclaim": "withdraw",
    "submit": "child", "checkpoint": "checkpoint",
}  # fmt: skip
Sends = Callable[..., Any]


def record(folder: Path, *, worker: str) -> None:
    """Write the calls of this process into a file of its own in this folder."""
    file = (folder / f"{worker}.{os.getpid()}.calls").open("w")
    recorder = Recorder(file, process=f"{worker}.{os.getpid()}", refuses=is_refusal)
    for link in (HttpLink, SocketLink):
        link.call = _recorded(link.call, recorder, worker)  # type: ignore[method-assign]


def is_refusal(error: Exception) -> bool:
    """Whether the farm says that it did nothing. A server that breaks may have done it before."""
    return isinstance(error, Refused) and error.status < 500


def _recorded(send: Sends, recorder: Recorder, worker: str) -> Sends:
    @functools.wraps(send)
    async def recorded(link: Any, call: Call, **options: Any) -> dict[str, Any]:
        if call.verb not in _NAMES:
            return await send(link, call, **options)  # type: ignore[no-any-return]
        more = {"claims": bool(call.body.get("claim_next")), **_of_flows(call)}
        with recorder.call(_NAMES[call.verb], worker=worker, parts=_parts(call), **more) as noted:
            answer: dict[str, Any] = await send(link, call, **options)
            note(noted, call, answer)
        return answer

    return recorded


def note(noted: Open, call: Call, answer: Mapping[str, Any]) -> None:
    """Note what a call was answered, of each job."""
    parts = _parts(call)
    match call.verb:
        case "finish":
            noted.answer(*parts[0], answer["status"])
        case "finish_many" | "heartbeat_many":
            entries = answer["finished" if call.verb == "finish_many" else "jobs"]
            for part, entry in zip(parts, entries, strict=True):
                noted.answer(*part, entry.get("error") or entry.get("status", ""), is_refusal="error" in entry)
        case "submit":
            noted.answer(*parts[0], child=answer["id"])
        case "unclaim":
            newest = dict(sorted(parts))  # the answer names jobs, and the call may name an older lease of one beside it
            for job, fence in parts:
                is_taken = job in answer["unclaimed"] and fence == newest[job]
                noted.answer(job, fence, "withdrawn" if is_taken else "kept")
    if call.verb in {"claim", "finish", "finish_many"}:
        _note_claims(noted, answer)


def _parts(call: Call) -> list[Part]:
    """The jobs that a call is about, each with the claim that it speaks for."""
    if call.verb == "claim":
        return [(None, None)]
    named = call.body.get("finished") or call.body.get("jobs") or [{"id": call.job, "lease": call.body["lease"]}]
    return [(one["id"], int(one["lease"].partition("-")[0])) for one in named]


def _note_claims(noted: Open, answer: Mapping[str, Any]) -> None:
    noted.nothing()
    for job in answer.get("jobs") or ():
        noted.answer(job["id"], job["fence"], call="claim", **_brought(job))


def _of_flows(call: Call) -> dict[str, Any]:
    """What it submits, keeps or waits for."""
    match call.verb:
        case "submit":
            return {"position": call.body["position"]}
        case "checkpoint":
            return {"value": call.body["value"]}
    ends = call.body.get("finished") or [{"id": call.job, **call.body}]
    waits = {str(end["id"]): _waited_for(end["wait"]) for end in ends if end.get("outcome") == "suspended"}
    return {"waits": waits} if waits else {}


def _waited_for(wait: Mapping[str, Any]) -> dict[str, Any]:
    moment = {"until_s": datetime.fromisoformat(wait["until"]).timestamp()} if "until" in wait else {}
    return {**wait, **moment}


def _brought(job: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: job[name] for name in ("signal", "checkpoint") if job.get(name) is not None}
    after = [{"id": one["id"], "status": one["status"]} for one in job.get("after") or ()]
    return facts | ({"after": after} if after else {})
