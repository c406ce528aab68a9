"""The pages of deliveries and of jobs show each other; rules are kept, tried and mended in the administration."""

import html
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from jobs import operations as jobs
from jobs.models import Job
from tests import emptying, farm
from tests.webhooks.inbox.support import pass_time, receive
from tests.webhooks.pages.conftest import browser, person
from webhooks.handlers import registry
from webhooks.models import Delivery, JobStart, Rule

pytestmark = pytest.mark.usefixtures("transactional_db")
NASTY = "<script>alert(1)</script>"
RULES = "/admin/webhooks/rule/"
STARTS = "/admin/webhooks/jobstart/"
FORM = {
    "name": "deploy main",
    "is_enabled": "on",
    "source": "github",
    "event": "push",
    "filter": '{"body.ref": "refs/heads/main"}',
    "kind": "deploy",
    "payload": '{"repo": "{{ body.repository.full_name }}"}',
    "queue": "",
    "priority": "",
    "unique_key": "",
    "owner": "",
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    monkeypatch.setattr(registry, "_declared", [])
    farm.kind("deploy")
    yield
    emptying.empty()


def rule(**fields: Any) -> Rule:
    given = {"name": "deploy main", "source": "github", "event": "probe", "kind": "deploy"}
    return Rule.objects.create(**given | fields)


def started(**fields: Any) -> tuple[Delivery, JobStart]:
    rule(**fields)
    delivery = receive({"ref": "main"})
    pass_time()
    delivery.refresh_from_db()
    return delivery, JobStart.objects.get()


def page(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


class TestTheDeliverysPage:
    def test_shows_its_jobs_and_how_they_stand(self, operator: Client) -> None:
        delivery, start = started()
        shown = page(operator, f"/inbox/{delivery.pk}/")
        part = shown.partition('data-live="delivery-jobs"')[2].partition("</section>")[0]
        assert "deploy main" in part
        assert f'href="/jobs/{start.job_id}/"' in part
        assert 'data-status="pending"' in part
        assert "Start again" not in part
        jobs.cancel(Job.objects.get().pk, by=None)
        assert 'data-status="canceled"' in page(operator, f"/inbox/{delivery.pk}/")

    def test_says_that_a_job_was_deleted_since(self, operator: Client) -> None:
        delivery, start = started()
        jobs.cancel(Job.objects.get().pk, by=None)
        Job.objects.all().delete()
        shown = page(operator, f"/inbox/{delivery.pk}/")
        assert f"#{start.job_id}" in shown
        assert '<span class="soft">deleted</span>' in shown
        assert f'href="/jobs/{start.job_id}/"' not in shown

    def test_shows_who_may_not_see_jobs_their_numbers_alone(self) -> None:
        delivery, start = started()
        shown = page(browser(person("mia", "view_delivery")), f"/inbox/{delivery.pk}/")
        assert f"#{start.job_id}" in shown
        assert f"/jobs/{start.job_id}/" not in shown
        assert 'data-status="pending"' not in shown

    def test_says_why_a_job_was_not_started_and_starts_it(self, operator: Client) -> None:
        delivery, start = started(kind="later")
        shown = page(operator, f"/inbox/{delivery.pk}/")
        assert "No kind of job is called &#x27;later&#x27;" in shown
        assert f'name="start" value="{start.pk}"' in shown
        url = f"/inbox/{delivery.pk}/start/"
        answer = operator.post(url, {"start": start.pk}, follow=True)
        assert "No kind of job is called" in answer.content.decode()
        farm.kind("later")
        answer = operator.post(url, {"start": start.pk}, follow=True)
        job = Job.objects.get()
        assert f"Job #{job.pk} was started" in answer.content.decode()
        assert operator.post(url, {"start": start.pk}, follow=True).status_code == 200
        assert Job.objects.count() == 1
        assert LogEntry.objects.filter(object_id=str(delivery.pk)).count() == 2

    @pytest.mark.parametrize("start", ["", "x", "999999", "-1", "9" * 30])
    def test_finds_no_start_that_is_not_this_deliverys(self, operator: Client, start: str) -> None:
        delivery, other = started(kind="later")
        another = receive(delivery_id="d-2", event_type="none")
        assert operator.post(f"/inbox/{delivery.pk}/start/", {"start": start}).status_code == 404
        assert operator.post(f"/inbox/{another.pk}/start/", {"start": other.pk}).status_code == 404

    def test_is_not_acted_on_by_who_may_only_look(self, watcher: Client) -> None:
        delivery, start = started(kind="later")
        shown = page(watcher, f"/inbox/{delivery.pk}/")
        assert 'id="start-again"' not in shown
        assert watcher.post(f"/inbox/{delivery.pk}/start/", {"start": start.pk}).status_code == 404

    def test_replays_with_its_jobs_where_that_is_asked(self, operator: Client) -> None:
        delivery, _ = started()
        operator.post(f"/inbox/{delivery.pk}/replay/")
        pass_time()
        assert Job.objects.count() == 1
        operator.post(f"/inbox/{delivery.pk}/replay/", {"with_jobs": "yes"})
        pass_time()
        assert Job.objects.count() == 2
        assert "replay 1" in page(operator, f"/inbox/{delivery.pk}/")

    def test_replays_many_with_their_jobs_where_that_is_asked(self, operator: Client) -> None:
        started()
        assert 'name="with_jobs"' in page(operator, "/inbox/replays/new/?source=github")
        for data, count in (({}, 1), ({"with_jobs": "yes"}, 2)):
            operator.post("/inbox/replays/new/", {"source": "github", **data})
            for _ in range(3):
                pass_time()
            assert Job.objects.count() == count

    def test_escapes_what_a_sender_or_a_rule_says(self, operator: Client) -> None:
        delivery, _ = started(name=NASTY, kind=NASTY)
        for url in (f"/inbox/{delivery.pk}/", RULES, STARTS):
            assert NASTY not in page(operator, url)


class TestTheJobsPage:
    def test_shows_the_delivery_that_started_it(self, operator: Client) -> None:
        delivery, start = started()
        shown = page(operator, f"/jobs/{start.job_id}/")
        assert f'Started by <a href="/inbox/{delivery.pk}/">delivery #{delivery.pk} of GitHub</a>' in shown
        assert "by the rule deploy main" in shown

    def test_shows_the_deliveries_that_it_stands_for(self, operator: Client) -> None:
        _, start = started(unique_key="one")
        other = receive({"ref": "other"}, delivery_id="d-2")
        pass_time()
        shown = page(operator, f"/jobs/{start.job_id}/")
        assert f'Stands for <a href="/inbox/{other.pk}/">' in shown

    def test_shows_no_delivery_to_who_may_not_see_any(self) -> None:
        owner = farm.user("ada")
        delivery, start = started(owner=owner)
        shown = page(browser(owner), f"/jobs/{start.job_id}/")
        assert f"delivery #{delivery.pk}" not in shown
        assert "deploy main" not in shown
        mate = User.objects.create_user("rita", is_staff=True)
        mate.user_permissions.set(Permission.objects.filter(codename="view_job"))
        assert f"delivery #{delivery.pk}" not in page(browser(mate), f"/jobs/{start.job_id}/")

    def test_shows_none_that_was_forgotten(self, operator: Client) -> None:
        _, start = started()
        Delivery.objects.all().delete()
        assert "Started by" not in page(operator, f"/jobs/{start.job_id}/")


class TestRules:
    def test_are_made_changed_and_deleted_and_leave_lines(self, operator: Client) -> None:
        assert operator.post(f"{RULES}add/", FORM).status_code == 302
        made = Rule.objects.get()
        assert (made.filter, made.payload) == (json.loads(FORM["filter"]), json.loads(FORM["payload"]))
        assert (made.queue, made.priority, made.unique_key, made.owner) == (None, None, None, None)
        assert (made.on_conflict, made.debounce) == (None, None)
        changed = {**FORM, "is_enabled": "", "priority": "5", "queue": "deploy", "unique_key": "{{ delivery_id }}"}
        changed |= {"debounce": '{"quiet": 10, "at_most": 120}'}
        assert operator.post(f"{RULES}{made.pk}/change/", changed).status_code == 302
        made.refresh_from_db()
        assert (made.is_enabled, made.priority, made.queue) == (False, 5, "deploy")
        assert made.debounce == {"quiet": 10, "at_most": 120}
        assert operator.post(f"{RULES}{made.pk}/delete/", {"post": "yes"}).status_code == 302
        assert not Rule.objects.exists()
        assert LogEntry.objects.filter(object_id=str(made.pk)).count() == 3

    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"kind": "gone"}, "No kind of job is called"),
            ({"queue": "nowhere"}, "There is no queue"),
            ({"priority": "101"}, "from -100 to 100"),
            ({"event": "*.opened"}, "is no event"),
            ({"filter": "{"}, "is not JSON"),
            ({"filter": "[]"}, "an object of paths"),
            ({"filter": '{"nobody": 1}'}, "begins with none of"),
            ({"payload": ""}, "This field is required"),
            ({"payload": "[" * 200}, "is not JSON"),
            ({"payload": '"{{ body.ref"'}, "is no placeholder"),
            ({"payload": '{"a": NaN}'}, "is not JSON"),
            ({"unique_key": "{{ nobody }}"}, "begins with none of"),
            ({"source": "paypal"}, "Select a valid choice"),
            ({"on_conflict": "after"}, "about a unique key"),
            ({"debounce": '{"quiet": 10}', "unique_key": "k"}, "Quiet and at_most"),
            ({"debounce": '{"quiet": 1, "at_most": 2}', "unique_key": "k", "on_conflict": "replace"}, "it is after"),
        ],
    )
    def test_that_make_no_sense_are_refused_with_a_sentence(
        self, operator: Client, fields: dict[str, str], sentence: str
    ) -> None:
        answer = operator.post(f"{RULES}add/", {**FORM, **fields})
        assert answer.status_code == 200
        assert sentence in answer.content.decode()
        assert not Rule.objects.exists()

    def test_whose_owner_may_not_take_that_priority_are_refused(self, operator: Client) -> None:
        owner = farm.user("ada")
        answer = operator.post(f"{RULES}add/", {**FORM, "owner": str(owner.pk), "priority": "90"})
        assert "priority" in answer.content.decode()
        assert not Rule.objects.exists()

    def test_have_every_default_when_nothing_is_said(self, operator: Client) -> None:
        operator.post(f"{RULES}add/", {**FORM, "filter": "", "payload": '"{{ body }}"'})
        made = Rule.objects.get()
        assert (made.filter, made.payload) == ({}, "{{ body }}")

    @pytest.mark.parametrize("text", ['"\\u0000"', '"\\ud800"'])
    def test_refuse_what_no_row_can_hold_and_show_it_as_it_was_typed(self, operator: Client, text: str) -> None:
        answer = operator.post(f"{RULES}add/", {**FORM, "payload": text})
        assert "This is not JSON: it holds" in answer.text
        assert text in html.unescape(answer.text)
        assert not Rule.objects.exists()

    def test_are_tried_on_a_delivery_without_starting_anything(self, operator: Client) -> None:
        kept = rule(payload={"ref": "{{ body.ref }}"}, filter={"body.ref": "main"}, is_enabled=False)
        fits = receive({"ref": "main"})
        other = receive({"ref": "other"}, delivery_id="d-2")
        url = f"{RULES}{kept.pk}/try/"
        shown = page(operator, url)
        assert f'value="{other.pk}"' in shown, "the newest of the source is proposed"
        assert "body.ref is &quot;other&quot;" in shown
        shown = page(operator, f"{url}?delivery={fits.pk}")
        assert "&quot;ref&quot;: &quot;main&quot;" in shown
        Rule.objects.update(payload="{{ body.nothing }}")
        assert "There is no body.nothing" in page(operator, f"{url}?delivery={fits.pk}")
        for wrong in ("x", "999999", "9" * 30):
            assert "There is no such delivery" in page(operator, f"{url}?delivery={wrong}")
        assert not Job.objects.exists()
        assert not JobStart.objects.exists()

    def test_are_tried_by_nobody_who_may_not_see_deliveries(self) -> None:
        kept = rule()
        client = browser(person("mia", "view_rule", is_staff=True))
        assert client.get(f"{RULES}{kept.pk}/change/").status_code == 200
        assert client.get(f"{RULES}{kept.pk}/try/").status_code == 403
        assert operatorless(f"{RULES}{kept.pk}/try/") == 302

    def test_are_changed_by_nobody_who_may_only_look(self, watcher: Client) -> None:
        kept = rule()
        assert watcher.post(f"{RULES}add/", FORM).status_code == 403
        assert watcher.post(f"{RULES}{kept.pk}/change/", FORM).status_code == 403


