"""The order in which the calls of a worker's socket are performed."""

import asyncio
import json
from typing import Any

from jobs.protocol import messages
from jobs.waiting.calls import Calls, Received, Sort

_RUNNER = asyncio.Runner()  # one loop: calls belong to it
LEASE = "1.00000000-0000-4000-8000-000000000000"


def received(kind: str, job: int | None = None, **fields: Any) -> Received:
    about = {} if job is None else {"job": job, "lease": LEASE}
    return Received(call=messages.read(json.dumps({"type": kind, **about, **fields})), until=0)


def piece(job: int, seq: int = 0) -> Received:
    return received("output", job, seq=seq, text="x")


def finish(job: int) -> Received:
    return received("finish", job, outcome="success")


def beats(*jobs: int) -> Received:
    return received("heartbeat_many", jobs=[{"id": job, "lease": LEASE} for job in jobs])


def given(calls: Calls, sort: Sort) -> list[Received]:
    """What is given out now; [] where it waits."""

    async def now() -> list[Received]:
        try:
            async with asyncio.timeout(0):
                return await calls.next(sort)
        except TimeoutError:
            return []

    return _RUNNER.run(now())


def waiting(*them: Received) -> Calls:
    calls = Calls()
    for one in them:
        calls.put(one)
    return calls


def test_pieces_of_several_jobs_are_given_out_together_one_of_each() -> None:
    first, second, third = piece(1), piece(2), piece(1, seq=1)
    calls = waiting(first, second, third)
    assert given(calls, Sort.OUTPUT) == [first, second]
    assert given(calls, Sort.OUTPUT) == []
    calls.done([first, second])
    assert given(calls, Sort.OUTPUT) == [third]


def test_what_names_a_job_waits_for_what_was_sent_of_it_before_of_whatever_sort() -> None:
    written, ended, late, other = piece(1), finish(1), piece(1, seq=1), piece(2)
    calls = waiting(written, ended, late, other)
    assert given(calls, Sort.OTHER) == []
    assert given(calls, Sort.OUTPUT) == [written, other]
    calls.done([written, other])
    assert given(calls, Sort.OUTPUT) == []
    assert given(calls, Sort.OTHER) == [ended]
    assert given(calls, Sort.OUTPUT) == []
    calls.done([ended])
    assert given(calls, Sort.OUTPUT) == [late]


def test_heartbeats_of_several_jobs_pass_and_what_comes_after_waits_for_them() -> None:
    first, beat, second = finish(1), beats(1, 2), finish(2)
    calls = waiting(first, beat, second)
    assert given(calls, Sort.OTHER) == [first]
    calls.done([first])
    assert given(calls, Sort.OTHER) == []
    assert given(calls, Sort.REPORT) == [beat]
    calls.done([beat])
    assert given(calls, Sort.OTHER) == [second]


def test_a_piece_that_takes_a_thread_keeps_its_place() -> None:
    first, second, ended = piece(1), piece(2), finish(1)
    calls = waiting(first, second, ended)
    pieces = given(calls, Sort.OUTPUT)
    calls.set_aside(first)
    calls.done(pieces)
    assert given(calls, Sort.OTHER) == []
    assert given(calls, Sort.REPORT) == []
    assert given(calls, Sort.WRITE) == [first]
    calls.done([first])
    assert given(calls, Sort.OTHER) == [ended]
    assert len(calls) == 0


def test_a_piece_that_a_thread_stores_is_not_done_with_the_others_that_came_with_it() -> None:
    first, second, ended = piece(1), piece(2), finish(1)
    calls = waiting(first, second, ended)
    pieces = given(calls, Sort.OUTPUT)
    calls.set_aside(first)
    by_thread = given(calls, Sort.WRITE)
    calls.done(pieces)
    by_thread += given(calls, Sort.WRITE)
    assert by_thread == [first]
    assert given(calls, Sort.OTHER) == []
    calls.done([first])
    assert given(calls, Sort.OTHER) == [ended]


def test_after_the_end_what_waits_is_given_out_and_then_nothing() -> None:
    first, last = finish(1), piece(1)
    calls = waiting(first, last)
    calls.end()

    async def all_of(sort: Sort) -> list[Received]:
        taken = []
        while now := await calls.next(sort):
            taken += now
            calls.done(now)
        return taken

    async def each() -> list[list[Received]]:
        async with asyncio.timeout(10):
            return await asyncio.gather(*map(all_of, Sort))

    assert _RUNNER.run(each()) == [[last], [], [], [first]]


def test_once_one_gave_up_nothing_is_given_out_any_more() -> None:
    first, second = piece(1), finish(2)
    calls = waiting(first, second)
    assert given(calls, Sort.OUTPUT) == [first]
    calls.abandon()
    calls.set_aside(first)
    calls.done([first])
    calls.put(beats(1))

    async def ends() -> list[list[Received]]:
        async with asyncio.timeout(10):
            return await asyncio.gather(*map(calls.next, Sort))

    assert _RUNNER.run(ends()) == [[], [], [], []]
