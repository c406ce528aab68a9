"""Labels and conditions as they come over HTTP, from pages, the administration and the command line."""

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from accounts import operations as accounts
from jobfarm_client.command_line import _conditions
from jobs import operations
from jobs.models import Job, Kind, Worker
from tests import farm
from tests.jobs.labels import sample
from tests.jobs.labels.sample import labelled

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kind() -> None:
    farm.kind()


@pytest.fixture
def ada() -> User:
    return farm.user("ada")


@pytest.fixture
def root() -> User:
    return farm.user("root", is_staff=True, is_superuser=True)


def _browser(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def _api(user: User, method: str, path: str, body: Any = None) -> Any:
    token = accounts.create_token(user, name="t", scopes=["read", "submit", "operate"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    data = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    return getattr(Client(headers=headers), method)(f"/api/v1/{path}", **data)


class TestApi:
    def test_submits_with_conditions_and_shows_them(self, ada: User) -> None:
        body = {"kind": "work", "payload": {}, "requires": {"vram": ">=16.0", "region": ["lab", "home"]},
                "prefers": {"loaded": "tiny"}}  # fmt: skip
        answer = _api(ada, "post", "jobs", body)
        assert answer.status_code == 201, answer.content
        expected = ({"region": "home|lab", "vram": ">=16"}, {"loaded": "tiny"})
        assert (answer.json()["requires"], answer.json()["prefers"]) == expected
        shown = _api(ada, "get", f"jobs/{answer.json()['id']}").json()
        assert (shown["requires"], shown["prefers"]) == expected
        [listed] = _api(ada, "get", "jobs").json()["jobs"]
        assert (listed["requires"], listed["prefers"]) == expected

    def test_submits_bulks_of_which_each_job_has_its_own(self, ada: User) -> None:
        jobs = [{"kind": "work", "payload": {}, "requires": {"vram": n}} for n in (1, 2, 1)]
        answer = _api(ada, "post", "jobs/bulk", {"jobs": [*jobs, {"kind": "work", "payload": {}}]})
        assert [job["requires"] for job in answer.json()["jobs"]] == [{"vram": "1"}, {"vram": "2"}, {"vram": "1"}, {}]

    @pytest.mark.parametrize(
        "requires",
        [{"vram": ">=much"}, {"VRAM": 1}, {"vram": None}, {"vram": {"x": 1}}, {"vram": []}, ["vram"], {"a\x00": 1}],
        ids=str,
    )
    def test_refuses_what_is_no_condition_and_stores_nothing(self, ada: User, requires: Any) -> None:
        answer = _api(ada, "post", "jobs", {"kind": "work", "payload": {}, "requires": requires})
        assert answer.status_code == 422, answer.content
        assert answer.json()["message"]
        assert not Job.objects.exists()

    def test_takes_labels_with_hello_and_shows_them(self, root: User) -> None:
        worker, key = operations.create_worker("gpu", queues=["work"])
        browser = Client(headers={"Authorization": f"Bearer {key}"})
        body = {"labels": {"vram": "24", "region": "home"}, "models": ["tiny"], "loaded": ["tiny"],
                "cache_used": 0.4}  # fmt: skip
        assert browser.post("/api/v1/worker/hello", body, content_type="application/json").status_code == 200
        shown = _api(root, "get", f"workers/{worker.pk}").json()
        assert shown["labels"] == {"region": "home", "vram": "24"}
        assert shown["about"]["loaded"] == ["tiny"]
        pages = Client()
        pages.force_login(root)
        assert "Cache of prompts in use</dt><dd>40 %" in pages.get(reverse("jobs:worker", args=[worker.pk])).text
        refused = browser.post("/api/v1/worker/hello", {"labels": {"loaded": "x"}}, content_type="application/json")
        assert refused.status_code == 422

    def test_lets_staff_set_labels_and_an_owner_not(self, ada: User, root: User) -> None:
        worker = labelled("gpu", owner=ada, vram="24")
        refused = _api(ada, "put", f"workers/{worker.pk}/labels", {"labels": {"vram": "48"}})
        assert refused.status_code == 403
        answer = _api(root, "put", f"workers/{worker.pk}/labels", {"labels": {"region": "lab", "vram": ""}})
        assert (answer.json()["labels"], answer.json()["labels_by_staff"]) == (
            {"region": "lab"},
            {"region": "lab", "vram": ""},
        )
        wrong = _api(root, "put", f"workers/{worker.pk}/labels", {"labels": {"region": ">=1"}})
        assert wrong.status_code == 422
        assert Worker.objects.get().labels == {"region": "lab", "vram": ""}

    def test_says_why(self, ada: User) -> None:
        labelled("gpu-2", vram="12")
        job = sample.job({"vram": ">=16"}, owner=ada)
        [reason] = _api(ada, "get", f"jobs/{job.pk}/why").json()["reasons"]
        assert (reason["code"], reason["missing"], reason["nearest"]) == ("no_label", {"vram": ">=16"}, "gpu-2")


class TestPages:
    def test_of_a_job_show_what_it_requires_and_prefers(self, ada: User) -> None:
        job = sample.job({"vram": ">=16"}, {"region": "home"}, owner=ada)
        page = _browser(ada).get(f"/jobs/{job.pk}/").content.decode()
        assert "vram&gt;=16" in page
        assert "region=home" in page

    def test_submit_with_conditions_and_copy_them(self, ada: User) -> None:
        browser = _browser(ada)
        form = {"kind_name": "work", "payload_text": "{}", "requires": "vram>=16, region=home|lab", "prefers": ""}
        browser.post("/jobs/new/?kind=other", form)
        job = Job.objects.get()
        assert job.requirement is not None
        assert job.requirement.requires == {"region": "home|lab", "vram": ">=16"}
        copy = browser.get(f"/jobs/new/?kind=other&like={job.pk}").content.decode()
        assert 'value="region=home|lab, vram&gt;=16"' in copy
        wrong = browser.post("/jobs/new/?kind=other", {**form, "requires": "vram>=much"})
        assert "needs a number" in wrong.content.decode()

    def test_of_a_worker_let_staff_set_labels(self, ada: User, root: User) -> None:
        worker = labelled("gpu", owner=ada, vram="24")
        assert _browser(ada).post(f"/workers/{worker.pk}/labels/", {"labels": "vram=48"}).status_code == 403
        assert 'name="labels"' not in _browser(ada).get(f"/workers/{worker.pk}/").content.decode()
        browser = _browser(root)
        browser.post(f"/workers/{worker.pk}/labels/", {"labels": "region=lab, vram="})
        assert Worker.objects.get().labels == {"region": "lab", "vram": ""}
        page = browser.get(f"/workers/{worker.pk}/").content.decode()
        assert 'value="region=lab, vram="' in page
        refused = browser.post(f"/workers/{worker.pk}/labels/", {"labels": "loaded=x"}, follow=True)
        assert "loaded is what the farm calls" in refused.content.decode()
        assert "region=lab" in browser.get("/workers/").content.decode()


class TestAdministration:
    def test_shows_filters_and_leads_to_labels(self, root: User) -> None:
        labelled("big", vram="24")
        small = labelled("small", vram="8")
        operations.set_labels(small, {"region": "lab"}, by=root)
        browser = _browser(root)
        page = browser.get("/admin/jobs/worker/?label=region%3Dlab").content.decode()
        assert "small" in page
        assert ">big<" not in page
        assert "region=lab, vram=8" in page

    def test_shows_a_jobs_conditions(self, root: User) -> None:
        job = sample.job({"vram": ">=16"})
        assert "vram&gt;=16" in _browser(root).get(f"/jobs/{job.pk}/").content.decode()


class TestCommands:
    def test_make_kinds_that_require_and_show_jobs_and_workers(self) -> None:
        call_command("create_kind", "render", "--require", "vram>=16", stdout=StringIO())
        assert Kind.objects.get(pk="render").requires == {"vram": ">=16"}
        job = operations.submit("render", {}, prefers={"region": "home"})
        labelled("gpu", vram="12")
        shown, listed = StringIO(), StringIO()
        call_command("jobs", "show", str(job.pk), stdout=shown)
        call_command("workers", "list", stdout=listed)
        assert "requires vram>=16" in shown.getvalue()
        assert "prefers  region=home" in shown.getvalue()
        assert "(vram=12)" in listed.getvalue()

    def test_of_the_client_read_conditions_as_people_write_them(self) -> None:
        assert _conditions(["vram>=16", "region=home|lab"]) == {"vram": ">=16", "region": "home|lab"}
        assert _conditions(None) is None
