"""A trace goes from whoever submits, through the farm, to the handler on the worker's machine."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from accounts import operations as accounts
from jobfarm_worker import Job, Worker, observing
from jobfarm_worker.handlers.openai_calls import OpenAICalls
from jobfarm_worker.protocol import ClaimedJob
from jobs import models, operations
from observing import traces
from tests import farm
from tests.api.edges.callers import bearer
from tests.openai_api.model_server import Script, completion, refusal, serving, streamed, whole
from tests.servers import serve
from tests.worker.unit.test_worker_demonstrators import run

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The SDK as a process configures it, for the length of a test: it cannot be taken back otherwise."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield kept
    provider.shutdown()


def stored(job_id: int) -> str | None:
    """The trace that was kept with a job."""
    return models.Job.objects.get(pk=job_id).traceparent


@pytest.mark.django_db(transaction=True)
class TestATrace:
    def test_goes_from_a_client_through_the_farm_to_the_handler(self, exporter: InMemorySpanExporter) -> None:
        """The server of this test has no SDK: it passes on what it was given, and answers with the caller's own id."""
        farm.kind()
        seen: list[tuple[str | None, str]] = []
        with serve() as server:
            _, token = accounts.create_token(User.objects.create_user("ada"), name="tests")
            _, key = operations.create_worker("box", queues=["work"])
            headers = {**bearer(token), "traceparent": TRACEPARENT, "X-Request-ID": "from-the-proxy-1"}
            answers = [
                httpx.post(f"{server.url}/api/v1/jobs", headers=headers, json={"kind": "work", "payload": n})
                for n in range(2)
            ]
            assert [answer.headers["X-Request-ID"] for answer in answers] == ["from-the-proxy-1"] * 2
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, _work(server.url, key, seen)).result(60)
        assert seen == [(TRACEPARENT, TRACE)] * 2
        good, bad = sorted(exporter.get_finished_spans(), key=lambda span: span.attributes["jobfarm.job.id"])  # type: ignore[index, arg-type, return-value]
        assert [_parent(span) for span in (good, bad)] == [(TRACE, SPAN)] * 2
        assert good.name == "job work"
        assert good.attributes is not None
        assert good.attributes["jobfarm.outcome"] == "success"
        assert bad.status.status_code is trace.StatusCode.ERROR
        assert bad.status.description == "ValueError: no good"


async def _work(url: str, key: str, seen: list[tuple[str | None, str]]) -> None:
    worker = Worker(url, key)

    @worker.handler("work")
    def work(job: Job) -> Any:
        current = trace.get_current_span().get_span_context()
        seen.append((job.traceparent, trace.format_trace_id(current.trace_id)))
        if len(seen) == 2:
            worker.stop()
            raise ValueError("no good")

    await asyncio.wait_for(worker.run(), 40)


def _parent(span: ReadableSpan) -> tuple[str, str]:
    assert span.parent is not None
    return trace.format_trace_id(span.parent.trace_id), trace.format_span_id(span.parent.span_id)


@pytest.mark.django_db
class TestSubmitting:
    def test_is_a_span_of_the_trace_that_it_happens_in_and_the_parent_of_the_attempts(
        self, exporter: InMemorySpanExporter
    ) -> None:
        farm.kind()
        with traces.carrying(TRACEPARENT):
            job = operations.submit("work", {})
        [span] = exporter.get_finished_spans()
        assert (span.name, span.kind, _parent(span)) == ("submit", trace.SpanKind.PRODUCER, (TRACE, SPAN))
        assert span.context is not None
        assert stored(job.pk) == f"00-{TRACE}-{trace.format_span_id(span.context.span_id)}-01"

    def test_within_a_span_of_the_site_belongs_to_that(self, exporter: InMemorySpanExporter) -> None:
        farm.kind()
        with traces.carrying(TRACEPARENT), traces.span("a page"):
            operations.submit_many([operations.NewJob(kind="work", payload=n) for n in range(2)])
        submitting, page = exporter.get_finished_spans()
        assert page.context is not None
        assert _parent(submitting) == (TRACE, trace.format_span_id(page.context.span_id))

    def test_without_a_tracer_passes_on_what_the_caller_said(self) -> None:
        farm.kind()
        with traces.carrying(TRACEPARENT):
            job = operations.submit("work", {})
        assert stored(job.pk) == TRACEPARENT
        [claimed] = operations.claim(farm.worker())
        assert claimed.traceparent == TRACEPARENT

    def test_without_opentelemetry_does_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(traces, "_otel", None)
        farm.kind()
        with traces.carrying(TRACEPARENT):
            job = operations.submit("work", {})
            assert traces.ids() == {"trace_id": TRACE, "span_id": SPAN}
        assert stored(job.pk) == TRACEPARENT
        assert stored(operations.submit("work", {}).pk) is None

    @pytest.mark.parametrize(
        "given",
        ["", "01-" + TRACEPARENT[3:], TRACEPARENT.upper(), f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
         TRACEPARENT + "-x", "x" * 5000, TRACEPARENT + "\n"],
    )  # fmt: skip
    def test_keeps_nothing_of_a_header_that_is_none(self, given: str) -> None:
        farm.kind()
        with traces.carrying(given):
            assert stored(operations.submit("work", {}).pk) is None


