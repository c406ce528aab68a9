"""What a client calls: submit, look, cancel, try again."""

from datetime import timedelta

import httpx
import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from jobs import operations
from jobs.models import Job, Worker
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


class TestSubmit:
    def test_answers_with_the_job(self, client: httpx.Client, ada: User) -> None:
        response = client.post("/api/v1/jobs", json={"kind": "chat", "payload": {"prompt": "Why?"}, "priority": -7})
        assert response.status_code == 201
        document = response.json()
        job = Job.objects.get()
        assert document.pop("created_at") == document.pop("run_at")
        assert document == {
            "id": job.pk,
            "kind": "chat",
            "queue": "chat",
            "status": "pending",
            "priority": -7,
            "attempt": 0,
            "fence": 0,
            "failures": 0,
            "max_attempts": 3,
            "progress": None,
            "detail": None,
            "worker": None,
            "owner": "ada",
            "group": None,
            "unique_key": None,
            "concurrency_key": None,
            "tags": [],
            "replaced_at": None,
            "waits_for": None,
            "retry_of": None,
            "flow": None,
            "name": None,
            "after": [],
            "canceled_for": None,
            "claimed_at": None,
            "ended_at": None,
            "expires_at": None,
            "requires": {},
            "prefers": {},
            "keep_content": True,
            "content_deleted_at": None,
            "payload": {"prompt": "Why?"},
            "result": None,
            "inputs": [],
            "error": None,
            "files": [],
            "checkpoint": None,
            "attempts": [],
        }

    def test_takes_a_group_of_ones_own_and_no_other(self, client: httpx.Client, ada: User) -> None:
        own, other = Group.objects.create(name="own"), Group.objects.create(name="other")
        ada.groups.add(own)
        taken = client.post("/api/v1/jobs", json={"kind": "chat", "payload": 1, "group": "own"})
        assert taken.json()["group"] == "own"
        for name in (other.name, "nobody's"):
            refused = client.post("/api/v1/jobs", json={"kind": "chat", "payload": 1, "group": name})
            assert (refused.status_code, refused.json()["error"]) == (422, "not_a_member")
        assert Job.objects.count() == 1

    def test_refuses_a_twin_until_the_first_has_ended(self, client: httpx.Client) -> None:
        body = {"kind": "chat", "payload": 1, "unique_key": "daily"}
        first = client.post("/api/v1/jobs", json=body).json()
        twin = client.post("/api/v1/jobs", json=body)
        refused = {name: twin.json()[name] for name in ("error", "job")}
        assert (twin.status_code, refused) == (409, {"error": "not_unique", "job": first["id"]})
        client.post(f"/api/v1/jobs/{first['id']}/cancel")
        assert client.post("/api/v1/jobs", json=body).status_code == 201

    def test_a_bulk_leaves_out_twins_and_keeps_the_order(self, client: httpx.Client) -> None:
        keyed = {"kind": "chat", "payload": 1, "unique_key": "k"}
        jobs = [keyed, {"kind": "image", "payload": 2}, keyed]
        response = client.post("/api/v1/jobs/bulk", json={"jobs": jobs})
        assert response.status_code == 201
        first, second, twin = response.json()["jobs"]
        assert (first["payload"], second["payload"]) == (1, 2)
        assert (twin["error"], twin["job"]) == ("not_unique", first["id"])
        assert Job.objects.count() == 2

    def test_a_bulk_with_one_bad_job_stores_none(self, client: httpx.Client) -> None:
        jobs = [{"kind": "chat", "payload": 1}, {"kind": "unheard-of", "payload": 2}]
        response = client.post("/api/v1/jobs/bulk", json={"jobs": jobs})
        assert (response.status_code, response.json()["error"]) == (422, "unknown_kind")
        assert not Job.objects.exists()


