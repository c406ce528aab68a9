"""Conversations with models on several workers, simulated: which share of their prompts a cache has, and how long the
first token takes.

.venv/bin/python -m benchmarks.prefix [--quick] [--rounds 3]

Nothing of the farm runs: calls of generated conversations are given to workers by four rules, the farm's own with its
own function (`openai_api.domain.affinity`). Each round has other conversations, the same for each rule. A worker reads
prompts one after the other, keeps what it read last in a cache of a bounded number of tokens, and writes answers side
by side, each the slower the more there are.
"""

import heapq
import itertools
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median, quantiles

from benchmarks import results
from benchmarks.options import Options, parse
from benchmarks.results import Table
from openai_api.domain import affinity

WORKERS, SLOTS = 4, 8
READS_A_S, WRITES_A_S, CACHE = 6_000.0, 40.0, 400_000  # tokens of a worker
SLOWER = 0.04  # for each other answer that is written meanwhile
HEAD_START_S = 2.0
CALLS = 6_000
MOST_LOST = 5
LOADS = {"33%": 0.33, "67%": 0.67, "90%": 0.9}  # of what least loaded workers could do
LEAST_LOADED, PERFECT, MEAN, OURS = "least loaded", "perfect affinity", "at most the mean", "jobfarm"
RULES = (LEAST_LOADED, PERFECT, MEAN, OURS)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """A sort of conversations: how many turns they have, tokens of the system's prompts, which so many share, of a turn
    and of an answer, and how many seconds are between an answer and the next turn."""

    turns: int
    system: int
    systems: int
    turn: int
    answer: int
    pause_s: float


TRAFFIC = {
    "chats": Traffic(turns=6, system=400, systems=20, turn=150, answer=250, pause_s=20),
    "agents": Traffic(turns=25, system=8_000, systems=3, turn=800, answer=120, pause_s=1),
    "documents": Traffic(turns=4, system=300, systems=5, turn=3_000, answer=400, pause_s=30),
}


@dataclass(eq=False)
class Conversation:
    """Its turns in order: the tokens that each adds to the prompt, and those of its answer."""

    at: float
    system: tuple[str, int]
    turns: list[tuple[int, int]]
    done: int = 0
    server: int | None = None  # that had the turn before


@dataclass(eq=False)
class Server:
    """A worker with its model server."""

    running: int = 0
    reads_until: float = 0.0
    cached: int = 0
    cache: "OrderedDict[object, int]" = field(default_factory=OrderedDict)

    def read(self, prompt: list[tuple[object, int]]) -> int:
        """Tokens of the beginning of this prompt that were in the cache, which has all of it then."""
        known = list(itertools.takewhile(lambda part: part[0] in self.cache, prompt))
        for name, tokens in reversed(prompt):
            self.cached += 0 if name in self.cache else tokens
            self.cache[name] = tokens
            self.cache.move_to_end(name)
        while self.cached > CACHE:
            self.cached -= self.cache.popitem(last=False)[1]
        return sum(tokens for _, tokens in known)


def conversations(traffic: Traffic, *, load: float, calls: int, seed: int) -> list[Conversation]:
    """So many calls that keep such a share of the slots busy."""
    rng = random.Random(seed)  # noqa: S311  # the same in each run
    made, ahead = list[Conversation](), calls
    while ahead > 0:
        number = min(int(rng.paretovariate(1.0)), traffic.systems)
        turns = [(_about(traffic.turn, rng), _about(traffic.answer, rng)) for _ in range(_about(traffic.turns, rng))]
        made.append(Conversation(0.0, (f"system {number}", traffic.system), turns))
        ahead -= len(turns)
    within_s = _busy_s(made) / load
    for one in made:
        one.at = rng.uniform(0, within_s)
    return made


def _busy_s(made: list[Conversation]) -> float:
    """How long workers at their limit have to do with these conversations where each turn goes to any of them: they
    read most of the earlier messages anew."""
    read, written = 0.0, 0.0
    for one in made:
        before = 0
        for turn, answer in one.turns:
            read += turn + before * (1 - 1 / WORKERS)
            before += turn + answer
            written += answer
    return max(read / READS_A_S, written / WRITES_A_S / SLOTS * (1 + SLOWER * SLOTS)) / WORKERS


def _about(tokens: int, rng: random.Random) -> int:
    return max(1, int(tokens * rng.lognormvariate(-0.32, 0.8)))


