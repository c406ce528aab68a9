"""The page of a job that waits for a signal: the form by which a person sends it."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from jobs import operations
from jobs.models import Worker
from tests import farm
from tests.jobs.flows.test_children import parent_of
from tests.jobs.flows.test_signals import SCHEMA, came, run_out, suspend

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


class TestThePage:
    @pytest.fixture
    def ada(self, worker: Worker) -> User:
        return farm.user("ada")

    @staticmethod
    def fields(person: User, job: operations.ClaimedJob) -> tuple[Client, Any]:
        client = Client()
        client.force_login(person)
        return client, client.get(f"/jobs/{job.id}/").context.get("signal")

    def test_has_a_form_with_the_fields_of_the_schema(self, worker: Worker, ada: User) -> None:
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved", schema=SCHEMA)
        client, form = self.fields(ada, job)
        page = client.get(f"/jobs/{job.id}/").text
        assert "after what it is suspended for" in page
        assert '<a href="#signal">Send the signal approved</a>' in page
        [remedy, _] = client.get(f"/api/v1/jobs/{job.id}/why").json()["reasons"][0]["remedies"]
        assert (remedy["method"], remedy["path"]) == ("POST", f"/api/v1/jobs/{job.id}/signals")
        assert [field.label for field in form.visible_fields()] == ["Who", "pages", "share", "again", "how"]
        sent = {"signal-key": form["key"].value(), "signal-by": "ada", "signal-pages": "3", "signal-share": "0.5"}
        client.post(f"/jobs/{job.id}/signal/", sent)
        assert operations.claim(worker) == [], "the choice is missing"
        for how in "10":
            client.post(f"/jobs/{job.id}/signal/", {**sent, "signal-how": how})
        assert came(worker) == ("approved", {"by": "ada", "pages": 3, "share": 0.5, "again": False, "how": 7}, False)

    def test_leaves_a_choice_to_whoever_sends_it(self, worker: Worker, ada: User) -> None:
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved", schema=SCHEMA)
        client, _ = self.fields(ada, job)
        select = client.get(f"/jobs/{job.id}/").text.partition('<select name="signal-how"')[2].partition("</select>")[0]
        assert select.startswith(" required"), "the browser asks for it"
        assert select.count("selected") == 1
        assert '<option value="" selected>Choose one</option>' in select

    @pytest.mark.parametrize("schema", [None, {"properties": {"deep": {"type": "object"}}}, {"properties": []}])
    def test_has_one_field_for_json_otherwise(self, worker: Worker, ada: User, schema: Any) -> None:
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved", schema=schema)
        client, form = self.fields(ada, job)
        assert [field.name for field in form.visible_fields()] == ["json"]
        client.post(f"/jobs/{job.id}/signal/", {"signal-key": "form-1", "signal-json": '{"a": [1]}'})
        assert came(worker) == ("approved", {"a": [1]}, False)

    @pytest.mark.parametrize("text", ["{", '"\\ud800"', "9" * 5000, "[" * 3000 + "]" * 3000])
    def test_says_of_its_field_that_it_is_not_json(self, worker: Worker, ada: User, text: str) -> None:
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved")
        client, _ = self.fields(ada, job)
        sent = {"signal-key": "form-1", "signal-json": text}
        answer = client.post(f"/jobs/{job.id}/signal/", sent, follow=True)
        assert "Data, as JSON: This is not JSON" in answer.text
        assert operations.claim(worker) == []

    def test_of_an_earlier_wait_answers_no_later_one(self, worker: Worker, ada: User) -> None:
        job = parent_of(worker, owner=ada)
        suspend(worker, job, signal="approved", timeout_s=60)
        client, form = self.fields(ada, job)
        run_out(job)
        suspend(worker, farm.claim_one(worker), signal="publish")
        answer = client.post(
            f"/jobs/{job.id}/signal/", {"signal-key": form["key"].value(), "signal-json": "1"}, follow=True
        )
        assert "another answer by now (publish)" in answer.text
        assert operations.claim(worker) == []

    def test_has_none_for_others(self, worker: Worker, ada: User) -> None:
        group = Group.objects.create(name="lab")
        eve = farm.user("eve", groups=[group])
        ada.groups.add(group)
        job = parent_of(worker, owner=ada, group=group)
        assert self.fields(ada, job)[1] is None, "it runs"
        suspend(worker, job, signal="approved")
        client, form = self.fields(eve, job)
        assert form is None
        client.post(f"/jobs/{job.id}/signal/", {"signal-key": "form-1", "signal-json": "1"})
        assert operations.claim(worker) == []
