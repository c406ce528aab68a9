"""Input files over HTTP: upload, look, submit with them, fetch them as a worker and as a person, delete."""

import hashlib
import json
import uuid
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage

from accounts import operations as accounts
from jobs.models import Input, Job, Upload
from tests.api.edges.callers import Crew, bearer, client
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
SOUND = bytes(range(256)) * 40


def upload(caller: httpx.Client, name: str = "sound.ogg", content: bytes = SOUND) -> dict[str, Any]:
    answer = caller.post("/api/v1/files", params={"name": name}, content=content)
    assert answer.status_code == 201, answer.text
    kept: dict[str, Any] = answer.json()
    return kept


def submit(caller: httpx.Client, files: Any, **more: Any) -> httpx.Response:
    return caller.post("/api/v1/jobs", json={"kind": "chat", "payload": {}, "files": files}, **more)


class TestAnUpload:
    def test_answers_what_was_kept(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        kept = upload(caller)
        assert kept.keys() == {"id", "name", "size", "sha256", "expires_at"}
        assert (kept["name"], kept["size"]) == ("sound.ogg", len(SOUND))
        assert kept["sha256"] == hashlib.sha256(SOUND).hexdigest()
        assert caller.get(f"/api/v1/files/{kept['id']}").json() == kept
        with default_storage.open(Upload.objects.get().stored_as) as stored:
            assert stored.read() == SOUND

    def test_is_its_owners_alone(self, server: Server, ada: User, bob: User) -> None:
        kept, others = upload(client(server, ada)), client(server, bob)
        for call in (others.get, others.delete):
            answer = call(f"/api/v1/files/{kept['id']}")
            assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
        assert others.get(f"/api/v1/files/{uuid.uuid4()}").status_code == 404
        assert others.get("/api/v1/files/7").status_code == 404
        assert httpx.post(f"{server.url}/api/v1/files?name=a", content=b"x").status_code == 401

    @pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", ".x", "a b", "a\x00b", "x" * 101])
    def test_of_a_name_that_is_not_plain_is_refused(self, server: Server, ada: User, name: str) -> None:
        answer = client(server, ada).post("/api/v1/files", params={"name": name}, content=b"x")
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid_name")
        assert not Upload.objects.exists()

    def test_larger_than_files_may_be_is_refused_before_it_has_come(self, server: Server, ada: User) -> None:
        _, token = accounts.create_token(ada, name="tests")
        sender = HTTPConnection(server.url.removeprefix("http://"), timeout=20)
        sender.putrequest("POST", "/api/v1/files?name=a")
        for field, value in {**bearer(token), "Content-Length": "50000001"}.items():
            sender.putheader(field, value)
        sender.endheaders()
        answer = sender.getresponse()
        assert (answer.status, json.loads(answer.read())["error"]) == (413, "too_large")
        sender.close()

    def test_larger_than_other_bodies_may_be_is_kept(self, server: Server, ada: User) -> None:
        assert upload(client(server, ada), content=b"x" * 11_000_000)["size"] == 11_000_000


class TestHead:
    def test_of_a_file_is_what_get_says_without_its_bytes(self, server: Server, ada: User, crew: Crew) -> None:
        caller = client(server, ada)
        job = submit(caller, {"sound": upload(caller)["id"]}).json()["id"]
        held = crew.claim_one()
        crew.http.put(f"/api/v1/worker/jobs/{job}/files/out.txt?lease={held['lease']}", content=b"made")
        for who, path in (
            (caller, f"jobs/{job}/inputs/sound"),
            (caller, f"jobs/{job}/files/out.txt"),
            (crew.http, f"worker/jobs/{job}/inputs/sound?lease={held['lease']}"),
        ):
            got, head = who.get(f"/api/v1/{path}"), who.head(f"/api/v1/{path}")
            assert (head.status_code, head.content) == (200, b""), path
            assert head.headers["content-length"] == got.headers["content-length"] == str(len(got.content))


class TestASubmit:
    def test_with_files_says_which_they_are(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        kept = upload(caller)
        answer = submit(caller, {"audio": kept["id"]})
        assert answer.status_code == 201, answer.text
        job = answer.json()
        url = f"/api/v1/jobs/{job['id']}/inputs/audio"
        named = {name: kept[name] for name in ("size", "sha256")}
        file = {"name": "audio", "file": kept["id"], "filename": "sound.ogg", "type": "audio/ogg", "url": url}
        assert job["inputs"] == [file | named]
        assert caller.get(f"/api/v1/jobs/{job['id']}").json()["inputs"] == job["inputs"]
        assert caller.get(url).content == SOUND
        assert caller.get(f"/api/v1/files/{kept['id']}").json()["expires_at"] is None

    def test_of_many_gives_each_its_own(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        kept = [upload(caller, content=bytes([n])) for n in range(2)]
        jobs = [{"kind": "chat", "payload": {}, "files": {"a": one["id"]}} for one in kept]
        answer = caller.post("/api/v1/jobs/bulk", json={"jobs": [*jobs, {"kind": "chat", "payload": {}}]})
        given = [[file["file"] for file in job["inputs"]] for job in answer.json()["jobs"]]
        assert given == [[kept[0]["id"]], [kept[1]["id"]], []]

    def test_is_refused_for_what_is_not_there_or_not_theirs(self, server: Server, ada: User, bob: User) -> None:
        kept = upload(client(server, ada))
        for file in (kept["id"], str(uuid.uuid4()), "7", ""):
            answer = submit(client(server, bob), {"audio": file})
            assert (answer.status_code, answer.json()["error"]) == (422, "unknown_file")
            assert answer.json()["file"] == file
        assert not Job.objects.exists()

    @pytest.mark.parametrize("files", [{"../a": "1"}, {f"n{n}": "1" for n in range(17)}, ["1"], {"a": 1}, "1"])
    def test_is_refused_for_what_makes_no_sense(self, server: Server, ada: User, files: Any) -> None:
        answer = submit(client(server, ada), files)
        assert answer.status_code == 422
        assert not Job.objects.exists()

    def test_that_is_repeated_is_one_and_with_another_file_another(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        one, two = upload(caller), upload(caller)
        key = {"headers": {"Idempotency-Key": "once"}}
        first, second = (submit(caller, {"a": one["id"]}, **key) for _ in range(2))
        assert first.json()["id"] == second.json()["id"]
        assert first.json()["inputs"] == second.json()["inputs"]
        other = submit(caller, {"a": two["id"]}, **key)
        assert (other.status_code, other.json()["error"]) == (422, "idempotency_key_reused")
        assert Input.objects.count() == 1


class TestAWorker:
    @pytest.fixture
    def kept(self, server: Server, ada: User) -> dict[str, Any]:
        caller = client(server, ada)
        kept = upload(caller)
        assert submit(caller, {"audio": kept["id"]}).status_code == 201
        return kept

    def _path(self, claimed: dict[str, Any], name: str = "audio") -> str:
        return f"/api/v1/worker/jobs/{claimed['id']}/inputs/{name}?lease={claimed['lease']}"

    def test_is_told_of_them_and_reads_them(self, crew: Crew, kept: dict[str, Any]) -> None:
        claimed = crew.claim_one()
        named = {name: kept[name] for name in ("size", "sha256")}
        assert claimed["files"] == [{"name": "audio", "type": "audio/ogg", **named}]
        answer = crew.http.get(self._path(claimed))
        assert (answer.status_code, answer.content) == (200, SOUND)
        assert answer.headers["accept-ranges"] == "bytes"

    def test_reads_a_part_of_one(self, crew: Crew, kept: dict[str, Any]) -> None:
        path = self._path(crew.claim_one())
        for text, part in (
            ("bytes=100-199", SOUND[100:200]),
            ("bytes=10000-", SOUND[10000:]),
            ("bytes=-7", SOUND[-7:]),
        ):
            answer = crew.http.get(path, headers={"Range": text})
            assert (answer.status_code, answer.content) == (206, part)
        assert answer.headers["content-range"] == f"bytes {len(SOUND) - 7}-{len(SOUND) - 1}/{len(SOUND)}"
        behind = crew.http.get(path, headers={"Range": f"bytes={len(SOUND)}-"})
        assert (behind.status_code, behind.json()["error"]) == (416, "no_such_range")
        assert behind.headers.get("content-range") == f"bytes */{len(SOUND)}", dict(behind.headers)
        changed = crew.http.get(path, headers={"Range": "bytes=5-", "If-Range": '"another"'})
        assert (changed.status_code, changed.content) == (200, SOUND)

    def test_without_the_lease_reads_nothing(self, crew: Crew, kept: dict[str, Any], server: Server) -> None:
        claimed = crew.claim_one()
        wrong = self._path({**claimed, "lease": f"1-{uuid.uuid4().hex}"})
        answer = crew.http.get(wrong)
        assert (answer.status_code, answer.json()["error"]) == (409, "lease_lost")
        assert httpx.get(f"{server.url}{self._path(claimed)}").status_code == 401
        for name in ("video", "..%2f..%2faudio", "%00"):
            assert crew.http.get(self._path(claimed, name)).status_code == 404

    def test_has_no_word_of_files_where_there_are_none(self, crew: Crew, server: Server, ada: User) -> None:
        client(server, ada).post("/api/v1/jobs", json={"kind": "chat", "payload": {}})
        assert "files" not in crew.claim_one()
        assert crew.claim() == []

    def test_is_told_of_them_over_a_socket_and_with_a_finish(
        self, crew: Crew, kept: dict[str, Any], server: Server, ada: User
    ) -> None:
        submit(client(server, ada), {"audio": kept["id"]})
        claimed = crew.claim_one()
        body = {"lease": claimed["lease"], "outcome": "success", "claim_next": 1}
        [following] = crew.post(f"jobs/{claimed['id']}/finish", **body).json()["jobs"]
        assert following["files"] == claimed["files"]


class TestDeleting:
    def test_waits_for_the_end_of_jobs(self, server: Server, ada: User) -> None:
        caller = client(server, ada)
        kept = upload(caller)
        job = submit(caller, {"audio": kept["id"]}).json()
        answer = caller.delete(f"/api/v1/files/{kept['id']}")
        assert (answer.status_code, answer.json()["error"]) == (409, "file_in_use")
        caller.post(f"/api/v1/jobs/{job['id']}/cancel")
        answer = caller.delete(f"/api/v1/files/{kept['id']}")
        assert (answer.status_code, answer.json()) == (200, {"id": kept["id"], "deleted": True})
        assert caller.get(f"/api/v1/files/{kept['id']}").status_code == 404
        assert caller.get(job["inputs"][0]["url"]).status_code == 404
        assert caller.get(f"/api/v1/jobs/{job['id']}").status_code == 200
