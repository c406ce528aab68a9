"""Ten times as much costs ten times as much: what a stream, a batch and an outage make longer.

.venv/bin/python -m benchmarks.growth [--quick]

Each part is run at a size and at ten times that size, and two costs of both compared: the processor's time of
this process, and the pages that PostgreSQL looked at for it. Twelve times at most, where a step that copies or reads
all that is there already makes it a hundred. Then a stream of a million tokens whose farm is away for half a minute,
and what a small job beside it waits meanwhile.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.db import connection

from benchmarks import own, results
from benchmarks.holder import Holder
from benchmarks.options import Options, parse
from benchmarks.results import Table
from jobfarm_client.wire import Blocks
from jobfarm_worker.errors import Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.handlers.chunks import Whole
from jobfarm_worker.handlers.responses import MappedResponse
from jobfarm_worker.held import HeldJob
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob
from jobs import operations
from jobs.domain.outputs import Piece
from jobs.domain.workers import Facts
from jobs.models import Worker
from jobs.queries import reads, reports
from live.feeds import Watch
from live.registry import Item
from live.rendering import Page
from live.send_queue import SendQueue
from openai_api.operations import batches, files, steps
from outbox import operations as outbox, queries
from outbox.domain.addresses import Answer
from outbox.models import Endpoint
from outbox.operations import attempts, endpoints
from postgres import clock

TIMES = 10
MARK = 12.0
AWAY_S = 30.0
TOKENS = 1_000_000
A_TOKEN, BESIDE = "microseconds of the processor a token", "longest wait of a job beside it (ms)"
PAGES = """
SELECT coalesce(sum(hits + reads), 0)::float8 FROM pg_stat_get_backend_io(pg_backend_pid()) WHERE object = 'relation'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of this process's processor, and pages that its session of PostgreSQL looked at."""

    seconds: float
    pages: float = 0.0


Part = Callable[[int], Cost]
"""Does so much, and says what that took."""


