"""The server ends: what the callers notice of it, and where their answers are."""

import threading
from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.models import Job
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import offers
from tests.openai_api.edges.test_workers import process
from tests.openai_api.model_server import ModelServer, Script, delta
from tests.servers import Serving, serve

pytestmark = pytest.mark.django_db(transaction=True)
HELLO: Any = [{"role": "user", "content": "Say hello."}]


class TestAServerThatEnds:
    def test_ends_streams_with_an_error_that_names_the_job_which_goes_on(
        self, serving: Serving, transactional_db: None, model: ModelServer, ada: User, key: str
    ) -> None:
        serving.end()
        jobs.sync()
        rest = threading.Event()
        model.scripts = [Script([delta(content="Hel"), rest, delta(content="lo."), *model_server.END])]
        with serve() as server, process(server, model):
            offers(ada, "tiny")
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
                stream = iter(client.chat.completions.create(model="tiny", messages=HELLO, stream=True))
                next(stream)
                server.stop()
                with pytest.raises(openai.APIError) as caught:
                    next(stream)
            assert caught.value.code == "interrupted"
            job = Job.objects.get()
            assert f"/v1/chat/completions/{job.pk}" in caught.value.message
            server.start()
            rest.set()
            at = f"{server.url}/v1/chat/completions/{job.pk}/events"
            head = {"Authorization": f"Bearer {key}", "Last-Event-ID": "1.1"}
            resumed = httpx.get(at, headers=head, timeout=60).text
            assert '"lo."' in resumed
            assert '"Hel"' not in resumed
            assert resumed.endswith("data: [DONE]\n\n")


def test_as_many_follow_the_calls_of_one_person_as_event_streams(
    serving: Serving, transactional_db: None, model: ModelServer, ada: User, key: str
) -> None:
    serving.end()
    jobs.sync()
    rest = threading.Event()
    model.scripts = [Script([delta(content="Hel"), rest, *model_server.END])]
    with serve(JOBFARM_EVENT_STREAMS_PER_PERSON="1") as server, process(server, model):
        offers(ada, "tiny")
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            next(iter(client.chat.completions.create(model="tiny", messages=HELLO, stream=True)))
            at = f"{server.url}/v1/chat/completions/{Job.objects.get().pk}/events"
            head = {"Authorization": f"Bearer {key}"}
            with httpx.stream("GET", at, headers=head, timeout=60) as first:
                assert first.status_code == 200
                refused = httpx.get(at, headers=head, timeout=60)
                assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_reached")
            rest.set()