class Farm:
    """The calls of these conversations by one rule, from event to event."""

    def __init__(self, traffic: Traffic, rule: str, *, seed: int) -> None:
        self._traffic, self._rule = traffic, rule
        self._rng = random.Random(seed)  # noqa: S311
        self.servers = [Server() for _ in range(WORKERS)]
        self._waiting: deque[tuple[float, Conversation, int | None]] = deque()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = itertools.count()
        self.prompts = self.cached = 0
        self.first_token_s: list[float] = []

    def run(self, talks: list[Conversation]) -> None:
        for talk in talks:
            self._at(talk.at, lambda now, talk=talk: self._arrive(now, talk))  # type: ignore[misc]
        while self._events:
            now, _, happen = heapq.heappop(self._events)
            happen(now)
            self._hand_out(now)

    def _at(self, moment: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._number), happen))

    def _arrive(self, now: float, talk: Conversation) -> None:
        wanted = self._wanted(talk)
        self._waiting.append((now, talk, wanted))
        if wanted is not None:
            self._at(now + HEAD_START_S, lambda _: None)

    def _wanted(self, talk: Conversation) -> int | None:
        server, loads = talk.server, [each.running for each in self.servers]
        if server is None or self._rule == LEAST_LOADED:
            return None
        if self._rule == MEAN:
            return server if loads[server] <= sum(loads) / WORKERS else None
        slots: dict[int, int | None] = dict.fromkeys(range(WORKERS), SLOTS)
        is_given_up = affinity.is_too_busy(server, jobs=dict(enumerate(loads)), slots=slots)
        return None if self._rule == OURS and is_given_up else server

    def _hand_out(self, now: float) -> None:
        """Each call that waits, the oldest first, to a worker with a slot free that may take it."""
        for _ in range(len(self._waiting)):
            since, talk, wanted = self._waiting.popleft()
            is_kept = wanted is not None and (self._rule == PERFECT or now < since + HEAD_START_S)
            may = [wanted] if is_kept and wanted is not None else range(WORKERS)
            free = [each for each in may if self.servers[each].running < SLOTS]
            if not free:
                self._waiting.append((since, talk, wanted))
                continue
            least = min(self.servers[each].running for each in free)
            self._begin(now, since, talk, self._rng.choice([s for s in free if self.servers[s].running == least]))

    def _begin(self, now: float, since: float, talk: Conversation, number: int) -> None:
        server, answer = self.servers[number], talk.turns[talk.done][1]
        prompt: list[tuple[object, int]] = [talk.system, *_prompt_of(talk)]
        tokens, cached = sum(part[1] for part in prompt), server.read(prompt)
        server.running += 1
        server.reads_until = max(now, server.reads_until) + (tokens - cached) / READS_A_S
        self.prompts, self.cached = self.prompts + tokens, self.cached + cached
        self.first_token_s.append(server.reads_until - since)
        talk.server, talk.done = number, talk.done + 1
        ends = server.reads_until + answer / WRITES_A_S * (1 + SLOWER * (server.running - 1))
        self._at(ends, lambda then: self._end(then, server, talk))

    def _end(self, now: float, server: Server, talk: Conversation) -> None:
        server.running -= 1
        if talk.done < len(talk.turns):
            pause_s = self._rng.expovariate(1 / self._traffic.pause_s)
            self._at(now + pause_s, lambda then: self._arrive(then, talk))


def _prompt_of(talk: Conversation) -> Iterator[tuple[object, int]]:
    """What stands in the prompt of the next turn: the turns and answers before it, and itself."""
    before = 0
    for number, (turn, answer) in enumerate(talk.turns[: talk.done + 1]):
        yield (talk, number), turn + before
        before = answer


def measure(sort: str, load: float, rule: str, *, calls: int, seed: int) -> tuple[float, float]:
    """The share of the prompts that was cached, in per cent, and the p99 of seconds to the first token."""
    farm = Farm(TRAFFIC[sort], rule, seed=seed)
    farm.run(conversations(TRAFFIC[sort], load=load, calls=calls, seed=seed))
    return 100 * farm.cached / farm.prompts, quantiles(farm.first_token_s, n=100)[98]


def main(options: Options) -> list[Table]:
    """What our rule loses and gains in each sort of conversations at each load."""
    what = f"Prompts, in points, that perfect affinity finds cached beside jobfarm, {WORKERS} workers, by load"
    lost, late = Table(what=what, is_less_better=True), list[float]()
    for sort, (name, load) in itertools.product(TRAFFIC, LOADS.items()):
        who, p99s = f"{sort} {name}", list[float]()
        for seed in range(options.rounds):
            calls = options.many(CALLS, least=300)
            measured = {rule: measure(sort, load, rule, calls=calls, seed=seed) for rule in RULES}
            lost.add(who, measured[PERFECT][0] - measured[OURS][0])
            p99s.append(measured[OURS][1] / measured[LEAST_LOADED][1])
        late.append(median(p99s))
        options.say(
            f"{who}: " + "; ".join(f"{rule} {share:.0f} %, {p99_s:.3g} s" for rule, (share, p99_s) in measured.items())
        )
    reached = [median(values) <= MOST_LOST for values in lost.values.values()]
    lost.notes.append(f"Mark: at most {MOST_LOST}; reached by {sum(reached)} of {len(reached)}.")
    beside = f"First token, p99, beside the least loaded worker's: {min(late):.2f} to {max(late):.2f}"
    lost.notes.append(f"{beside}; mark: at most 1, {'reached' if max(late) <= 1 else '**missed**'}.")
    return [lost]


if __name__ == "__main__":
    results.show(main(parse(__doc__)))
