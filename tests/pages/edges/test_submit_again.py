"""A job is submitted again from its page as an edited copy, and a waiting one is given another priority."""

import html
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from jobs import operations
from jobs.models import Job, Upload
from jobs.operations import content
from tests import farm
from tests.pages.edges.conftest import Browse, Farm


@pytest.mark.django_db
class TestACopy:
    def test_begins_with_what_the_job_has(self, little_farm: Farm, browse: Browse) -> None:
        page = browse(little_farm.ada).get(f"/jobs/new/?kind=other&like={little_farm.job.pk}").content.decode()
        assert "Why is the sky blue?" in html.unescape(page)
        assert '<option value="chat" selected>' in page

    def test_of_a_job_that_is_not_ones_own_is_not_there(self, little_farm: Farm, browse: Browse) -> None:
        address = f"/jobs/new/?kind=other&like={little_farm.job.pk}"
        assert browse(little_farm.eve).get(address).status_code == 404

    def test_keeps_a_priority_that_its_maker_may_give(self, little_farm: Farm, browse: Browse) -> None:
        job = operations.submit("chat", {}, owner=little_farm.ada, priority=-3)
        address, ada = f"/jobs/new/?kind=other&like={job.pk}", browse(little_farm.ada)
        page = ada.get(address).content.decode()
        assert 'name="priority" value="-3"' in page
        form = {"kind_name": "chat", "payload_text": "{}", "priority": "-3"}
        assert ada.post(address, form).status_code == 302
        assert Job.objects.latest("pk").priority == -3
        Job.objects.filter(pk=job.pk).update(priority=9)
        assert 'name="priority" value' not in ada.get(address).content.decode()
        refused = ada.post(address, form | {"priority": "9"}).content.decode()
        assert "priority 9" in refused

    @pytest.mark.parametrize("like", ["", "x", "-1"])
    def test_of_none_is_an_empty_form(self, little_farm: Farm, browse: Browse, like: str) -> None:
        assert browse(little_farm.ada).get("/jobs/new/", {"kind": "other", "like": like}).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("redact", ["", "blue"])
def test_a_job_whose_content_is_not_kept_offers_no_copy_and_says_why(
    little_farm: Farm, browse: Browse, redact: str
) -> None:
    farm.kind("secret", keep_content=False, redact=redact)
    job, ada = operations.submit("secret", {"prompt": "blue"}, owner=little_farm.ada), browse(little_farm.ada)
    copy = f"/jobs/new/?kind=other&like={job.pk}"
    farm.end(job, "success")
    assert copy in html.unescape(ada.get(f"/jobs/{job.pk}/").content.decode())
    content.delete_content(job_ids=[job.pk])
    page = html.unescape(ada.get(f"/jobs/{job.pk}/").content.decode())
    assert "What this job was given is not kept as it was, so it cannot be submitted again." in page
    offers = copy, f"/jobs/{job.pk}/clone/", f"/jobs/{job.pk}/retry/", "as-curl"
    assert [each for each in offers if each in page] == []
    for answer in (
        ada.get(copy, follow=True),
        *(ada.post(f"/jobs/{job.pk}/{act}/", follow=True) for act in ("clone", "retry")),
    ):
        assert answer.redirect_chain == [(f"/jobs/{job.pk}/", 302)]
        assert f"What job {job.pk} was given and gave is not kept as it was" in answer.content.decode()
    form = {"kind_name": "secret", "payload_text": "3"}
    assert ada.post(copy, form).status_code == 302, "what was typed meanwhile is submitted"
    assert Job.objects.whole().latest("pk").payload == 3


@pytest.mark.django_db
def test_a_payload_too_long_for_a_command_is_not_printed(little_farm: Farm, browse: Browse) -> None:
    job = operations.submit("chat", {"prompt": "x" * 30_000}, owner=little_farm.ada)
    page = browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode()
    assert "The payload is too long to be shown as a command" in page
    assert 'id="as-curl"' not in page


@pytest.mark.django_db
class TestThePriority:
    def test_is_changed_on_the_page(self, little_farm: Farm, browse: Browse) -> None:
        address = f"/jobs/{little_farm.job.pk}/priority/"
        answer = browse(little_farm.ada).post(address, {"priority": "-5"}, follow=True)
        assert "The priority is -5." in answer.content.decode()
        assert Job.objects.get(pk=little_farm.job.pk).priority == -5

    @pytest.mark.parametrize(
        ("priority", "sentence"),
        [("x", "Enter a whole number."), ("101", "less than or equal to 100"), ("7", "priority 7")],
    )
    def test_is_refused_with_the_reason(self, little_farm: Farm, browse: Browse, priority: str, sentence: str) -> None:
        address = f"/jobs/{little_farm.job.pk}/priority/"
        answer = browse(little_farm.ada).post(address, {"priority": priority}, follow=True)
        assert sentence in html.unescape(answer.content.decode())
        assert Job.objects.get(pk=little_farm.job.pk).priority == 0


