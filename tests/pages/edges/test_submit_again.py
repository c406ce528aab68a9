"""A job is submitted again from its page as an edited copy, and a waiting one is given another priority."""

import html

import pytest

from jobs import operations
from tests.pages.edges.conftest import Browse, Farm


@pytest.mark.django_db
class TestACopy:
    def test_begins_with_what_the_job_has(self, little_farm: Farm, browse: Browse) -> None:
        page = (
            browse(little_farm.ada).get(f"/jobs/new/?kind=other&like={little_farm.job.pk}").content.decode()
        )
        assert "Why is the sky blue?" in html.unescape(page)
        assert '<option value="chat" selected>' in page

    def test_of_a_job_that_is_not_ones_own_is_not_there(self, little_farm: Farm, browse: Browse) -> None:
        address = f"/jobs/new/?kind=other&like={little_farm.job.pk}"
        assert browse(little_farm.eve).get(address).status_code == 404

    @pytest.mark.parametrize("like", ["", "x", "-1"])
    def test_of_none_is_an_empty_form(self, little_farm: Farm, browse: Browse, like: str) -> None:
        assert browse(little_farm.ada).get("/jobs/new/", {"kind": "other", "like": like}).status_code == 200


@pytest.mark.django_db
def test_a_payload_too_long_for_a_command_is_not_printed(little_farm: Farm, browse: Browse) -> None:
    job = operations.submit("chat", {"prompt": "x" * 30_000}, owner=little_farm.ada)
    page = browse(little_farm.ada).get(f"/jobs/{job.pk}/").content.decode()
    assert "The payload is too long to be shown as a command" in page
    assert 'id="as-curl"' not in page


@pytest.mark.django_db
def test_a_waiting_job_is_given_another_priority_after_a_confirmation(
    little_farm: Farm, browse: Browse
) -> None:
    data = {"job": little_farm.job.pk, "action": "change_priority", "new_priority": "-5"}
    answer = browse(little_farm.ada).post("/jobs/bulk/", data, follow=True)
    assert "Give the priority -5 to 1 job?" in answer.content.decode()
