"""What bad input gets: the right status, one form, nothing stored, no traceback (`server` looks for that)."""

import http.client
import json
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from jobs import operations
from jobs.models import Job
from jobs.protocol.clients import Filters
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

JSON = {"Content-Type": "application/json"}


SUBMISSIONS: list[Any] = [
    ({"kind": "unheard-of", "payload": 1}, 422, "unknown_kind"),
    ({"kind": "chat", "payload": 1, "queue": "nowhere"}, 422, "unknown_queue"),
    ({"kind": "chat", "payload": 1, "colour": "red"}, 422, "invalid"),
    ({"kind": "chat"}, 422, "invalid"),
    ({"payload": 1}, 422, "invalid"),
    ({"kind": "", "payload": 1}, 422, "invalid"),
    ({"kind": "a\u0000b", "payload": 1}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "priority": 101}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "priority": "1"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "priority": True}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "priority": 10**400}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "requires": {"vram": 10**400}}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "prefers": {"vram": [10**400]}}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "run_at": 1}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "run_at": "soon"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "run_at": "2030-01-01T00:00:00"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "run_at": "9999-12-31T23:59:59-23:00"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "run_at": "0001-01-01T00:00:00+23:00"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "run_at": "2999-12-31T23:59:59Z"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "unique_key": ""}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "unique_key": "x" * 201}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "unique_key": "\ud800"}, 422, "invalid"),
    ({"kind": "chat", "payload": 1, "group": 7}, 422, "invalid"),
    ({"kind": "chat", "payload": "a\u0000b"}, 422, "invalid_json"),
    ({"kind": "chat", "payload": {"\ud800": 1}}, 422, "invalid_json"),
    ([], 422, "invalid"),
    (None, 422, "invalid"),
    ("chat", 422, "invalid"),
]

PAYLOADS: list[Any] = [
    ("NaN", 400, "not_json"),
    ("-Infinity", 400, "not_json"),
    ("1e400", 400, "not_json"),
    ('{"a": 1, "b": 2, "a": 1}', 400, "not_json"),
    ("9" * 5000, 400, "not_json"),
    ("9" * 2000, 422, "invalid_json"),
    ("[" * 200 + "]" * 200, 422, "invalid_json"),
    ("[" * 100_000 + "]" * 100_000, 400, "not_json"),
    ("[" * 100_000, 400, "not_json"),
    ("{", 400, "not_json"),
    ("", 400, "not_json"),
]

ADDRESSES: list[Any] = [
    ("GET", "/api/v1/nothing", 404, "not_found"),
    ("GET", "/api/", 404, "not_found"),
    ("GET", "/api/v2/jobs", 404, "not_found"),
    ("GET", "/api/v1/jobs/", 404, "not_found"),
    ("GET", "/api/v1/jobs/0", 404, "not_found"),
    ("GET", "/api/v1/jobs/-1", 404, "not_found"),
    ("GET", "/api/v1/jobs/seven", 404, "not_found"),
    ("GET", "/api/v1/jobs/9223372036854775807", 404, "not_found"),
    ("GET", "/api/v1/jobs/9223372036854775808", 404, "not_found"),
    ("GET", "/api/v1/jobs/99999999999999999999999999", 404, "not_found"),
    ("GET", "/api/v1/jobs/9999999999999999999/events", 404, "not_found"),
    ("GET", "/api/v1/jobs/%00", 404, "not_found"),
    ("DELETE", "/api/v1/jobs/1", 405, "method_not_allowed"),
    ("GET", "/api/v1/worker/claim", 405, "method_not_allowed"),
    ("PATCH", "/api/v1/jobs", 405, "method_not_allowed"),
    ("GET", "/api/v1/jobs?colour=red", 422, "invalid"),
    ("GET", "/api/v1/jobs?limit=0", 422, "invalid"),
    ("GET", "/api/v1/jobs?limit=x", 422, "invalid"),
    ("GET", "/api/v1/jobs?cursor=9223372036854775808", 422, "invalid"),
    ("GET", "/api/v1/jobs?status=lost", 422, "invalid"),
    ("GET", "/api/v1/jobs?owner=%00", 422, "invalid"),
    ("GET", "/api/v1/jobs?kind=%00", 422, "invalid"),
    ("GET", "/api/v1/events?owner=%00", 422, "invalid"),
    ("GET", "/api/v1/events?kind=%00", 422, "invalid"),
    ("GET", "/api/v1/scale?queue=%00", 422, "invalid"),
]