@pytest.mark.django_db
def test_a_clone_is_submitted_at_once(little_farm: Farm, browse: Browse) -> None:
    answer = browse(little_farm.ada).post(f"/jobs/{little_farm.job.pk}/clone/", follow=True)
    made = Job.objects.latest("pk")
    assert answer.redirect_chain[-1][0] == f"/jobs/{made.pk}/"
    assert f"Submitted as job #{made.pk}, like #{little_farm.job.pk}." in answer.content.decode()
    assert made.payload == Job.objects.get(pk=little_farm.job.pk).payload


@pytest.mark.django_db
def test_a_page_says_what_a_copy_leaves_out(little_farm: Farm, browse: Browse) -> None:
    usual = operations.submit("chat", {"prompt": "Why?"}, owner=little_farm.ada)
    other = operations.submit("chat", {}, owner=little_farm.ada, unique_key="one", max_attempts=77)
    pages = [browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode() for job in (usual, other)]
    assert "An edited copy and these calls" not in pages[0]
    assert "leave out this job&#x27;s unique key, number of attempts." in pages[1].replace("'", "&#x27;").replace(
        "job's", "job&#x27;s"
    )


@pytest.mark.django_db
def test_a_concurrency_key_is_left_out_only_where_it_was_given_at_submit(little_farm: Farm, browse: Browse) -> None:
    farm.kind("keyed", concurrency=1, concurrency_key="{account}")
    keys: tuple[Any, ...] = ({}, {"concurrency_key": "other"})
    jobs = [operations.submit("keyed", {"account": "a"}, owner=little_farm.ada, **key) for key in keys]
    pages = [browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode() for job in jobs]
    assert ["concurrency key." in page for page in pages] == [False, True]


@pytest.mark.django_db
class TestAFormThatIsSentTwice:
    """As a double click does it where no script stops the second one."""

    def test_is_one_job_and_another_where_it_was_changed_or_shown_anew(self, little_farm: Farm, browse: Browse) -> None:
        ada, address = browse(little_farm.ada), "/jobs/new/?kind=chat"
        shown = [_token(ada.get(address).content.decode()) for _ in range(2)]
        sent = [(shown[0], "Why?"), (shown[0], "Why?"), (shown[0], "How?"), (shown[1], "Why?")]
        forms = [{"csrfmiddlewaretoken": token, "prompt": prompt} for token, prompt in sent]
        first, again, *others = (ada.post(address, form).headers["Location"] for form in forms)
        assert (first == again, len({first, *others})) == (True, 3)
        assert Job.objects.filter(owner=little_farm.ada).count() == 1 + 3

    def test_is_one_job_with_the_files_of_the_first(self, little_farm: Farm, browse: Browse) -> None:
        ada, form = browse(little_farm.ada), {"kind_name": "chat", "payload_text": "{}", "csrfmiddlewaretoken": "shown"}
        forms = [form | {"uploads": SimpleUploadedFile("a.txt", content)} for content in (b"one", b"one", b"two")]
        first, again, other = (ada.post("/jobs/new/?kind=other", each).headers["Location"] for each in forms)
        assert (first == again, first == other) == (True, False)
        assert Upload.objects.count() == 2

    def test_is_refused_as_often_as_it_has_to_be(self, little_farm: Farm, browse: Browse) -> None:
        twin = operations.submit("chat", {}, owner=little_farm.ada, unique_key="one")
        ada = browse(little_farm.ada)
        form = {"csrfmiddlewaretoken": "shown", "prompt": "Why?", "unique_key": "one"}
        assert [ada.post("/jobs/new/?kind=chat", form).status_code for _ in range(2)] == [422, 422]
        operations.cancel(twin.pk, by=None)
        assert ada.post("/jobs/new/?kind=chat", form).status_code == 302


@pytest.mark.django_db
def test_the_form_names_no_column(little_farm: Farm, browse: Browse) -> None:
    form = {"prompt": "Why?", "on_conflict": "replace"}
    page = browse(little_farm.ada).post("/jobs/new/?kind=chat", form).content.decode()
    assert "it is about a unique key, and there is none" in page
    assert re.findall(r">[^<]*(?:on_conflict|unique_key)[^<]*<", page) == []


def _token(page: str) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found is not None
    return found[1]
