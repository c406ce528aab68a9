"""Flow templates: kept by people, started by code, the API, crons and rules, each start one flow or none."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs import operations
from jobs.errors import InvalidValue, JobsError, NotUnique, UnknownKind, UnknownTemplate
from jobs.models import Flow, FlowTemplate, Job, Step
from jobs.operations import from_crons
from scheduling import registry
from tests import farm
from tests.jobs.flows.test_api import call

pytestmark = pytest.mark.django_db(transaction=True)
JOBS: list[dict[str, Any]] = [
    {"name": "split", "kind": "work", "payload": {"document": "{{ document }}", "of": "part {{ number }}"}},
    {"name": "left", "kind": "work", "after": ["split"], "tags": ["to:{{ language }}"], "priority": -5},
    {"name": "join", "kind": "work", "after": ["split", "left"], "when": "ended", "payload": "{{ document.id }}"},
]
PLACEHOLDERS = {"document": None, "number": 7, "language": "en"}


@pytest.fixture
def template() -> FlowTemplate:
    farm.kind()
    return FlowTemplate.objects.create(name="translate", placeholders=PLACEHOLDERS, jobs=JOBS)


def flows() -> int:
    return len({*Job.objects.values_list("flow_id", flat=True)})


def test_its_jobs_are_submitted_with_values_in_place_of_placeholders(template: FlowTemplate) -> None:
    started = operations.submit_flow("translate", document={"id": 3}, language="de")
    split, left, join = (Job.objects.whole().get(pk=one) for one in started.jobs)
    assert (split.payload, join.payload) == ({"document": {"id": 3}, "of": "part 7"}, 3), "a value keeps its type"
    assert (left.tags, left.priority) == (["to:de"], -5)
    assert {one.flow_id for one in (split, left, join)} == {started.id}
    assert {*Step.objects.values_list("name", "depth")} == {("split", 0), ("left", 1), ("join", 2)}


def test_a_list_is_a_template_without_a_name() -> None:
    farm.kind()
    owner = farm.user("ada")
    new: list[dict[str, Any]] = [{"name": "a", "kind": "work", "payload": "{{ x }}", "unique_key": "{{ x }}"},
           {"name": "b", "kind": "work", "after": ["a"]}]  # fmt: skip
    started = operations.submit_flow(new, owner=owner, x=5)
    first = Job.objects.whole().get(pk=started.jobs[0])
    assert (first.owner, first.payload, first.unique_key) == (owner, 5, "5")
    with pytest.raises(NotUnique):
        operations.submit_flow(new, owner=owner, x=5)
    assert Job.objects.count() == 2, "all of them or none"


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "There is no document, which the template needs"),
        ({"document": None}, "There is no document"),
        ({"document": {}}, "There is no document.id"),
        ({"document": {"id": 1}, "langauge": "de"}, "there is no placeholder 'langauge'"),
        ({"document": {"id": 1}, "language": "x" * 2_000_000}, "more than 1000000 bytes"),
        ({"document": {"id": 1}, "language": "a b"}, "tag"),
    ],
)
def test_values_that_do_not_fit_start_nothing(template: FlowTemplate, values: dict[str, Any], why: str) -> None:
    with pytest.raises(JobsError, match=why):
        operations.submit_flow("translate", **values)
    assert not Job.objects.exists()
    with pytest.raises(UnknownTemplate, match="no flow template 'other'"):
        operations.submit_flow("other")


@pytest.mark.parametrize(
    ("jobs", "placeholders", "why"),
    [
        ([{"name": "a", "kind": "none"}], {}, "No kind of job is called 'none'"),
        ([{"name": "a", "kind": "{{ kind }}"}], {"kind": "work"}, "No kind of job is called"),
        ([{"name": "a", "kind": "work", "payload": ["{{ b.c }}"]}], {"a": 1}, "'b' is none of its placeholders: a"),
        ([{"name": "a", "kind": "work", "payload": "{{ b c }}"}], {}, "is no placeholder"),
        ([{"name": "a", "kind": "work", "after": ["b"]}, {"name": "b", "kind": "work", "after": ["a"]}], {}, "circle"),
        ([{"name": "a", "kind": "work", "after": ["b"]}], {}, "no job of this call is called 'b'"),
        ([{"name": "a", "kind": "work", "after": [7]}], {}, "names of other jobs"),
        ([{"kind": "work"}], {}, "job 1: it has no name"),
        ([{"name": "a", "kind": "work", "files": {}}], {}, "job 1: there is no 'files'"),
        ([{"name": "a", "kind": "work", "priority": "high"}], {}, "its priority cannot be 'high'"),
        ([{"name": "a", "kind": "work", "priority": 101}], {}, "priority"),
        ([{"name": "a", "kind": "work", "queue": "nowhere"}], {}, "no queue 'nowhere'"),
        ([7], {}, "an object with a name and a kind"),
        ([], {}, "a list of 1 to 1,000 jobs"),
        ({"a": 1}, {}, "a list of 1 to 1,000 jobs"),
        (JOBS, {"owner": "ada"}, "'owner' is no name"),
        (JOBS, [], "an object of names"),
    ],
)
def test_what_could_never_start_is_not_kept(jobs: Any, placeholders: Any, why: str) -> None:
    farm.kind()
    with pytest.raises(JobsError) as refused:
        operations.check_template(jobs, placeholders)
    assert why in refused.value.message


def test_a_form_that_is_sent_twice_starts_one_flow(template: FlowTemplate) -> None:
    admin = Client()
    admin.force_login(farm.user("root", is_staff=True, is_superuser=True))
    FlowTemplate.objects.filter(pk="translate").update(jobs=JOBS[:2])
    start = "/admin/jobs/flowtemplate/translate/start/"
    shown = r'name="csrfmiddlewaretoken" value="([^"]+)"'
    keys = [re.findall(shown, admin.get(start).content.decode())[0] for _ in range(2)]
    values = {"document": "text", "number": "8"}
    forms = [values | {"csrfmiddlewaretoken": key} for key in (keys[0], *keys)]
    first, again, other = (admin.post(start, form, follow=True) for form in forms)
    assert first.redirect_chain == again.redirect_chain != other.redirect_chain
    assert "and is not a second time" in again.content.decode()
    assert "Started as flow" in other.content.decode()
    assert Flow.objects.count() == 2
    admin.post(start, {"document": "other", "number": "8", "csrfmiddlewaretoken": keys[0]})
    assert Flow.objects.count() == 3


def test_people_keep_them_in_the_administration_and_start_them_by_a_form(template: FlowTemplate) -> None:
    admin = Client()
    admin.force_login(farm.user("root", is_staff=True, is_superuser=True))
    new = {"name": "report", "description": "", "placeholders": "{}", "jobs": '[{"name": "a", "kind": "nothing"}]'}
    page = admin.post("/admin/jobs/flowtemplate/add/", new).content.decode()
    assert "No kind of job is called &#x27;nothing&#x27;" in page
    new["jobs"] = '[{"name": "a", "kind": "work"}'
    assert "This is not JSON" in admin.post("/admin/jobs/flowtemplate/add/", new).content.decode()
    new["jobs"] += "]"
    assert admin.post("/admin/jobs/flowtemplate/add/", new).status_code == 302
    assert FlowTemplate.objects.get(pk="report").jobs == [{"name": "a", "kind": "work"}]

    page = admin.get("/admin/jobs/flowtemplate/translate/start/").content.decode()
    assert 'name="document"' in page
    assert 'value="en"' in page
    start = "/admin/jobs/flowtemplate/translate/start/"
    assert "There is no document, which the template needs" in admin.post(start, {"document": ""}).content.decode()
    refused = admin.post(start, {"document": "text", "number": "8", "language": "de"}).content.decode()
    assert "There is no document.id" in refused
    FlowTemplate.objects.filter(pk="translate").update(jobs=JOBS[:2])
    answer = admin.post(start, {"document": "text", "number": "8", "language": ""})
    job = Job.objects.whole().get(step__name="split")
    assert answer.headers["Location"] == f"/flows/{job.flow_id}/"
    assert (job.payload, job.owner and job.owner.username) == ({"document": "text", "of": "part 8"}, "root")
    assert admin.get("/admin/jobs/flowtemplate/none/start/").status_code == 302
    nobody = Client()
    nobody.force_login(farm.user("oscar", is_staff=True))
    assert nobody.get(start).status_code == 403
    cron = admin.get("/admin/jobs/flowtemplate/translate/by-cron/").headers["Location"]
    assert "start_flow" in cron
    assert admin.get(cron).status_code == 200


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\u0000"', "NaN", "9" * 5000, "[" * 3000 + "]" * 3000])
def test_what_can_be_no_json_of_a_row_is_told_beside_its_field(template: FlowTemplate, text: str) -> None:
    admin = Client()
    admin.force_login(farm.user("root", is_staff=True, is_superuser=True))
    new = {"name": "report", "placeholders": "{}", "jobs": f'[{{"name": "a", "kind": "work", "payload": {text}}}]'}
    assert "This is not JSON" in admin.post("/admin/jobs/flowtemplate/add/", new).content.decode()
    start = "/admin/jobs/flowtemplate/translate/start/"
    assert "This is not JSON" in admin.post(start, {"document": "text", "number": text}).content.decode()


@pytest.fixture
def ada() -> User:
    return farm.user("ada")


def test_the_api_starts_one_for_its_caller_and_a_repeat_starts_none(template: FlowTemplate, ada: User) -> None:
    body = {"template": "translate", "values": {"document": {"id": 1}}}
    answer = call(ada, "flows", body)
    assert answer.status_code == 201
    flow = answer.json()
    assert [one["name"] for one in flow["jobs"]] == ["split", "left", "join"]
    assert {*Job.objects.values_list("owner__username", flat=True)} == {"ada"}
    assert flow == call(ada, f"flows/{flow['id']}").json()
    refusals = [
        ({"template": "other"}, 422, "unknown_template"),
        ({"template": "translate"}, 422, "invalid"),
        ({"template": "translate", "values": []}, 422, "invalid"),
    ]
    for wrong, status, code in refusals:
        refused = call(ada, "flows", wrong)
        assert (refused.status_code, refused.json()["error"]) == (status, code)
    assert call(ada, "flows", body, scopes=("read",)).status_code == 403


def test_the_same_request_twice_is_one_flow(template: FlowTemplate, ada: User) -> None:
    page = Client()
    page.force_login(ada)
    body = {"template": "translate", "values": {"document": {"id": 1}}}
    key = {"Idempotency-Key": "once", "X-CSRFToken": "-"}
    first, again = (
        page.post("/api/v1/flows", body, content_type="application/json", headers=key).json() for _ in range(2)
    )
    assert first["id"] == again["id"]
    assert Job.objects.count() == 3


def test_a_token_that_may_only_submit_is_shown_what_its_request_submitted(template: FlowTemplate, ada: User) -> None:
    body = {"template": "translate", "values": {"document": {"id": 1}}}
    first = call(ada, "flows", body, scopes=("submit",), key="once").json()
    operations.submit("work", "later", owner=ada, after=[first["jobs"][0]["id"]])
    operations.cancel(first["jobs"][0]["id"], by=None)
    again = call(ada, "flows", body, scopes=("submit",), key="once").json()
    assert [one["name"] for one in again["jobs"]] == ["split", "left", "join"]
    assert again["jobs"][0]["status"] == "canceled", "as a submit that is repeated says how its job stands"
    assert (sum(again["counts"].values()), again["usage"]) == (3, None)
    tried = operations.retry(first["jobs"][0]["id"], by=ada)
    again = call(ada, "flows", body, scopes=("submit",), key="once").json()
    assert [one["name"] for one in again["jobs"]] == ["split", "left", "join"]
    assert again["jobs"][0]["id"] == tried.pk, "which has the place of the first, as anybody sees it"
    whole = call(ada, "flows", body, scopes=("submit", "read"), key="once").json()
    assert len(whole["jobs"]) == sum(whole["counts"].values()) == 4


def test_a_cron_starts_one_and_knows_whether_it_lives(template: FlowTemplate) -> None:
    offer = registry.offered(registry.dotted_name(from_crons.start_flow))
    assert offer is not None
    for args, error in (
        ({"template": "other", "values": {}}, UnknownTemplate),
        ({"template": "translate", "values": {}}, InvalidValue),
        ({"template": 7, "values": {}}, InvalidValue),
        ({"template": "translate", "values": {"by": "x"}}, InvalidValue),
    ):
        with pytest.raises(error):
            offer.check(args)
    good: dict[str, Any] = {"template": "translate", "values": {"document": {"id": 1}}}
    offer.check(good)
    flow_id = registry.find(from_crons.start_flow).call(**good)
    assert offer.lives([None, flow_id])
    operations.flows.cancel(flow_id, by=None)
    assert not offer.lives([flow_id])
    FlowTemplate.objects.update(jobs=[{"name": "a", "kind": "work", "unique_key": "k"}])
    assert [registry.find(from_crons.start_flow).call(template="translate", values={}) is None for _ in "ab"] == [
        False,
        True,
    ]
    FlowTemplate.objects.update(jobs=[{"name": "a", "kind": "gone"}])
    with pytest.raises(UnknownKind):
        offer.check({"template": "translate", "values": {}})