FIELDS: list[Any] = [
    ("claim", {"limit": 0}),
    ("claim", {"limit": 101}),
    ("claim", {"limit": 1.5}),
    ("claim", {"limit": True}),
    ("claim", {"wait": 61}),
    ("claim", {"wait": -1}),
    ("claim", {"wait": 10**309}),
    ("claim", {"wait": -(10**309)}),
    ("claim", {"limit": 10**309}),
    ("hello", {"cpus": 10**400}),
    ("hello", {"memory_bytes": 10**400}),
    ("hello", {"gpus": [{"name": "x", "memory_bytes": 10**400}]}),
    ("jobs/1/heartbeat", {"lease": "x", "progress": 10**400}),
    ("jobs/1/output", {"lease": "x", "seq": 10**400, "text": ""}),
    ("jobs/1/finish", {"lease": "x", "outcome": "success", "claim_next": 10**400}),
    ("claim", {"wait": "1"}),
    ("claim", {"queues": []}),
    ("claim", {"queues": "chat"}),
    ("claim", {"queues": ["a\u0000"]}),
    ("claim", {"queue": "chat"}),
    ("jobs/1/heartbeat", {}),
    ("jobs/1/checkpoint", {"lease": "x"}),
    ("jobs/1/checkpoint", {"lease": "x", "value": 1, "children": -1}),
    ("jobs/1/submit", {"lease": "x", "kind": "chat", "payload": {}}),
    ("jobs/1/submit", {"lease": "x", "kind": "chat", "payload": {}, "position": 10**400}),
    ("jobs/1/submit", {"lease": "x", "kind": "chat", "payload": {}, "position": 0, "outlives": 1}),
    ("jobs/1/finish", {"lease": "x", "outcome": "suspended", "wait": {"children": ["7"]}}),
    ("jobs/1/finish", {"lease": "x", "outcome": "suspended", "wait": {"kids": []}}),
    ("jobs/1/heartbeat", {"lease": 7}),
    ("jobs/1/heartbeat", {"lease": "x", "progress": 1.01}),
    ("jobs/1/heartbeat", {"lease": "x", "progress": "0.5"}),
    ("jobs/1/heartbeat", {"lease": "x", "detail": "\u0000"}),
    ("jobs/1/output", {"lease": "x", "seq": -1, "text": ""}),
    ("jobs/1/output", {"lease": "x", "seq": 2**31, "text": ""}),
    ("jobs/1/output", {"lease": "x", "seq": 0, "text": "\ud800"}),
    ("jobs/1/output", {"lease": "x", "seq": 0}),
    ("jobs/1/finish", {"lease": "x"}),
    ("jobs/1/finish", {"lease": "x", "outcome": "canceled"}),
    ("jobs/1/finish", {"lease": "x", "outcome": "failed", "retryable": "no"}),
    ("jobs/1/finish", {"lease": "x", "outcome": "success", "claim_next": 101}),
    ("finish", {"finished": []}),
    ("finish", {"finished": [{"id": 0, "lease": "x", "outcome": "success"}]}),
    ("finish", {"finished": [{"id": 2**63, "lease": "x", "outcome": "success"}]}),
]