class TestList:
    def test_pages_through_all_without_repeating_any(self, client: httpx.Client, ada: User) -> None:
        made = [operations.submit("chat", number, owner=ada).pk for number in range(7)]
        seen, cursor = [], None
        for _ in range(4):
            page = client.get("/api/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {}))
            seen += [job["id"] for job in page.json()["jobs"]]
            cursor = page.json()["next"]
        assert seen == made[::-1]
        assert cursor is None

    def test_every_filter_filters(self, client: httpx.Client, server: Server, ada: User) -> None:
        group = Group.objects.create(name="team")
        ada.groups.add(group)
        operations.submit("image", 1, owner=ada)
        ended = operations.submit("chat", 2, owner=ada, group=group)
        crew = callers.crew(server)
        claimed = crew.claim_one()
        crew.post(f"jobs/{ended.pk}/finish", lease=claimed["lease"], outcome="success")
        again = client.post(f"/api/v1/jobs/{ended.pk}/retry").json()["id"]
        wanted = {
            "status=success": [ended.pk],
            "kind=chat": [again, ended.pk],
            "queue=chat": [again, ended.pk],
            "group=team": [again, ended.pk],
            "worker=w": [ended.pk],
            f"retry_of={ended.pk}": [again],
            "owner=bob": [],
            "status=pending&kind=chat": [again],
        }
        for query, ids in wanted.items():
            page = client.get(f"/api/v1/jobs?{query}")
            assert [job["id"] for job in page.json()["jobs"]] == ids, query

    def test_shows_ones_own_and_ones_groups_and_nobody_elses(self, client: httpx.Client, ada: User) -> None:
        bob = User.objects.create_user("bob")
        group = Group.objects.create(name="team")
        ada.groups.add(group)
        bob.groups.add(group)
        shared = operations.submit("chat", 1, owner=bob, group=group)
        operations.submit("chat", 2, owner=bob)
        operations.submit("chat", 3)
        own = operations.submit("chat", 4, owner=ada)
        assert [job["id"] for job in client.get("/api/v1/jobs").json()["jobs"]] == [own.pk, shared.pk]

    def test_asks_the_database_as_often_for_a_hundred_as_for_one(
        self, server: Server, ada: User, client: httpx.Client
    ) -> None:
        operations.submit_many([operations.NewJob(kind="chat", payload=n, owner=ada) for n in range(100)])
        page = client.get("/api/v1/jobs?limit=100").json()
        assert len(page["jobs"]) == 100
        assert {job["owner"] for job in page["jobs"]} == {"ada"}
        assert "payload" not in page["jobs"][0]


class TestLook:
    def test_anothers_job_is_not_there(self, client: httpx.Client) -> None:
        job = operations.submit("chat", {}, owner=User.objects.create_user("bob"))
        for method, path in [
            ("GET", ""),
            ("GET", "/output"),
            ("GET", "/events"),
            ("GET", "/why"),
            ("GET", "/files/a.png"),
            ("POST", "/cancel"),
            ("POST", "/retry"),
        ]:
            response = client.request(method, f"/api/v1/jobs/{job.pk}{path}")
            assert (response.status_code, response.json()) == (
                404,
                {"error": "not_found", "message": "There is no such job."},
            ), path
        job.refresh_from_db()
        assert job.status == "pending"

    def test_tells_a_run_with_output_files_and_the_last_error(
        self, client: httpx.Client, crew: Crew, ada: User
    ) -> None:
        job = operations.submit("chat", {}, owner=ada)
        first = crew.claim_one()
        crew.post(f"jobs/{job.pk}/finish", lease=first["lease"], outcome="failed", error="no luck")
        farm.alter(job, run_at=timezone.now() - timedelta(seconds=1))
        assert client.get(f"/api/v1/jobs/{job.pk}").json()["error"] == "no luck"
        second = crew.claim_one()
        crew.post(f"jobs/{job.pk}/output", lease=second["lease"], seq=0, text="Hello, ")
        crew.post(f"jobs/{job.pk}/output", lease=second["lease"], seq=1, text="world")
        crew.http.put(f"/api/v1/worker/jobs/{job.pk}/files/p.png", params={"lease": second["lease"]}, content=b"png")
        crew.post(f"jobs/{job.pk}/finish", lease=second["lease"], outcome="success", result=[1])
        document = client.get(f"/api/v1/jobs/{job.pk}").json()
        url = f"/api/v1/jobs/{job.pk}/files/p.png"
        assert document["files"] == [{"name": "p.png", "size": 3, "url": url}]
        assert client.get(f"{url}x").json()["message"] == "There is no such file."
        assert (document["status"], document["result"], document["error"], document["worker"], document["attempt"]) == (
            "success",
            [1],
            None,
            "w",
            2,
        )
        assert client.get(f"/api/v1/jobs/{job.pk}/output?after=0").json() == {
            "fence": 2,
            "chunks": [{"seq": 1, "text": "world"}],
            "next_seq": 2,
        }
        assert client.get(f"/api/v1/jobs/{job.pk}/output?fence=1").json() == {"fence": 1, "chunks": [], "next_seq": 0}
        file = client.get(url)
        assert (file.content, file.headers["content-type"]) == (b"png", "image/png")
        assert "sandbox" in file.headers["content-security-policy"]
        assert client.get(url, headers={"If-None-Match": file.headers["etag"]}).status_code == 304

    def test_a_page_made_by_a_worker_is_never_shown_as_one(self, client: httpx.Client, crew: Crew, ada: User) -> None:
        job = operations.submit("chat", {}, owner=ada)
        lease = crew.claim_one()["lease"]
        script = b"<script>alert(1)</script>"
        crew.http.put(f"/api/v1/worker/jobs/{job.pk}/files/x.html", params={"lease": lease}, content=script)
        file = client.get(f"/api/v1/jobs/{job.pk}/files/x.html")
        assert file.content == script
        assert file.headers["content-type"] == "application/octet-stream"
        assert file.headers["content-disposition"] == 'attachment; filename="x.html"'
        assert file.headers["x-content-type-options"] == "nosniff"

    def test_says_why_a_job_does_not_run(self, client: httpx.Client, ada: User) -> None:
        job = operations.submit("chat", {}, owner=ada)
        operations.pause("chat", by=None)
        reasons = client.get(f"/api/v1/jobs/{job.pk}/why").json()["reasons"]
        assert [reason["code"] for reason in reasons] == ["queue_paused", "no_worker"]
        assert reasons[0]["sentence"].startswith("The queue chat has been paused since ")


class TestCancelAndRetry:
    def test_cancel_says_what_it_came_to(self, client: httpx.Client, crew: Crew, ada: User) -> None:
        waiting, running, done = (operations.submit("chat", n, owner=ada) for n in range(3))
        operations.cancel(done.pk, by=None)

        def cancel(job: Job) -> dict[str, str]:
            document: dict[str, str] = client.post(f"/api/v1/jobs/{job.pk}/cancel").json()
            return document

        assert cancel(waiting) == {"verdict": "canceled_before_start", "status": "canceled"}
        assert crew.claim_one()["id"] == running.pk
        assert cancel(running) == {"verdict": "canceled_while_running", "status": "canceled"}
        assert cancel(done) == {"verdict": "too_late", "status": "canceled"}

    def test_who_may_only_look_may_not_cancel(self, client: httpx.Client, ada: User) -> None:
        group = Group.objects.create(name="team")
        ada.groups.add(group)
        bob = User.objects.create_user("bob")
        bob.groups.add(group)
        job = operations.submit("chat", {}, owner=bob, group=group)
        refused = client.post(f"/api/v1/jobs/{job.pk}/cancel")
        assert (refused.status_code, refused.json()["error"]) == (403, "forbidden")

    def test_retry_makes_a_new_job_and_only_after_the_end(self, client: httpx.Client, ada: User) -> None:
        job = operations.submit("chat", {"a": 1}, owner=ada)
        early = client.post(f"/api/v1/jobs/{job.pk}/retry")
        assert (early.status_code, early.json()["error"]) == (409, "not_ended")
        client.post(f"/api/v1/jobs/{job.pk}/cancel")
        again = client.post(f"/api/v1/jobs/{job.pk}/retry")
        assert again.status_code == 201
        document = again.json()
        assert (document["retry_of"], document["payload"], document["owner"]) == (job.pk, {"a": 1}, "ada")


class TestKeys:
    def test_a_workers_key_is_no_clients_and_the_other_way_round(self, client: httpx.Client, crew: Crew) -> None:
        assert crew.http.get("/api/v1/jobs").status_code == 401
        assert client.post("/api/v1/worker/claim", json={}).status_code == 401

    def test_no_wrong_and_revoked_keys_are_unauthorized(self, server: Server, crew: Crew) -> None:
        operations.submit("chat", {})
        Worker.objects.update(queues=["chat"])
        operations.revoke(crew.worker)
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}, crew.http.headers):
            for method, path in (("POST", "/api/v1/worker/claim"), ("GET", "/api/v1/jobs")):
                refused = httpx.request(method, server.url + path, headers=headers, json={})
                assert (refused.status_code, refused.json()["error"]) == (401, "unauthorized")
                assert refused.headers["www-authenticate"].startswith("Bearer")
        assert Job.objects.get().status == "pending"

    def test_a_browsers_session_may_look_but_needs_the_csrf_token_to_change(self, server: Server, ada: User) -> None:
        from django.test import Client

        browser = Client()
        browser.force_login(ada)
        cookies = {name: morsel.value for name, morsel in browser.cookies.items()}
        with httpx.Client(base_url=server.url, cookies=cookies) as session:
            assert session.get("/api/v1/jobs").json() == {"jobs": [], "next": None}
            refused = session.post("/api/v1/jobs", json={"kind": "chat", "payload": 1})
            assert (refused.status_code, refused.json()["error"]) == (403, "csrf_failed")
        assert not Job.objects.exists()
