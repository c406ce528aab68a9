"""Payloads and results of many megabytes: never in the database, and one value for whoever submits, works and asks."""

import asyncio
import json
import threading
import tracemalloc
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection, transaction

from accounts import operations as accounts
from core import large_json
from jobfarm_client import Client
from jobfarm_client.wire import put_together
from jobfarm_worker import Job as WorkerJob, Worker
from jobs import operations
from jobs.errors import PayloadTooLarge, QuotaReached, UnknownFile
from jobs.models import Input, Job, ResultFile, Upload
from jobs.models.inputs import PARTS
from jobs.operations import inputs, janitor
from postgres import clock
from tests import farm
from tests.api.edges.callers import Crew, bearer, client
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
MB = 1_000_000
SOUND = "data:audio/wav;base64," + "UklG" * (5 * MB // 4)
LONG: list[Any] = [
    {"prompt": "What is said?", "sound": SOUND},
    {"prompt": "Who?", "rows": [{"n": n, "text": "word " * 20} for n in range(20_000)], "sound": [SOUND]},
    ["x" * 2 * MB, 1],
    "é" * MB,
    {f"name {n}": "value" * 100 for n in range(4_000)},
]


def submit(caller: httpx.Client, payload: Any, **more: Any) -> dict[str, Any]:
    answer = caller.post("/api/v1/jobs", json={"kind": "chat", "payload": payload, **more})
    assert answer.status_code == 201, answer.text[:500]
    job: dict[str, Any] = answer.json()
    return job


def whole(job: dict[str, Any], part: Callable[[str], bytes], *, of: str) -> Any:
    """The payload with its parts, as the API says how."""
    places = [(path, part(file["name"])) for file in job[of] for path in file["at"]]
    return put_together(job["payload"], places)


def in_rows() -> int:
    """Bytes of the longest value of a job that the database holds, as text."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(greatest(length(payload::text), length(inputs::text))) FROM jobs_job")
        [payload] = cursor.fetchone() or [0]
        cursor.execute("SELECT max(length(result::text)) FROM jobs_outcome")
        [result] = cursor.fetchone() or [0]
    return max(payload or 0, result or 0)


class TestAPayload:
    @pytest.mark.parametrize("payload", LONG, ids=range(len(LONG)))
    def test_of_megabytes_is_one_value_for_its_worker_and_its_owner(
        self, server: Server, crew: Crew, ada: User, payload: Any
    ) -> None:
        caller = client(server, ada)
        job, at = submit(caller, payload), "/api/v1/jobs"
        assert whole(job, lambda name: caller.get(f"{at}/{job['id']}/inputs/{name}").content, of="inputs") == payload
        claimed = crew.claim_one()
        path = f"/api/v1/worker/jobs/{claimed['id']}/inputs/"
        lease = {"lease": claimed["lease"]}
        assert whole(claimed, lambda name: crew.http.get(path + name, params=lease).content, of="files") == payload
        assert in_rows() < MB

    def test_that_comes_again_is_stored_once_and_each_owners_own(self, server: Server, ada: User, bob: User) -> None:
        first, second = (submit(client(server, ada), {"sound": SOUND, "n": n}) for n in range(2))
        other = submit(client(server, bob), {"sound": SOUND})
        assert first["inputs"][0]["file"] == second["inputs"][0]["file"] != other["inputs"][0]["file"]
        assert (Upload.objects.count(), Input.objects.count()) == (2, 3)
        mine = f"/api/v1/jobs/{first['id']}/inputs/{first['inputs'][0]['name']}"
        assert client(server, bob).get(mine).status_code == 404
        assert client(server, bob).get(f"/api/v1/files/{first['inputs'][0]['file']}").status_code == 404

    def test_up_to_a_megabyte_stays_in_the_row(self, server: Server, ada: User) -> None:
        job = submit(client(server, ada), {"text": "x" * (MB - 20)})
        assert (job["inputs"], len(job["payload"]["text"])) == ([], MB - 20)
        assert not Upload.objects.exists()

    def test_of_more_than_50_mb_is_refused(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        for size in (50 * MB + 1, 51 * MB):
            content = b'{"kind": "chat", "payload": "' + b"x" * (size - 2) + b'"}'
            answer = caller.post("/api/v1/jobs", content=content, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
        assert not Job.objects.exists()
        assert not Upload.objects.exists()

    def test_names_nobody_elses_part_by_hand(self, server: Server, crew: Crew, ada: User, bob: User) -> None:
        mine = submit(client(server, ada), {"sound": SOUND})
        payload: Any = {"a": mine["payload"]["sound"], "sound": SOUND[:-4] + "AAAA"}
        theirs = submit(client(server, bob), payload)
        assert [file["at"] for file in theirs["inputs"]] == [[["sound"]]]
        crew.claim_one()
        claimed = crew.claim_one()
        path, lease = f"/api/v1/worker/jobs/{claimed['id']}/inputs/", {"lease": claimed["lease"]}
        assert whole(claimed, lambda name: crew.http.get(path + name, params=lease).content, of="files") == payload
        assert crew.http.get(path + mine["inputs"][0]["name"], params=lease).status_code == 404

    def test_goes_along_to_retries_clones_and_children(self, server: Server, crew: Crew, ada: User) -> None:
        caller = client(server, ada)
        job, claimed = submit(caller, {"sound": SOUND}), crew.claim_one()
        child = crew.post(f"jobs/{job['id']}/submit", lease=claimed["lease"], position=0, kind="chat",
                          payload={"part": SOUND})  # fmt: skip
        again = crew.post(f"jobs/{job['id']}/submit", lease=claimed["lease"], position=0, kind="chat",
                          payload={"part": SOUND})  # fmt: skip
        assert child.json()["id"] == again.json()["id"]
        crew.post(f"jobs/{job['id']}/finish", lease=claimed["lease"], outcome="failed", retryable=False)
        made = [caller.post(f"/api/v1/jobs/{job['id']}/retry").json()["id"]]
        made += [operations.clone(job["id"], by=ada).pk, child.json()["id"]]
        kept = Job.objects.whole().in_bulk(made)
        assert [inputs.whole_payload(kept[one]) for one in made] == [
            {"sound": SOUND}, {"sound": SOUND}, {"part": SOUND}
        ]  # fmt: skip
        assert Upload.objects.count() == 1

    def test_in_a_bulk_and_with_a_key_is_taken_as_one_alone(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        body = {"jobs": [{"kind": "chat", "payload": payload} for payload in [*LONG[:1], {}, "é" * MB]]}
        answer = caller.post("/api/v1/jobs/bulk", json=body)
        assert [len(job["inputs"]) for job in answer.json()["jobs"]] == [1, 0, 1]
        keyed = {"Idempotency-Key": "once"}
        first, second = (
            caller.post("/api/v1/jobs", json={"kind": "chat", "payload": LONG[0]}, headers=keyed) for _ in range(2)
        )
        assert first.json()["id"] == second.json()["id"]
        other = caller.post("/api/v1/jobs", json={"kind": "chat", "payload": {"sound": SOUND + "AAAA"}}, headers=keyed)
        assert (other.status_code, other.json()["error"]) == (422, "idempotency_key_reused")

    def test_counts_for_its_owners_quota(self, settings: Any, ada: User) -> None:
        settings.JOBFARM = settings.JOBFARM | {"FILE_BYTES_PER_OWNER": 6 * MB}
        cutting = large_json.Cutting(at=(), over=MB, most=50 * MB, subject="payload")
        operations.submit("chat", large_json.cut({"sound": SOUND}, cutting), owner=ada)
        operations.submit("chat", large_json.cut({"sound": SOUND}, cutting), owner=ada)
        with pytest.raises(QuotaReached):
            operations.submit("chat", large_json.cut({"sound": SOUND + "AAAA"}, cutting), owner=ada)
        assert Job.objects.count() == 2

    def test_of_a_refused_job_is_soon_let_go(self, ada: User) -> None:
        cutting = large_json.Cutting(at=(), over=MB, most=50 * MB, subject="payload")
        payload = large_json.cut({"sound": SOUND}, cutting)
        with pytest.raises(UnknownFile):
            operations.submit("chat", payload, owner=ada, by=ada, files={"more": uuid.uuid4()})
        age = clock.now() - Upload.objects.get().created_at
        assert timedelta(hours=22) < age < timedelta(hours=24)
        operations.submit("chat", payload, owner=ada)
        assert clock.now() - Upload.objects.get().created_at < timedelta(hours=1)

    def test_that_lies_deep_under_long_names_is_refused_before_its_place_is_written(self, ada: User) -> None:
        body: Any = ["x" * 1_001] * 600
        for _ in range(50):
            body = {"n" * 800: body}
        payload = large_json.cut(body, large_json.Cutting(at=(), over=1_000, most=50 * MB, subject="payload"))
        tracemalloc.start()
        with pytest.raises(PayloadTooLarge):
            operations.submit("chat", payload, owner=ada)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 10 * MB

    def test_of_two_bulks_at_once_is_locked_in_one_order(self, ada: User) -> None:
        cutting = large_json.Cutting(at=(), over=1_000, most=MB, subject="payload")
        new = [farm.new_job("chat", large_json.cut({"text": each * 2_000}, cutting), owner=ada) for each in "abcdefgh"]
        operations.submit_many(new)

        def submit_all(those: list[Any]) -> None:
            for _ in range(20):
                with transaction.atomic():
                    operations.submit_many(those)

        farm.at_once(partial(submit_all, new), partial(submit_all, new[::-1]))
        assert Upload.objects.count() == 8

    def test_goes_with_the_last_job_that_has_it(self, server: Server, ada: User) -> None:
        job = submit(client(server, ada), {"sound": SOUND})
        Upload.objects.update(created_at=clock.now() - timedelta(days=2))
        janitor.forget_uploads(10, 0)
        assert Upload.objects.exists()
        farm.end(Job.objects.filter(pk=job["id"]), "success")
        farm.age(Job.objects.filter(pk=job["id"]), 400 * 86_400.0)
        farm.retain()
        janitor.forget_uploads(10, 0)
        assert not Upload.objects.exists()

    def test_whose_row_was_never_written_is_found_and_deleted(self, ada: User, settings: Any, tmp_path: Path) -> None:
        """A crash between the file and its row. In a folder of its own: other tests' files are unknown here too."""
        settings.MEDIA_ROOT = tmp_path
        orphan = default_storage.save(f"{PARTS}/crashed.json", ContentFile(b"{}"))
        later = clock.now() + janitor.OLD_ENOUGH * 2
        assert orphan in janitor.delete_orphaned_files(now=later)
        assert not default_storage.exists(orphan)


class TestAResult:
    @pytest.mark.parametrize("result", LONG, ids=range(len(LONG)))
    @pytest.mark.parametrize("together", [False, True])
    def test_of_megabytes_is_a_file_and_one_value_for_a_client(
        self, server: Server, crew: Crew, ada: User, result: Any, together: bool
    ) -> None:
        job, claimed = submit(client(server, ada), {}), crew.claim_one()
        ending = {"lease": claimed["lease"], "outcome": "success", "result": result}
        for _ in range(2):  # the answer was lost
            if together:
                answer = crew.post("finish", finished=[{"id": job["id"], **ending}]).json()["finished"][0]
            else:
                answer = crew.post(f"jobs/{job['id']}/finish", **ending).json()
            assert answer["status"] == "success"
        _, key = accounts.create_token(ada, name="reader", scopes=["read"])
        with Client(server.url, key) as reader:
            assert reader.job(job["id"]).result == result
        [kept] = ResultFile.objects.all()
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        assert (kept.name, kept.size) == ("whole-result.json", len(text.encode()))
        assert in_rows() < MB

    def test_of_a_lost_lease_is_refused_and_leaves_nothing(self, server: Server, crew: Crew, ada: User) -> None:
        job, claimed = submit(client(server, ada), {}), crew.claim_one()
        farm.lose(Job.objects.get(pk=job["id"]))
        operations.sweep()
        ending = {"lease": claimed["lease"], "outcome": "success", "result": SOUND}
        answer = crew.post(f"jobs/{job['id']}/finish", **ending)
        assert (answer.status_code, answer.json()["error"]) == (409, "lease_lost")
        assert not ResultFile.objects.exists()

    def test_of_more_than_50_mb_is_refused_and_the_job_goes_on(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        answer = crew.post(f"jobs/{job.pk}/finish", lease=lease, outcome="success", result="x" * (50 * MB - 1))
        assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
        assert farm.status(job) == "in_progress"


def test_nothing_is_shown_to_who_has_no_key(server: Server, ada: User) -> None:
    job = submit(client(server, ada), {"sound": SOUND})
    address = f"{server.url}/api/v1/jobs/{job['id']}/inputs/{job['inputs'][0]['name']}"
    assert httpx.get(address).status_code == 401
    assert httpx.get(address, headers=bearer("jft_wrong")).status_code == 401


def test_workers_handlers_and_clients_see_one_value(server: Server, ada: User) -> None:
    """A plain handler and an async one, with the worker's and the client's own code between them and the farm."""
    _, key = operations.create_worker("w", queues=["chat", "image"])
    _, token = accounts.create_token(ada, name="t", scopes=["submit", "read"])
    worker, loop = Worker(server.url, key), asyncio.new_event_loop()

    @worker.handler("chat")
    def plain(job: WorkerJob) -> Any:
        assert not job.inputs
        return {"got": job.payload}

    @worker.handler("image")
    async def later(job: WorkerJob) -> Any:
        return [job.payload]

    thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run()))
    thread.start()
    try:
        with Client(server.url, token) as caller:
            for payload in LONG:
                assert caller.run("chat", payload, wait_s=30) == {"got": payload}
                assert caller.run("image", payload, wait_s=30) == [payload]
    finally:
        loop.call_soon_threadsafe(worker.stop)
        thread.join(15)
        loop.close()
    assert in_rows() < MB