class TestTheWorker:
    def test_without_opentelemetry_works_as_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(observing, "_otel", None)
        claimed = ClaimedJob(
            id=1,
            kind="work",
            queue="work",
            payload=None,
            attempt=1,
            lease="1-x",
            heartbeat_s=20,
            traceparent=TRACEPARENT,
        )
        attempt = observing.span_of(claimed)
        attempt.enter()
        attempt.ended("failed", error="no")


class TestACallOfAModel:
    async def _attributes(
        self, exporter: InMemorySpanExporter, script: Script, path: str, **body: Any
    ) -> dict[str, Any]:
        with serving("tiny") as model:
            model.has, model.scripts = {"messages"}, [script]
            handler = OpenAICalls(url=model.url, environ={}, delays_s=())
            with trace.get_tracer("tests").start_as_current_span("attempt"):
                await run(handler, {"path": path, "body": {"model": "tiny", "prompt": "PRIVATE", **body}})
        [span] = exporter.get_finished_spans()
        assert span.attributes is not None
        assert "PRIVATE" not in span.to_json()
        return {name.removeprefix("gen_ai."): value for name, value in span.attributes.items()}

    async def test_says_on_its_span_which_model_how_many_tokens_and_why_it_ended(
        self, exporter: InMemorySpanExporter
    ) -> None:
        answer = completion("PRIVATE") | {"id": "c-1", "usage": {"prompt_tokens": 3, "completion_tokens": 5}}
        about = await self._attributes(exporter, whole(**answer), "chat/completions", max_tokens=9, temperature=0.5)
        assert about == {
            "operation.name": "chat", "provider.name": "openai", "request.model": "tiny", "request.max_tokens": 9,
            "request.temperature": 0.5, "response.model": "tiny", "response.id": "c-1",
            "response.finish_reasons": ("stop",), "usage.input_tokens": 3, "usage.output_tokens": 5,
        }  # fmt: skip

    async def test_says_when_its_first_token_came(self, exporter: InMemorySpanExporter) -> None:
        about = await self._attributes(exporter, streamed("PRIVATE", " and"), "chat/completions", stream=True)
        assert about["request.stream"] is True
        assert 0 < about["response.time_to_first_chunk"] < 60
        assert about["response.finish_reasons"] == ("stop",)

    async def test_of_a_message_says_the_same_by_its_own_names(self, exporter: InMemorySpanExporter) -> None:
        usage = {"input_tokens": 2, "output_tokens": 1}
        message = {"id": "m-1", "model": "tiny", "stop_reason": "end_turn", "usage": usage}
        about = await self._attributes(exporter, whole(**message), "messages", max_tokens=9)
        assert about["response.finish_reasons"] == ("end_turn",)
        assert (about["usage.input_tokens"], about["usage.output_tokens"]) == (2, 1)

    @pytest.mark.parametrize(
        "odd", [{"usage": 7, "choices": 8}, {"model": {"a": 1}, "choices": [{"finish_reason": []}]}]
    )
    async def test_with_an_answer_of_no_known_form_says_what_was_asked(
        self, exporter: InMemorySpanExporter, odd: dict[str, Any]
    ) -> None:
        about = await self._attributes(exporter, whole(**odd), "chat/completions")
        assert about == {"operation.name": "chat", "provider.name": "openai", "request.model": "tiny"}

    async def test_that_is_refused_says_what_was_asked(self, exporter: InMemorySpanExporter) -> None:
        about = await self._attributes(exporter, refusal(400), "embeddings", model=["PRIVATE"])
        assert about == {"operation.name": "embeddings", "provider.name": "openai"}
