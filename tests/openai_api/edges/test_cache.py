"""`X-Cache: exact`: the same call of the same person at temperature 0 gets the answer that is there, without a job."""

import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from accounts import operations as accounts
from jobs import operations as jobs
from jobs.models import Job
from openai_api.models import CachedCall, CallRule
from tests import documented, farm
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, completion, refusal, streamed, whole
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
EXACT = {"X-Cache": "exact"}
BODY: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Say hello."}], "temperature": 0}


def ask(http: httpx.Client, path: str = "chat/completions", **changes: Any) -> tuple[str, httpx.Response]:
    """What the header of the answer says of the cache, and the answer."""
    answer = http.post(path, json={**BODY, **changes}, headers=EXACT)
    return answer.headers["X-Cache"], answer


class TestTheSameCall:
    def test_is_answered_without_a_job_the_second_time(
        self, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [whole(**completion("Hello."))]
        with working():
            (first, made), (second, again), (third, _) = (ask(http) for _ in range(3))
        assert (first, second, third) == ("miss", "hit", "hit")
        assert again.content == made.content
        assert again.headers["X-Job-Id"] == made.headers["X-Job-Id"]
        assert (Job.objects.count(), len(model.requests)) == (1, 1)
        [link] = [each for each in jobs.links(Job.objects.get(), viewer=ada) if each.label == "Answered"]
        assert (link.text, link.note) == ("2 times more", "from the cache")

    def test_is_streamed_again_as_it_was(self, http: httpx.Client, model: ModelServer, working: Working) -> None:
        model.scripts = [streamed("Hel", "lo.")]
        with working():
            _, made = ask(http, stream=True)
            farm.until(lambda: Job.objects.get().status == "success")
            status, again = ask(http, stream=True)
        assert (status, Job.objects.count()) == ("hit", 1)
        assert again.text == made.text
        assert again.text.endswith("data: [DONE]\n\n")

    def test_with_a_long_text_is_told_from_one_with_another_long_text(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.answer = lambda body: whole(**completion(body["messages"][0]["content"][-1]))
        with working():
            answers = [
                ask(http, messages=[{"role": "user", "content": "a" * 70_000 + last}])[1] for last in "xyx"
            ]  # fmt: skip
        assert [each.json()["choices"][0]["message"]["content"] for each in answers] == ["x", "y", "x"]
        assert len(model.requests) == 2

    @pytest.mark.parametrize("path", ["embeddings", "rerank"])
    def test_needs_no_temperature_where_nothing_is_drawn(
        self, http: httpx.Client, model: ModelServer, working: Working, path: str
    ) -> None:
        model.scripts = [whole(data=[], results=[])]
        with working():
            assert [ask(http, path, temperature=None)[0] for _ in range(2)] == ["miss", "hit"]


class TestAnotherCall:
    def test_has_other_fields_labels_or_an_answer_that_is_drawn(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.answer = lambda _: whole(**completion("Hello."))
        with working():
            others: list[dict[str, Any]] = [{}, {"seed": 1}, {"temperature": 0.1}, {"temperature": False}]
            statuses = [ask(http, **more)[0] for more in others]
            labeled = http.post("chat/completions", json=BODY, headers={**EXACT, "X-Prefers": "room=lab"})
            keyed = http.post("chat/completions", json=BODY, headers={**EXACT, "Idempotency-Key": "a"})
            plain = http.post("chat/completions", json=BODY)
        assert statuses == ["miss", "miss", "bypass", "bypass"]
        assert (labeled.headers["X-Cache"], keyed.headers["X-Cache"]) == ("miss", "bypass")
        assert "X-Cache" not in plain.headers
        assert Job.objects.count() == 7

    def test_with_a_token_that_keeps_no_content_is_made_anew(
        self, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        _, key = accounts.create_token(ada, name="private", keep_content=False)
        model.answer = lambda _: whole(**completion("Hello."))
        with working(), httpx.Client(base_url=http.base_url, headers={"Authorization": f"Bearer {key}"}) as private:
            assert [ask(private)[0], ask(private)[0]] == ["bypass", "bypass"]
        assert (CachedCall.objects.count(), Job.objects.count()) == (0, 2)

    def test_is_the_same_words_of_another_person(
        self, http: httpx.Client, server: Server, model: ModelServer, working: Working, bob: User
    ) -> None:
        model.scripts = [whole(**completion("Hers.")), whole(**completion("His."))]
        key = accounts.create_token(bob, name="openai", scopes=["submit"])[1]
        with working(), httpx.Client(base_url=http.base_url, headers={"Authorization": f"Bearer {key}"}) as his:
            assert [ask(http)[0], ask(his)[0], ask(his)[0]] == ["miss", "miss", "hit"]
            assert ask(his)[1].json()["choices"][0]["message"]["content"] == "His."

    def test_follows_one_that_failed_or_whose_time_is_over(
        self, http: httpx.Client, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [refusal(400), whole(**completion("Hello.")), whole(**completion("Hello again."))]
        with working():
            assert [ask(http)[0] for _ in range(3)] == ["miss", "miss", "hit"]
            CachedCall.objects.update(expires_at=Now())
            assert ask(http)[0] == "miss"

    def test_is_one_that_this_token_may_not_make_by_now(
        self, http: httpx.Client, model: ModelServer, working: Working, ada: User
    ) -> None:
        model.scripts = [whole(**completion("Hello."))]
        limited, key = accounts.create_token(ada, name="limited", scopes=["submit"])
        CallRule.objects.create(token_id=limited.pk, names=["large"])
        theirs = {"Authorization": f"Bearer {key}"}
        with working():
            assert ask(http)[0] == "miss"
            farm.until(lambda: not http.get("models", headers=theirs).json()["data"], what="the rule")
            answer = http.post("chat/completions", json=BODY, headers={**EXACT, **theirs})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


def test_another_word_than_exact_is_refused(http: httpx.Client) -> None:
    answer = http.post("chat/completions", json=BODY, headers={"X-Cache": "semantic"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "X-Cache")


def test_is_asked_for_as_printed(
    server: Server, key: str, model: ModelServer, working: Working, tmp_path: Path
) -> None:
    model.models.append("demonstrator")
    model.scripts = [whole(**completion("Keepers."))]
    printed = documented.block("front-door.md", "for time in first second")
    with working():
        shell = ["sh", "-c", f"farm={server.url} token={key}\n{printed}"]
        shown = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown.lower().split() == ["x-cache:", "miss", "x-cache:", "hit"]
