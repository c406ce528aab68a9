"""The jobs of the small farm, and the verbs of the worker protocol with their repeats (docs/api.md)."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LATER = "1999-12-31T23:59:59Z"  # the farm's clock is not the worker's


@dataclass(kw_only=True)
class StoredJob:
    """What the farm knows of a job."""

    id: int
    kind: str
    payload: Any
    queue: str = "default"
    retry_when_lost: bool = True
    max_attempts: int = 3
    has_ceiling: bool = False
    is_shared: bool = False
    status: str = "pending"
    attempt: int = 0
    fence: int = 0
    lease: str = ""
    is_confirmed: bool = False
    lost_because: str = "unknown"
    finished_by: str = ""  # the lease that ended it, or gave it back
    pieces: list[str] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    checkpoint: Any = None
    result: Any = None
    error: str = ""
    retryable: bool | None = None
    finishes: int = 0
    children: list[tuple[Any, ...]] = field(default_factory=list)  # position, kind, payload
    counted: int = 0  # children, as the checkpoint has it
    waits: Any = None
    beats: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class SayNo(Exception):
    """A refusal in the farm's error form."""

    def __init__(self, status: int, error: str, /, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, "message": f"No: {error}.", **more}


class Jobs:
    """Jobs in memory and what a worker may say about them. Every verb is counted, and its body kept."""

    def __init__(self) -> None:
        self.jobs: dict[int, StoredJob] = {}
        self.calls: Counter[str] = Counter()
        self.bodies: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.refusals: defaultdict[str, list[SayNo]] = defaultdict(list)
        self.heartbeat_every = 20.0
        self.is_drained = False
        self.most_held = 0  # jobs of queues with a ceiling that were in progress at once
        self.refused_leases: list[str] = []  # verbs that named a lease which is not good any more
        self._taken_by: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)  # request: jobs and leases
        self._lock = threading.RLock()

    def answer(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Do what was said; raises SayNo."""
        with self._lock:
            self.calls[verb] += 1
            self.bodies[verb].append(body)
            if self.refusals[verb]:
                raise self.refusals[verb].pop(0)
            try:
                answered: dict[str, Any] = getattr(self, f"_{verb}")(body)
            except SayNo:
                self.refused_leases.append(verb)
                raise
            return answered

    def take_away(self, job: StoredJob) -> None:
        """The lease is lost, and nobody is told."""
        job.lease, job.lost_because = "somebody-else", "taken_over"

    def take_back(self, job: StoredJob) -> None:
        """The lease ran out: the job waits again."""
        job.lease, job.status, job.lost_because = "", "pending", "taken_back"

    def _hello(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"worker": "w", "queues": ["default"], "drained": self.is_drained}

    def _claim(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.is_drained:
            return {"jobs": [], "drained": True}
        request = body.get("request_id", "")
        if self._taken_by[request]:
            return {"jobs": self._once_more(request)}
        waiting = [job for job in self.jobs.values() if job.status == "pending"]
        wanted = [job for job in waiting if job.queue in body.get("queues", [job.queue])]
        taken = [self._take(job, request) for job in wanted[: body["limit"]]]
        held = [job for job in self.jobs.values() if job.has_ceiling and job.status == "in_progress"]
        self.most_held = max(self.most_held, len(held))
        return {"jobs": taken}

    def _once_more(self, request: str) -> list[dict[str, Any]]:
        """What this request took, as far as it stands and no call has named it."""
        taken = [(self.jobs[id_], lease) for id_, lease in self._taken_by[request]]
        return [self._leased(job) for job, lease in taken if job.lease == lease and not job.is_confirmed]

    def _take(self, job: StoredJob, request: str) -> dict[str, Any]:
        job.attempt, job.fence = job.attempt + 1, job.fence + 1
        job.status, job.lease, job.is_confirmed = "in_progress", f"{job.fence}-{job.id}", False
        job.pieces = []
        if request:
            self._taken_by[request].append((job.id, job.lease))
        return self._leased(job)

    def _leased(self, job: StoredJob) -> dict[str, Any]:
        names = (
            "id",
            "kind",
            "queue",
            "payload",
            "attempt",
            "fence",
            "max_attempts",
            "lease",
            "retry_when_lost",
            "has_ceiling",
            "is_shared",
            "checkpoint",
        )
        fields = {name: getattr(job, name) for name in names} | {"children": job.counted}
        return {**fields, "lease_expires_at": LATER, "heartbeat_every": self.heartbeat_every}

    def _held(self, body: dict[str, Any]) -> StoredJob:
        job = self.jobs[body["job"]]
        if job.status == "in_progress" and job.lease == body["lease"]:
            job.is_confirmed = True
            return job
        raise SayNo(409, "lease_lost", **self._why_lost(job))

    def _why_lost(self, job: StoredJob) -> dict[str, str]:
        if job.status == "canceled":
            return {"reason": "canceled"}
        if job.status in {"success", "failed", "timed_out"}:
            return {"reason": "ended", "job_status": job.status}
        return {"reason": job.lost_because}

    def _heartbeat(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        job.beats += 1
        if "progress" in body or "detail" in body:
            job.reports.append({name: body.get(name) for name in ("progress", "detail")})
        return {"lease_expires_at": LATER}

    def _heartbeat_many(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"jobs": [self._each(self._heartbeat, entry, "heartbeat_many") for entry in body["jobs"]]}

    def _each(self, act: Callable[[Any], dict[str, Any]], entry: dict[str, Any], verb: str) -> dict[str, Any]:
        try:
            return {"id": entry["id"], **act({"job": entry["id"], **entry})}
        except SayNo as no:
            self.refused_leases.append(verb)
            return {"id": entry["id"], **no.body}

    def _checkpoint(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        job.checkpoint, job.counted = body["value"], body.get("children", 0)
        return {"lease_expires_at": LATER}

    def _submit(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        child = (body["position"], body["kind"], body["payload"])
        if child not in job.children:
            job.children.append(child)
        return {"id": 1000 * job.id + body["position"]}

    def _output(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._held(body)
        if body["seq"] > len(job.pieces):
            raise SayNo(409, "output_gap", next_seq=len(job.pieces))
        if body["seq"] == len(job.pieces):
            job.pieces.append(body["text"])
        return {"next_seq": len(job.pieces)}

    def _file(self, body: dict[str, Any]) -> dict[str, Any]:
        self._held(body).files[body["name"]] = body["data"]
        return {"name": body["name"]}

    def _finish(self, body: dict[str, Any]) -> dict[str, Any]:
        job, request = self.jobs[body["job"]], f"finish {body['lease']}"
        if job.finished_by == body["lease"]:
            return {"status": job.status, "jobs": self._once_more(request)}
        self._held(body)
        job.status, job.finished_by = body["outcome"], body["lease"]
        job.waits = body.get("wait")
        job.result, job.error = body.get("result"), body.get("error", "")
        job.retryable = body.get("retryable")
        job.finishes += 1
        following = self._claim({"limit": body.get("claim_next", 0), "request_id": request})
        return {"status": job.status, **following}

    def _release(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self.jobs[body["job"]]
        if job.finished_by != body["lease"]:
            job = self._held(body)
            job.status, job.finished_by = "pending", body["lease"]
        return {"status": "pending"}

    def _finish_many(self, body: dict[str, Any]) -> dict[str, Any]:
        request = body["request_id"]
        entries = [self._each(self._finish, entry, "finish_many") for entry in body["finished"]]
        for entry in entries:
            entry.pop("jobs", None)
        if self._taken_by[request]:
            return {"finished": entries, "jobs": self._once_more(request)}
        following = self._claim({"limit": body.get("claim_next", 0), "request_id": request})
        return {"finished": entries, **following}

    def _unclaim(self, body: dict[str, Any]) -> dict[str, Any]:
        held = [(self.jobs[entry["id"]], entry["lease"]) for entry in body["jobs"]]
        back = [job for job, lease in held if job.lease == lease and not job.is_confirmed]
        for job in back:
            job.status, job.lease, job.attempt = "pending", "", job.attempt - 1
        return {"unclaimed": [job.id for job in back]}
