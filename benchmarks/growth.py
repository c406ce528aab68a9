"""Ten times as much costs ten times as much: what a stream, a batch and an outage make longer.

.venv/bin/python -m benchmarks.growth [--quick]

Each part is run at a size and at ten times that size, in turns, and the processor's time of both compared (of this
process: PostgreSQL's is not in it): twelve times at most, where a step that copies or reads all that is there already
makes it a hundred. Then a stream of a million tokens whose farm is away for half a minute, and what a small job beside
it waits meanwhile.
"""

import asyncio
import os
import random
import time
from collections.abc import Callable
from typing import Any, cast

from benchmarks import own, results
from benchmarks.options import Options, parse
from benchmarks.results import Table
from jobfarm_client.sse import Blocks
from jobfarm_worker.errors import Unreachable
from jobfarm_worker.farm import Farm
from jobfarm_worker.handlers.chunks import Whole
from jobfarm_worker.handlers.responses import MappedResponse
from jobfarm_worker.held import HeldJob
from jobfarm_worker.outbox import Outbox
from jobfarm_worker.protocol import Call, ClaimedJob, JobResult
from jobfarm_worker.scoreboard import Scoreboard
from jobfarm_worker.threads import Threads
from jobs import operations
from jobs.domain.outputs import Piece
from jobs.models import Worker
from jobs.queries import reads, reports
from live.feeds import Watch
from live.registry import Item
from live.rendering import page_of
from live.send_queue import SendQueue

TIMES = 10
MARK = 12.0
AWAY_S = 30.0
TOKENS = 1_000_000
A_TOKEN, BESIDE = "microseconds of the processor a token", "longest wait of a job beside it (ms)"
Part = Callable[[int], float]
"""Does so much, and says how many seconds of the processor that took."""


def main(options: Options) -> list[Table]:
    """Measure; a table of ratios, and one of the stream."""
    grown = Table(what=f"{TIMES} times as much (times the processor's time)", is_less_better=True)
    with own.database():
        operations.sync()
        parts = {**MEMORY, **_stored_parts()}
        for _ in range(options.rounds):
            for name, (part, size) in parts.items():
                small = options.many(size, least=size // 20)
                ratio = min(part(TIMES * small) for _ in range(2)) / min(part(small) for _ in range(4))
                grown.add(name, ratio)
                options.say(f"{name}: {TIMES} times {small:,} cost {ratio:.1f} times as much")
    missed = [name for name, values in grown.values.items() if min(values) > MARK]
    grown.notes.append(f"Mark: {MARK:g} at most; " + (f"**missed** by {', '.join(missed)}." if missed else "reached."))
    return [grown, _stream(options)]


def _timed(work: Callable[[], Any]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def _outbox(size: int) -> float:
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


def _answer(answer: Whole | MappedResponse, size: int) -> float:
    chunks = [_chunk(number) for number in range(size)]

    def work() -> None:
        for chunk in chunks:
            answer.lines(chunk)
        answer.closing()
        answer.answer()

    return _timed(work)


def _events(text: str, piece: int) -> float:
    """A stream of server-sent events that comes in pieces of so many characters."""
    blocks = Blocks()
    pieces = [text[begin : begin + piece] for begin in range(0, len(text), piece)]
    return _timed(lambda: sum(len(list(blocks.feed(each))) for each in pieces))


class _Watch:
    watch_id = "1"


def _send_queue(size: int) -> float:
    """Output for a browser that does not read."""

    async def work() -> None:
        queue, watch = SendQueue(backlog_bytes=size * 1000), _Watch()
        for number in range(size):
            item = Item(cursor=f"1:{number}", data={"text": "a word "}, follows=set())
            queue.append(cast("Watch", watch), page_of([item]))
        await queue.take()

    return _timed(lambda: asyncio.run(work()))


MEMORY: dict[str, tuple[Part, int]] = {
    "text that a worker cannot send": (_outbox, 2_000),
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
        "jobs of a bulk": (lambda size: _timed(lambda: _submit(size)), 100),
        "jobs that are handed in together": (lambda size: _handed_in(worker, size), 100),
    }


def _submit(size: int) -> None:
    operations.submit_many([operations.NewJob(kind="growth", payload={"n": n}) for n in range(size)])


def _written(worker: Worker, size: int) -> tuple[float, int]:
    _submit(1)
    [claimed] = operations.claim(worker, limit=1)
    text = "word " * 800

    def work() -> None:
        for seq in range(size):
            operations.write_outputs(worker, [Piece(job_id=claimed.id, lease=claimed.lease, seq=seq, text=text)])

    took_s = _timed(work)
    ended = operations.Finished(job_id=claimed.id, lease=claimed.lease, outcome="success")
    operations.finish(worker, [ended])
    return took_s, claimed.id


def _replayed(worker: Worker, size: int) -> float:
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

    return _timed(work)


def _handed_in(worker: Worker, size: int) -> float:
    _submit(size)
    claimed = operations.claim(worker, limit=size)
    finished = [operations.Finished(job_id=one.id, lease=one.lease, outcome="success", result=1) for one in claimed]
    return _timed(lambda: operations.finish(worker, finished))


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

    async def hand_in(_claimed: ClaimedJob, outcome: JobResult, _took_s: float) -> None:
        assert outcome.success, outcome.error

    claimed = ClaimedJob(id=1, kind="k", queue="q", payload=None, attempt=1, lease="1-1", heartbeat_s=20)
    held = HeldJob(claimed, handler=speak, farm=farm, board=Scoreboard(), threads=Threads(), on_fatal=lambda _: None)
    beside = asyncio.create_task(go_on())
    began_s = time.process_time()
    await held.run(hand_in=hand_in)
    took_s = time.process_time() - began_s
    beside.cancel()
    assert link.characters == 5 * tokens
    return {A_TOKEN: took_s / tokens * 1e6, BESIDE: max(late_s) * 1000}


if __name__ == "__main__":
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    results.show(main(parse(__doc__)))
