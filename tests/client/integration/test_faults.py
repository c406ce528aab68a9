"""The client while answers are lost, the farm is away, or what stands between them misbehaves."""

import json
import socket
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobfarm_client import NotFound, RateLimited, Unreachable, WrongServer, backoff, following
from jobs import operations
from jobs.domain import changes
from jobs.models import Job
from postgres import clock
from tests.api.edges.callers import Crew
from tests.api.edges.cutting import EVERY, cutting
from tests.client.integration.conftest import Make
from tests.client.integration.test_calls import begun, finish
from tests.client.proxies import Own, proxy
from tests.farm import alter, until
from tests.servers import Server

JSON = {"Content-Type": "application/json"}


def refusal(status: int, code: str, *, retry_after: str | None = None) -> Own:
    body = json.dumps({"error": code, "message": "Not now."}).encode()
    return Own(status, body, {**JSON, **({} if retry_after is None else {"Retry-After": retry_after})})


class TestSubmit:
    def test_whose_answers_are_lost_is_done_once_each(self, server: Server, make: Make) -> None:
        with cutting(server) as between:
            farm = make(between.url)
            jobs = [farm.submit("work", n) for n in range(3 * EVERY)]
            assert between.cut >= 3
        assert sorted(Job.objects.values_list("id", flat=True)) == [job.id for job in jobs]
        assert [job.payload for job in jobs] == list(range(3 * EVERY))

    def test_while_the_farm_starts_again_arrives_once(self, server: Server, make: Make) -> None:
        server.kill()
        starting = threading.Thread(target=server.start)
        starting.start()
        farm = make(timeout_s=1)
        farm.submit("work")
        starting.join()
        assert Job.objects.count() == 1

    def test_of_a_farm_that_stays_away_raises(self, make: Make) -> None:
        with pytest.raises(Unreachable) as lost:
            make("http://127.0.0.1:9", retry_for_s=0.2).submit("work")
        assert not lost.value.maybe_done

    @pytest.mark.parametrize(
        ("status", "code"), [(429, "rate_limited"), (503, "unavailable"), (409, "idempotency_key_in_use")]
    )
    def test_is_sent_again_when_the_farm_has_it_wait(self, server: Server, make: Make, status: int, code: str) -> None:
        first = [refusal(status, code, retry_after="0.05")]
        with proxy(server.url, lambda *_: first.pop() if first else None) as between:
            make(between.url).submit("work")
            assert between.calls == {"/api/v1/jobs": 2}
            assert len(set(between.keys)) == 1, "one key for both"

    def test_that_would_have_to_wait_too_long_raises_at_once(self, server: Server, make: Make) -> None:
        answer = refusal(429, "rate_limited", retry_after="3600")
        with proxy(server.url, lambda *_: answer) as between:
            with pytest.raises(RateLimited) as limited:
                make(between.url).submit("work")
            assert (limited.value.retry_after_s, between.calls.total()) == (3600, 1)

    def test_that_is_refused_for_good_is_sent_once(self, server: Server, make: Make) -> None:
        with proxy(server.url, lambda *_: refusal(422, "invalid")) as between:
            with pytest.raises(Exception, match="Not now") as refused:
                make(between.url).submit("work")
            assert (refused.value.code, between.calls.total()) == ("invalid", 1)  # type: ignore[attr-defined]

    def test_at_a_strangers_address_says_so(self, server: Server, make: Make) -> None:
        page = Own(200, b"<p>Welcome.")
        sentence = "is not the address of a job farm"
        with proxy(server.url, lambda *_: page) as stranger, pytest.raises(WrongServer, match=sentence):
            make(stranger.url).submit("work")


class TestACallWhoseAnswerIsLost:
    """Its repetition was refused, or found nothing to do, though the first one had done it."""

    def test_lets_a_job_run_now_that_has_begun_by_then(self, server: Server, make: Make, crew: Crew) -> None:
        with cutting(server) as between:
            farm = make(between.url)
            job = farm.submit("work", run_at=datetime.now(UTC) + timedelta(hours=1))
            worker = threading.Thread(target=begun, args=[crew])
            worker.start()
            between.calls = EVERY - 1
            assert farm.run_now(job.id).id == job.id
            worker.join()
            assert between.cut == 1

    def test_tries_a_flow_again_once(self, server: Server, make: Make) -> None:
        with cutting(server) as between:
            farm = make(between.url)
            first = farm.submit("work", name="a")
            second = farm.submit("work", after=[first.id])
            farm.cancel_flow(first.flow)
            between.calls = EVERY - 1
            again = farm.retry_flow(first.flow)
            farm.cancel_flow(first.flow)
            between.calls = EVERY - 1
            third = farm.retry_flow(first.flow, from_job=again[0])
            assert between.cut >= 2
        tries = dict(Job.objects.exclude(retry_of=None).values_list("id", "retry_of"))
        assert [tries[one] for one in (*again, *third)] == [first.id, second.id, *again]
        assert len(tries) == 4