def operatorless(url: str) -> int:
    return Client().get(url).status_code


class TestStarts:
    def test_are_listed_and_started_again_after_a_question(self, operator: Client) -> None:
        delivery, start = started(kind="later")
        farm.kind("later")
        assert f"{STARTS}{start.pk}/change/" in page(operator, f"{STARTS}?outcome=failed")
        data = {"action": "start_selected", "_selected_action": [str(start.pk)]}
        assert "1 failed" in operator.post(STARTS, data).content.decode()
        assert not Job.objects.exists()
        answer_page = operator.post(STARTS, {**data, "confirmed": "yes"}, follow=True).content.decode()
        assert "1 started" in answer_page
        assert Job.objects.count() == 1
        assert "1 started" not in operator.post(STARTS, {**data, "confirmed": "yes"}, follow=True).content.decode()
        assert Job.objects.count() == 1
        assert f"#{Job.objects.get().pk}" in page(operator, f"/inbox/{delivery.pk}/")

    def test_are_part_of_the_replays_of_the_administration(self, operator: Client) -> None:
        delivery, _ = started()
        data = {"action": "replay_selected_with_jobs", "_selected_action": [str(delivery.pk)], "confirmed": "yes"}
        operator.post("/admin/webhooks/delivery/", data)
        pass_time()
        assert Job.objects.count() == 2