def main(options: Options) -> list[Table]:
    """Measure; two tables of ratios, and one of the stream."""
    times = Table(what=f"{TIMES} times as much (times the processor's time)", is_less_better=True)
    pages = Table(what=f"{TIMES} times as much (times PostgreSQL's pages)", is_less_better=True)
    with own.database():
        operations.sync()
        parts = {**MEMORY, **_settled(_stored_parts(), options)}
        for _ in range(options.rounds):
            for name, (part, size) in parts.items():
                small = options.many(size, least=size // 20)
                for line in _compared(part, small, name, times, pages):
                    options.say(line)
    for table in (times, pages):
        missed = [name for name, values in table.values.items() if min(values) > MARK]
        sentence = f"**missed** by {', '.join(missed)}." if missed else "reached."
        table.notes.append(f"Mark: {MARK:g} at most; {sentence}")
    return [times, pages, _stream(options)]


def _settled(parts: dict[str, tuple[Part, int]], options: Options) -> dict[str, tuple[Part, int]]:
    """These, once each has run: statements are planned for tables with rows, as autovacuum has them within a minute."""
    for part, size in parts.values():
        part(options.many(size, least=size // 20))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    return parts


def _compared(part: Part, small: int, name: str, times: Table, pages: Table) -> Iterator[str]:
    many = [part(TIMES * small) for _ in range(2)]  # first, so that both find tables that are as large
    few = [part(small) for _ in range(4)]
    times.add(name, min(one.seconds for one in many) / min(one.seconds for one in few))
    yield f"{name}: {TIMES} times {small:,} took {times.values[name][-1]:.1f} times as long"
    if many[0].pages:
        pages.add(name, min(one.pages for one in many) / min(one.pages for one in few))
        yield f"{name}: {TIMES} times {small:,} looked at {pages.values[name][-1]:.1f} times as many pages"


def _timed(work: Callable[[], Any]) -> Cost:
    began_s = time.process_time()
    work()
    return Cost(seconds=time.process_time() - began_s)


def _stored(work: Callable[[], Any]) -> Cost:
    """As `_timed`, with the pages. Not within a transaction: they are counted when one ends."""
    before = _pages()
    timed = _timed(work)
    return Cost(seconds=timed.seconds, pages=_pages() - before)


def _pages() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(PAGES)
        return float(cursor.fetchone()[0])


def _unsent(size: int) -> Cost:
    """A handler writes while the farm is away; then it is sent."""

    def work() -> None:
        outbox = Outbox(wake=lambda: None)
        for _ in range(size):
            outbox.write("a sentence, more or less. " * 10, may_block=False)
        while outbox.take_text():
            pass

    return _timed(work)


def _chunk(number: int) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": f"token {number} "}, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _answer(answer: Whole | MappedResponse, size: int) -> Cost:
    chunks = [_chunk(number) for number in range(size)]

    def work() -> None:
        for chunk in chunks:
            answer.lines(chunk)
        answer.closing()
        answer.answer()

    return _timed(work)


def _events(text: str, piece: int) -> Cost:
    """A stream of server-sent events that comes in pieces of so many characters."""
    blocks = Blocks()
    pieces = [text[begin : begin + piece] for begin in range(0, len(text), piece)]
    return _timed(lambda: sum(len(list(blocks.feed(each))) for each in pieces))


class _Watch:
    watch_id = "1"


def _send_queue(size: int) -> Cost:
    """Output for a browser that does not read."""

    async def work() -> None:
        queue, watch = SendQueue(backlog_bytes=size * 1000), _Watch()
        for number in range(size):
            item = Item(cursor=f"1:{number}", data={"text": "a word "}, follows=set())
            queue.append(cast("Watch", watch), Page(items=(item,)))
        await queue.take()

    return _timed(lambda: asyncio.run(work()))


MEMORY: dict[str, tuple[Part, int]] = {
    "text that a worker cannot send": (_unsent, 2_000),
    "a streamed chat": (lambda size: _answer(Whole(), size), 3_000),
    "a streamed response": (
        lambda size: _answer(MappedResponse({"model": "m"}, job_id=1, fence=1, now=1), size),
        3_000,
    ),
    "events of a stream": (lambda size: _events('data: {"n": 1}\n\n' * size, 1_000), 10_000),
    # From 40,000 on: a line costs 234 ns at 4,000 (in the processor's cache), 298 at 40,000 and 309 at 4,000,000.
    "lines of one event": (lambda size: _events("data: line\n" * size + "\n", 1_000), 40_000),
    "pieces of one line": (lambda size: _events("data: " + "x" * size * 20 + "\n\n", 20), 10_000),
    "output that a browser does not read": (_send_queue, 2_000),
}


def _stored_parts() -> dict[str, tuple[Part, int]]:
    operations.create_kind(operations.Kind(name="growth", queue="growth"))
    worker, _ = operations.create_worker("growth", queues=["growth"])
    return {
        "output that is stored": (lambda size: _written(worker, size)[0], 200),
        "output that is read again": (lambda size: _replayed(worker, size), 200),
        "jobs of a bulk": (lambda size: _stored(lambda: _submit(size)), 100),
        "jobs that are handed in together": (lambda size: _handed_in(worker, size), 100),
        "messages to an endpoint that is away": (_outage(), 100),
        "lines of a batch": (_batch(), 500),
    }


def _submit(size: int) -> None:
    operations.submit_many([operations.NewJob(kind="growth", payload={"n": n}) for n in range(size)])


def _written(worker: Worker, size: int) -> tuple[Cost, int]:
    _submit(1)
    [claimed] = operations.claim(worker, limit=1)
    text = "word " * 800

    def work() -> None:
        for seq in range(size):
            operations.write_outputs(worker, [Piece(job_id=claimed.id, lease=claimed.lease, seq=seq, text=text)])

    cost = _stored(work)
    operations.finish(worker, [_succeeded(claimed)])
    return cost, claimed.id


def _replayed(worker: Worker, size: int) -> Cost:
    """By the API's pages, as one text, and as a late watcher gets it."""
    _, job_id = _written(worker, size)

    def work() -> None:
        after = -1
        while chunks := reads.output_page(job_id, attempt=1, after=after, most=500, characters=20_000):
            after = chunks[-1].seq
        reads.output_text(job_id, attempt=1)
        seq = -1
        while pieces := reports.output_after(job_id, 1, seq, most=50):
            seq = pieces[-1].seq

    return _stored(work)


def _handed_in(worker: Worker, size: int) -> Cost:
    _submit(size)
    claimed = operations.claim(worker, limit=size)
    finished = [_succeeded(one) for one in claimed]
    return _stored(lambda: operations.finish(worker, finished))


def _outage() -> Part:
    """Every message fails once, and is sent when the endpoint is back: half of them are of one subject, and two of each
    other."""
    endpoint = Endpoint.objects.create(name="growth", url="https://growth.example/", events=["queue.paused"])
    endpoints.add_secret(endpoint)

    def part(size: int) -> Cost:
        subjects = [f"queue/{number // 2}" for number in range(size // 2)] + ["queue/one"] * (size // 2)
        events = [outbox.NewEvent(type="queue.paused", subject=subject, data={}) for subject in subjects]
        outbox.record_all(events, only=endpoint.pk)

        def work() -> None:
            assert _attempted(status=503) < size
            queries.hasten(endpoint.pk)
            assert _attempted(status=200) == len(events)

        return _stored(work)

    return part


def _attempted(*, status: int) -> int:
    """Have everything that is due, and what that lets become due, be answered so; how many that were."""
    count = 0
    while claimed := attempts.claim(100):
        now, answer = clock.now(), Answer(status=status)
        attempts.settle([attempts.Ended(claimed=one, started_at=now, answer=answer) for one in claimed])
        count += len(claimed)
    return count


def _batch() -> Part:
    """From the input file to the output file; its jobs are answered at once."""
    user = get_user_model().objects.create_user("growth")
    worker, _ = operations.create_worker("batch", queues=["openai"])
    operations.seen([worker.pk])
    operations.introduce(worker, Facts(models=("tiny",)))
    url = "/v1/embeddings"
    line = {"method": "POST", "url": url, "body": {"model": "tiny", "input": "a word"}}

    def part(size: int) -> Cost:
        text = "".join(f"{json.dumps({'custom_id': str(n), **line})}\n" for n in range(size))

        def work() -> None:
            file = files.create(ContentFile(text.encode()), name="in.jsonl", purpose="batch", user=user)
            batch = batches.create(input_file_id=file.public_id, endpoint=url, window="24h", metadata=None, user=user)
            while batch.is_live:
                steps.step(batch_id=str(batch.pk), chain=batch.chain)
                operations.seen([worker.pk])
                while claimed := operations.claim(worker, limit=100):
                    operations.finish(worker, [_succeeded(one) for one in claimed])
                batch.refresh_from_db()
            assert batch.completed == size, batch.errors

        return _stored(work)

    return part


def _succeeded(one: operations.ClaimedJob) -> operations.Finished:
    return operations.Finished(job_id=one.id, lease=one.lease, outcome="success", result=1)


class _Away:
    """A farm that cannot be reached until a moment of the loop's clock, and takes everything from then on."""

    def __init__(self, until_s: float) -> None:
        self._until_s = until_s
        self.characters = 0

    async def call(self, call: Call, *, timeout_s: float) -> dict[str, Any]:
        """As HttpLink's."""
        assert timeout_s > 0
        await asyncio.sleep(0.002)
        if asyncio.get_running_loop().time() < self._until_s:
            raise Unreachable("It is away.")
        self.characters += len(call.body.get("text", ""))
        return {}


def _stream(options: Options) -> Table:
    table = Table(what=f"{TOKENS:,} tokens, their farm away for {AWAY_S:g} s", is_less_better=True)
    tokens, away_s = options.many(TOKENS, least=1_000), options.seconds(AWAY_S)
    for name, value in asyncio.run(streamed(tokens, away_s=away_s)).items():
        table.add(name, value)
        options.say(f"{name}: {value:,.2f}")
    return table


async def streamed(tokens: int, *, away_s: float) -> dict[str, float]:
    """The stream, and beside it a job that only wants to go on each 10 ms."""
    loop = asyncio.get_running_loop()
    link: Any = _Away(loop.time() + away_s)
    farm = Farm(link, socket=None, needs_socket=False, rng=random.SystemRandom())
    late_s: list[float] = []

    async def speak(job: Any) -> None:
        for number in range(tokens):
            job.write("tok, " if number % 7 else "tok.\n")
            if number % 50 == 0:  # what came with one read of the model server
                await asyncio.sleep(0)

    async def go_on() -> None:
        while True:
            before_s = loop.time()
            await asyncio.sleep(0.01)
            late_s.append(loop.time() - before_s - 0.01)

    claimed = ClaimedJob(id=1, kind="k", queue="q", payload=None, attempt=1, lease="1-1", heartbeat_s=20)
    holder = Holder(farm)
    beside = asyncio.create_task(go_on())
    began_s = time.process_time()
    HeldJob(claimed, handler=speak, holder=holder).start()
    await holder.ended
    took_s = time.process_time() - began_s
    beside.cancel()
    assert link.characters == 5 * tokens
    return {A_TOKEN: took_s / tokens * 1e6, BESIDE: max(late_s) * 1000}


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    results.show(main(parse(__doc__)))