def refused(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal, which must be in the one form."""
    document = response.json()
    assert response.headers["content-type"].startswith("application/json")
    assert isinstance(document["message"], str)
    assert document["message"]
    return response.status_code, document["error"]


class TestSubmitting:
    def test_is_refused_and_nothing_is_stored(self, client: httpx.Client) -> None:
        document = [
            (body, *refused(client.post("/api/v1/jobs", content=json.dumps(body), headers=JSON)))
            for body, _, _ in SUBMISSIONS
        ]
        assert document == SUBMISSIONS
        assert not Job.objects.exists()
        assert not Job.objects.exists()

    def test_refuses_what_json_or_postgresql_cannot_say(self, client: httpx.Client) -> None:
        def submit(payload: str) -> tuple[int, str]:
            body = f'{{"kind": "chat", "payload": {payload}}}'
            return refused(client.post("/api/v1/jobs", content=body, headers=JSON))

        assert [(payload, *submit(payload)) for payload, _, _ in PAYLOADS] == PAYLOADS
        longest = client.post("/api/v1/jobs", content="9" * 5000, headers=JSON).json()["message"]
        assert longest == "The body is not JSON: it holds a number of more than 4,300 digits."
        assert not Job.objects.exists()

    def test_bytes_that_are_no_text_are_not_json(self, client: httpx.Client) -> None:
        for content in (b"\xff\xfe\x00", b'{"kind": "\xff"}', b"\x00" * 10):
            assert refused(client.post("/api/v1/jobs", content=content, headers=JSON)) == (400, "not_json")

    def test_another_content_type_is_refused(self, client: httpx.Client) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            response = client.post("/api/v1/jobs", content=b"kind=chat", headers={"Content-Type": kind})
            assert refused(response) == (415, "unsupported_media_type")

    def test_says_which_fields_are_wrong_without_repeating_what_was_sent(self, client: httpx.Client) -> None:
        body = {"kind": "chat", "payload": 1, "priority": "secret", "colour": "secret"}
        document = client.post("/api/v1/jobs", json=body)
        assert [fault["field"] for fault in document.json()["faults"]] == ["priority", "colour"]
        assert document.json()["faults"][1]["why"] == "there is no such field."
        assert "secret" not in document.text

    @pytest.mark.parametrize("after", [0, 2**63, True, 1.5])
    def test_names_an_item_that_may_be_of_two_types_by_its_place_alone(self, client: httpx.Client, after: Any) -> None:
        answer = client.post("/api/v1/jobs", json={"kind": "chat", "payload": 1, "after": [after]}).json()
        assert {fault["field"] for fault in answer["faults"]} == {"after.0"}
        assert answer["message"].startswith("after.0: input should be ")

    @pytest.mark.parametrize(
        "field",
        [
            {"begin_up_to": 2**63},
            {"begin_up_to": 10**400},
            {"value": "x" * 101},
            {"value": 10**100},
            {"action": "change_priority", "value": "0" * 101},
        ],
    )
    def test_a_bulk_action_is_bounded(self, client: httpx.Client, field: dict[str, Any]) -> None:
        body = {"action": "cancel", "filters": {}, **field}
        assert refused(client.post("/api/v1/bulk-actions", json=body)) == (422, "invalid")

    def test_a_bulk_is_bounded(self, client: httpx.Client) -> None:
        jobs = [{"kind": "chat", "payload": 1}] * 1001
        assert refused(client.post("/api/v1/jobs/bulk", json={"jobs": jobs})) == (422, "invalid")
        assert refused(client.post("/api/v1/jobs/bulk", json={"jobs": []})) == (422, "invalid")
        assert not Job.objects.exists()


class TestBodiesThatAreTooLarge:
    def test_an_announced_one_is_refused_before_it_is_sent(self, server: Server, crew: Crew) -> None:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        connection.putrequest("PUT", "/api/v1/worker/jobs/1/files/x?lease=1-" + "0" * 32)
        connection.putheader("Content-Length", "999999999999")
        connection.putheader("Authorization", f"Bearer {crew.key}")
        connection.endheaders()
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["error"]) == (413, "too_large")
        connection.close()

    def test_one_without_a_length_is_refused_when_it_has_become_too_large(self, client: httpx.Client) -> None:
        pieces = (b" " * 1_000_000 for _ in range(52))
        assert refused(client.post("/api/v1/jobs", content=pieces, headers=JSON)) == (413, "too_large")

    def test_a_file_over_the_limit_is_not_kept(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        pieces = (b"x" * 1_000_000 for _ in range(51))
        path = f"/api/v1/worker/jobs/{job.pk}/files/big.bin?lease={lease}"
        assert refused(crew.http.put(path, content=pieces)) == (413, "too_large")
        assert not job.files.exists()


class TestFilters:
    def test_that_are_empty_ask_for_nothing(self, client: httpx.Client) -> None:
        job = operations.submit("chat", {})
        Job.objects.update(owner=User.objects.get(username="ada"))
        for name in Filters.model_fields:
            answer = client.get("/api/v1/jobs", params={name: ""})
            assert (answer.status_code, [one["id"] for one in answer.json()["jobs"]]) == (200, [job.pk]), name
        for path in ("outbox/messages?status=", "usage?by=&from=&to="):
            assert client.get(f"/api/v1/{path}").status_code in {200, 403, 404}, path


class TestAddresses:
    def test_answer_in_the_one_form(self, client: httpx.Client) -> None:
        document = []
        for method, path, _, _ in ADDRESSES:
            response = client.request(method, path)
            document.append((method, path, *refused(response)))
            assert ("allow" in response.headers) == (response.status_code == 405)
        assert document == ADDRESSES


REPORTS: dict[str, dict[str, Any]] = {
    "heartbeat": {"progress": 0.5},
    "checkpoint": {"value": 1},
    "submit": {"position": 0, "kind": "chat", "payload": {}},
    "output": {"seq": 0, "text": "x"},
    "finish": {"outcome": "success"},
    "release": {},
}


class TestLeases:
    def test_wrong_old_and_others_leases_are_lost_and_change_nothing(self, server: Server, crew: Crew) -> None:
        job, other = operations.submit("chat", 1), operations.submit("chat", 2)
        old = crew.claim_one()["lease"]
        Job.objects.filter(pk=job.pk).update(retry_when_lost=True)
        farm.lose(job)
        current = crew.claim_one()["lease"]
        others = crew.claim_one()["lease"]
        before = farm.everything(job), farm.everything(other)
        thief = callers.crew(server)
        wrong = [
            "x" * 1_000,
            "",
            "x",
            "1",
            "0-" + "0" * 32,
            "9" * 19 + "-" + "0" * 32,
            current[:-1],
            current.upper(),
            old,
            others,
        ]
        cases = [(crew, lease) for lease in wrong] + [(thief, current)]
        for caller, lease in cases:
            for verb, fields in REPORTS.items():
                response = caller.post(f"jobs/{job.pk}/{verb}", lease=lease, **fields)
                assert refused(response) == (409, "lease_lost"), (verb, lease)
            path = f"/api/v1/worker/jobs/{job.pk}/files/x.png"
            response = caller.http.put(path, params={"lease": lease}, content=b"x")
            assert refused(response) == (409, "lease_lost"), lease
        assert (farm.everything(job), farm.everything(other)) == before

    def test_a_job_that_is_not_there_is_a_lost_lease(self, crew: Crew) -> None:
        lease = "1-" + "0" * 32
        assert refused(crew.post("jobs/999/heartbeat", lease=lease)) == (409, "lease_lost")


class TestWorkersFields:
    def test_that_do_not_fit_are_refused(self, crew: Crew) -> None:
        for verb, body in FIELDS:
            content = json.dumps(body)
            response = crew.http.post(f"/api/v1/worker/{verb}", content=content, headers=JSON)
            assert refused(response) == (422, "invalid"), (verb, body, response.text)

    def test_a_result_that_cannot_be_stored_is_refused_and_the_job_goes_on(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        path = f"jobs/{job.pk}/finish"
        nul = crew.post(path, lease=lease, outcome="success", result="\u0000")
        assert refused(nul) == (422, "invalid_json")
        assert farm.status(job) == "in_progress"
        assert crew.post(path, lease=lease, outcome="success").json()["status"] == "success"

    def test_output_over_a_megabyte_is_refused(self, crew: Crew) -> None:
        job = operations.submit("chat", {})
        lease = crew.claim_one()["lease"]
        response = crew.post(f"jobs/{job.pk}/output", lease=lease, seq=0, text="x" * 1_000_001)
        assert refused(response) == (413, "too_large")