class TestAnAnswer:
    @pytest.mark.parametrize("part", ["body", "head"])
    def test_that_trickles_is_given_up_in_the_time_of_a_call(self, server: Server, make: Make, part: str) -> None:
        text = b'{"verdict": "too_late", "status": "failed"}' + b" " * 400
        trickling, began = Own(200, text, JSON, piece=1, is_slow_at_once=part == "head"), time.monotonic()
        with proxy(server.url, lambda *_: trickling) as between, pytest.raises(Unreachable) as lost:
            make(between.url, timeout_s=0.3, retry_for_s=0).cancel(1)
        assert lost.value.maybe_done
        assert time.monotonic() < began + 2

    def test_of_a_farm_that_nobody_gets_through_to_is_of_a_call_that_was_not_done(self, make: Make) -> None:
        with ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            for _ in range(3):  # whoever comes after these is not let in
                one = stack.enter_context(socket.socket())
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            with pytest.raises(Unreachable) as lost:
                make(f"http://127.0.0.1:{full.getsockname()[1]}", timeout_s=0.3, retry_for_s=0).cancel(1)
        assert not lost.value.maybe_done

    def test_that_is_long_takes_the_time_of_its_bytes(self, server: Server, make: Make) -> None:
        content = bytes(range(256)) * 400
        long = Own(200, content, {"Content-Disposition": "attachment"}, piece=len(content) // 16)
        with proxy(server.url, lambda *_: long) as between:
            assert make(between.url, timeout_s=0.3, retry_for_s=0).download(1, "a.bin") == content

    def test_of_somebody_else_is_no_file(self, server: Server, make: Make) -> None:
        """A download gave the page of a log-in as the file."""
        file = Own(200, b"it", {"Content-Disposition": "attachment"})
        answers = [file, Own(200, b"<p>Log in."), Own(302, headers={"Location": "/log-in"})]
        with proxy(server.url, lambda method, _: None if method == "POST" else answers.pop()) as between:
            farm = make(between.url)
            farm.submit("work")
            assert farm.download(1, "a.bin") == b"it"


def write(crew: Crew, job: dict[str, Any], texts: list[str], *, first: int = 0) -> None:
    for seq, text in enumerate(texts, start=first):
        crew.post(f"jobs/{job['id']}/output", lease=job["lease"], seq=seq, text=text).raise_for_status()


class TestOutput:
    def test_is_whole_over_a_farm_that_is_killed(self, server: Server, farm: Any, crew: Crew) -> None:
        job = farm.submit("work")
        held = begun(crew)
        write(crew, held, ["one ", "two "])
        output = farm.output(job.id)
        pieces = [next(output), next(output)]
        server.kill()
        server.start()
        write(crew, held, ["three"], first=2)
        finish(crew, held, outcome="success")
        assert [*pieces, *output] == ["one ", "two ", "three"]

    def test_goes_on_for_a_caller_who_took_longer_than_a_call_is_repeated(
        self, server: Server, make: Make, crew: Crew, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(backoff, "LONGEST_PAUSE_S", 0.01)
        farm = make(retry_for_s=0.5)
        job = farm.submit("work")
        held = begun(crew)
        write(crew, held, ["one "])
        output = farm.output(job.id)
        first, began_s = next(output), time.monotonic()
        server.kill()
        server.start()
        write(crew, held, ["two"], first=1)
        finish(crew, held, outcome="success")
        until(lambda: time.monotonic() > began_s + 0.5)
        assert [first, *output] == ["one ", "two"]

    def test_of_later_attempts_follows(self, farm: Any, crew: Crew) -> None:
        job = farm.submit("work")
        held = begun(crew)
        write(crew, held, ["once "])
        events = farm.events(job.id)
        while not (event := next(events)).text:
            pass
        finish(crew, held, outcome="failed", error="it broke")
        alter(job, run_at=Job.objects.get(pk=job.id).created_at)
        second = begun(crew)
        write(crew, second, ["again"])
        finish(crew, second, outcome="success")
        rest = list(farm.events(job.id, last_event_id=event.id))
        assert [(e.data["fence"], e.text) for e in rest if e.name == "output"] == [(2, "again")]
        assert (rest[-1].name, rest[-1].data) == ("end", {"status": "success"})

    def test_goes_on_behind_an_event(self, farm: Any, crew: Crew) -> None:
        job = farm.submit("work")
        held = begun(crew)
        write(crew, held, ["a", "b", "c"])
        finish(crew, held, outcome="success")
        seen = next(event for event in farm.events(job.id) if event.text == "b")
        assert [event.text for event in farm.events(job.id, last_event_id=seen.id) if event.text] == ["c"]

    def test_of_many_jobs_are_followed_by_one_stream(self, farm: Any, crew: Crew) -> None:
        jobs = [farm.submit("work") for _ in range(2)]
        for text in ("a", "b"):
            held = begun(crew)
            write(crew, held, [text])
            finish(crew, held, outcome="success")
        events = list(farm.events_of([job.id for job in jobs]))
        assert {e.data["job"]: e.text for e in events if e.name == "output"} == {jobs[0].id: "a", jobs[1].id: "b"}
        assert sorted(e.data["job"] for e in events if e.name == "end") == [job.id for job in jobs]

    def test_of_all_that_match_goes_on_over_a_farm_that_is_killed(self, server: Server, farm: Any) -> None:
        ended = farm.submit("work", tags=["nightly"])
        events = farm.events_that_match(tag="nightly")
        assert next(events).job.status == "pending"
        server.kill()
        operations.cancel(ended.id, by=None)
        server.start()
        assert next(event for event in events if event.job.has_ended).job.id == ended.id

    def test_of_all_that_match_says_where_more_was_missed(self, farm: Any) -> None:
        old = changes.event_id(clock.now() - changes.BACK * 2)
        assert next(farm.events_that_match(tag="nightly", last_event_id=old)).name == "reset"


class TestWithoutStreams:
    """What stands between keeps event streams back: the client asks instead."""

    @pytest.fixture(params=["page", "buffer"])
    def no_stream(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Own:
        monkeypatch.setattr(following, "SILENCE_S", 0.2)
        return Own(200, b"<p>Hello.", is_held=request.param == "buffer")

    def test_every_event_comes_all_the_same(self, server: Server, make: Make, crew: Crew, no_stream: Own) -> None:
        with proxy(server.url, lambda _, path: no_stream if path.endswith("/events") else None) as between:
            farm = make(between.url)
            job = farm.submit("work")
            held = begun(crew)
            write(crew, held, ["one ", "two "])
            events = farm.events(job.id)
            first = [next(events), next(events), next(events)]
            write(crew, held, ["three"], first=2)
            finish(crew, held, outcome="success", result=7)
            events = [*first, *events]
            assert between.calls[f"/api/v1/jobs/{job.id}/events"] == 2
        assert [event.text for event in events if event.name == "output"] == ["one ", "two ", "three"]
        states = [event.data["status"] for event in events if event.name == "job"]
        assert (states[0], states[-1], events[-1].data) == ("in_progress", "success", {"status": "success"})

    def test_of_all_that_match_say_what_came_instead(self, server: Server, make: Make) -> None:
        page = Own(200, b"<p>Hello.", {"Content-Type": "text/html"})
        with proxy(server.url, lambda *_: page) as between, pytest.raises(Unreachable, match="200 OK with text/html"):
            next(make(between.url, retry_for_s=0).events_that_match())

    def test_a_wait_ends_with_the_job(self, server: Server, make: Make, crew: Crew, no_stream: Own) -> None:
        with proxy(server.url, lambda _, path: no_stream if path.endswith("/events") else None) as between:
            farm = make(between.url)
            job = farm.submit("work")
            worker = threading.Thread(target=lambda: finish(crew, begun(crew), outcome="success", result=7))
            worker.start()
            assert farm.wait(job.id, timeout_s=30).result == 7
            worker.join()

    def test_a_job_that_is_not_there_is_refused_at_once(self, server: Server, make: Make, no_stream: Own) -> None:
        with proxy(server.url, lambda _, path: no_stream if path.endswith("/events") else None) as between:
            with pytest.raises(NotFound):
                make(between.url).wait(999_999, timeout_s=3)
            assert between.calls["/api/v1/jobs/999999"] == 1
