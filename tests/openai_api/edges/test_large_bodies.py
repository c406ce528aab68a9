"""Calls of many megabytes: a part is stored once, caller and model server see one body, the gateway stays small."""

import base64
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from django.contrib.auth.models import User
from django.db.models import Sum

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.models import Input, Job, ResultFile, Upload
from tests import farm
from tests.openai_api.edges.conftest import Working, offers
from tests.openai_api.model_server import ModelServer, Script, completion, whole
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
MB = 1_000_000


def picture(size: int, *, number: int = 0) -> str:
    """A data: URL of this length, of which no two numbers share one."""
    head = f"data:image/png;base64,{number:08}"
    return head + "iVBO" * ((size - len(head)) // 4)


def answered(text: str) -> Script:
    return whole(**completion(text))


def inputs_of(job: Job) -> list[dict[str, Any]]:
    """What the job's record says of its input files, which it has."""
    assert job.inputs
    return [*job.inputs]


def seen(url: str, *, text: str = "What is it?") -> dict[str, Any]:
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    return {"role": "user", "content": parts}


def memory_kb(pid: int) -> int:
    """What a process has in memory now."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


@contextmanager
def measured(pid: int) -> Iterator[list[int]]:
    """What this process had in memory at most within the block, beyond what it had before, in kB."""
    before, most, is_over = memory_kb(pid), [0], threading.Event()

    def look() -> None:
        while not is_over.wait(0.005):
            most[0] = max(most[0], memory_kb(pid) - before)

    watching = threading.Thread(target=look)
    watching.start()
    try:
        yield most
    finally:
        is_over.set()
        watching.join()


class TestAPicture:
    def test_that_comes_with_each_turn_of_a_chat_is_stored_once(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        url, number = picture(20 * MB), [0]
        messages: list[Any] = [seen(url)]
        model.answer = lambda _: answered(f"Answer {number[0]}.")
        with working():
            for turn in range(5):
                number[0] = turn
                answer = client.chat.completions.create(model="tiny", messages=messages)
                assert answer.choices[0].message.content == f"Answer {turn}."
                assert model.requests[-1]["messages"] == messages
                messages += [{"role": "assistant", "content": f"Answer {turn}."}, {"role": "user", "content": "More."}]
        [part] = Upload.objects.all()
        assert (part.size, Input.objects.filter(upload=part).count()) == (len(url) + 2, 5)
        for job in Job.objects.whole():
            assert len(json.dumps(job.payload)) < 2_000
            kept = job.payload["body"]["messages"][0]["content"][1]["image_url"]["url"]
            assert kept == {"jobfarm_part": inputs_of(job)[0]["name"], "size": part.size, "begins": url[:39]}

    def test_of_two_people_is_each_ones_own(
        self, server: Server, http: httpx.Client, model: ModelServer, working: Working, ada: User, bob: User
    ) -> None:
        body = {"model": "tiny", "messages": [seen(picture(MB))]}
        model.answer = lambda _: answered("A cat.")
        bobs = {"Authorization": f"Bearer {accounts.create_token(bob, name='t', scopes=['submit', 'read'])[1]}"}
        with working():
            assert http.post("chat/completions", json=body).status_code == 200
            assert http.post("chat/completions", json=body, headers=bobs).status_code == 200
        assert sorted(Upload.objects.values_list("owner_id", flat=True)) == sorted([ada.pk, bob.pk])
        job = Job.objects.whole().get(owner=ada)
        [part] = inputs_of(job)
        for address in (f"jobs/{job.pk}/inputs/{part['name']}", f"files/{part['file']}"):
            assert httpx.get(f"{server.url}/api/v1/{address}", headers=bobs).status_code == 404
        # Naming it in a payload of his own opens nothing: it stays the object that he wrote.
        own = {**job.payload["body"], "user": "bob"}
        model.requests.clear()
        with working():
            assert http.post("chat/completions", json=own, headers=bobs).status_code == 200
        assert model.requests == [{"path": "/v1/chat/completions", **own}]

    def test_in_a_long_history_is_stored_beside_it(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        history: list[Any] = [{"role": "user", "content": f"Line {n}. " * 200} for n in range(2000)]
        history.insert(7, seen(picture(MB)))
        model.scripts = [answered("Yes.")]
        with working():
            client.chat.completions.create(model="tiny", messages=history)
        assert model.requests[0]["messages"] == history
        job = Job.objects.whole().get()
        assert [entry["at"] for entry in inputs_of(job)] == [
            [["body", "messages"]], [["body", "messages", 7, "content", 1, "image_url", "url"]]
        ]  # fmt: skip
        assert job.payload["body"]["model"] == "tiny"

    def test_is_part_of_a_conversation_that_goes_on(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        url = picture(MB)
        request: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]}]
        model.answer = lambda _: answered("A lighthouse.")
        with working():
            first = client.responses.create(model="tiny", input=request)
            second = client.responses.create(model="tiny", input="By night?", previous_response_id=first.id)
            listed = client.responses.input_items.list(second.id, order="asc")
        assert model.requests[1]["messages"][0] == model.requests[0]["messages"][0]
        assert url in json.dumps(model.requests[1]["messages"][0])
        assert url in listed.data[0].model_dump_json()
        assert [part.size for part in Upload.objects.all() if part.size > MB // 2] == [len(url) + 2]


class TestABody:
    def test_of_50_mb_is_taken_and_a_byte_more_refused(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [answered("Long.")]
        head, end = b'{"model": "tiny", "messages": [{"role": "user", "content": "', b'"}]}'
        content = head + b"x" * (50 * MB - len(head) - len(end)) + end
        with working(), httpx.Client(base_url=http.base_url, headers=http.headers, timeout=60) as patient:
            assert patient.post("chat/completions", content=content).status_code == 200
            refused = patient.post("chat/completions", content=content + b" ")
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
        assert Job.objects.count() == 1
        assert len(model.requests[0]["messages"][0]["content"]) == 50 * MB - len(head) - len(end)

    def test_with_2048_texts_gets_2048_vectors(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        texts = [f"Text {n} of many. " * 60 for n in range(2048)]
        vector = base64.b64encode(os.urandom(4 * 1536)).decode()
        data = [{"object": "embedding", "index": n, "embedding": vector} for n in range(2048)]
        usage = {"prompt_tokens": 9, "total_tokens": 9}
        model.scripts = [whole(object="list", data=data, model="tiny", usage=usage)]
        with working():
            answer = client.embeddings.create(model="tiny", input=texts)
        assert (len(answer.data), len(answer.data[2047].embedding)) == (2048, 1536)
        assert model.requests[0]["input"] == texts
        job = Job.objects.whole().get()
        assert job.payload["body"]["input"]["size"] == len(json.dumps(texts, separators=(",", ":")))
        assert job.result == {"answer_file": "answer.json", "usage": usage}
        assert ResultFile.objects.get().size > 16 * MB

    def test_whose_worker_dies_while_it_fetches_it_goes_to_the_next(
        self, server: Server, client: openai.OpenAI, model: ModelServer, working: Working, ada: User
    ) -> None:
        _, key = jobs.create_worker("dies", queues=["openai"])
        model.scripts = [answered("Here.")]
        messages: Any = [seen(picture(20 * MB))]
        with ThreadPoolExecutor(1) as pool, httpx.Client(
            base_url=f"{server.url}/api/v1/worker/", headers={"Authorization": f"Bearer {key}"}, timeout=30
        ) as dies:  # fmt: skip
            dies.post("hello", json={"models": ["tiny"]})
            offers(ada, "tiny")
            calling = pool.submit(client.chat.completions.create, model="tiny", messages=messages)
            [job] = dies.post("claim", json={"wait": 20}).json()["jobs"]
            [file] = job["files"]
            at = f"jobs/{job['id']}/inputs/{file['name']}"
            with dies.stream("GET", at, params={"lease": job["lease"]}) as fetching:
                assert next(fetching.iter_raw())
            farm.lose(Job.objects.get())
            jobs.sweep()
            dies.post("hello", json={"models": ["tiny"], "leaving": True})
            with working():
                assert calling.result().choices[0].message.content == "Here."
        assert model.requests[0]["messages"] == messages

    def test_is_answered_by_what_any_worker_hands_in(
        self, server: Server, http: httpx.Client, client: openai.OpenAI, ada: User
    ) -> None:
        """As one of another program does, whose result is too long for a row."""
        _, key = jobs.create_worker("own", queues=["openai"])
        answer = completion(picture(3 * MB))
        with ThreadPoolExecutor(1) as pool, httpx.Client(
            base_url=f"{server.url}/api/v1/worker/", headers={"Authorization": f"Bearer {key}"}, timeout=30
        ) as worker:  # fmt: skip
            worker.post("hello", json={"models": ["tiny"]})
            offers(ada, "tiny")
            calling = pool.submit(http.post, "chat/completions", json={"model": "tiny", "messages": [seen("x")]})
            [job] = worker.post("claim", json={"wait": 20}).json()["jobs"]
            ending = {"lease": job["lease"], "outcome": "success", "result": answer}
            assert worker.post(f"jobs/{job['id']}/finish", json=ending).json()["status"] == "success"
            assert calling.result().json() == answer
        assert http.get(f"chat/completions/{job['id']}").json() == answer
        kept = Job.objects.whole().get().result
        assert kept["usage"] == answer["usage"]
        assert len(json.dumps(kept)) < 1_000


class TestMemory:
    def test_stays_flat_with_many_large_calls_and_answers(
        self, server: Server, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        passes_through(server, http, model, working, calls=8, size=8 * MB, most_kb=80_000)

    @pytest.mark.long
    def test_stays_flat_with_50_calls_of_20_mb_at_once(
        self, server: Server, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        passes_through(server, http, model, working, calls=50, size=20 * MB, most_kb=200_000)


def passes_through(
    server: Server, http: httpx.Client, model: ModelServer, working: Working, *, calls: int, size: int, most_kb: int
) -> None:
    """So many calls at once, each with a picture of its own and one as its answer."""
    model.answer = lambda _: answered(picture(size, number=99))

    def call(number: int) -> int:
        body = {"model": "tiny", "messages": [seen(picture(size, number=number))]}
        with httpx.Client(base_url=http.base_url, headers=http.headers, timeout=300) as own:
            answer = own.post("chat/completions", json=body)
            assert answer.status_code == 200, answer.text[:500]
            return len(answer.content)

    with working(concurrency=2), ThreadPoolExecutor(calls) as pool:
        call(calls)  # what a process loads once
        with measured(server.pid) as most:
            lengths = [*pool.map(call, range(calls))]
    assert min(lengths) > size
    assert Upload.objects.aggregate(Sum("size"))["size__sum"] > (calls + 1) * (size - 10)
    print(f"{calls} calls of {size:,} bytes: at most {most[0]:,} kB more")
    assert most[0] < most_kb
