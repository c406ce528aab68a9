"""What is refused of the Responses API: fields, parameters, responses of others, and that a record is deleted."""

from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.models import Job
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({"background": "yes"}, "background"),
            ({"background": True, "store": False}, "store"),
            ({"conversation": "c"}, "conversation"),
            ({"previous_response_id": 7}, "previous_response_id"),
            ({"stream": 1}, "stream"),
        ],
        ids=["background", "store", "conversation", "previous", "stream"],
    )
    def test_a_field_that_the_farm_reads(self, http: httpx.Client, body: Any, param: str) -> None:
        answer = http.post("responses", json={"model": "tiny", "input": "x", **body})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)

    @pytest.mark.parametrize(
        "query", ["odd=1", "stream=maybe", "starting_after=1", "stream=true&starting_after=x", "stream=true"]
    )
    def test_a_parameter_of_a_retrieval(self, http: httpx.Client, ada: User, query: str) -> None:
        job = jobs.submit("openai", {"path": "responses", "body": {"model": "tiny"}}, owner=ada)
        answer = http.get(f"responses/resp_{job.pk}?{query}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_value")

    @pytest.mark.parametrize("query", ["odd=1", "limit=0", "limit=x", "order=up", "after=none"])
    def test_a_parameter_of_a_list(self, http: httpx.Client, ada: User, query: str) -> None:
        job = jobs.submit("openai", {"path": "responses", "body": {"model": "tiny"}}, owner=ada)
        assert http.get(f"responses/resp_{job.pk}/input_items?{query}").status_code == 400

    def test_responses_of_others_and_other_calls(self, http: httpx.Client, ada: User) -> None:
        others = jobs.submit("openai", {"path": "responses", "body": {}}, owner=farm.user("eve"))
        own = jobs.submit("openai", {"path": "embeddings", "body": {}}, owner=ada)
        for job in (others, own):
            at = f"responses/resp_{job.pk}"
            answers = [http.get(at), http.get(f"{at}?stream=true"), http.delete(at), http.post(f"{at}/cancel")]
            assert [answer.status_code for answer in [*answers, http.get(f"{at}/input_items")]] == [404] * 5
        assert Job.objects.waiting().count() == 2

    def test_that_a_record_is_deleted(self, client: openai.OpenAI, ada: User) -> None:
        job = jobs.submit("openai", {"path": "responses", "body": {"model": "tiny"}}, owner=ada)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.delete(f"resp_{job.pk}")
        assert caught.value.code == "not_deletable"
        assert Job.objects.exists()
