"""What one process counts of its own doing, for Prometheus. What the whole farm has in common is read from the
database instead (jobfarm.metrics).

Labels have few values each, all of them ours: queues, names of limits, sources. Nothing that a stranger chooses, but
for models, of which a bounded number is kept.

The process answers between its other work, with no thread and no process for it: one question at a time, each within
ANSWERED_WITHIN_S, and nothing at all while nobody asks (docs/adr/0033).

A cell has one writer at a time: a row belongs to one worker's place, and whoever takes the place goes on counting
there. So the numbers only grow for as long as the supervisor lives, whichever of the others are killed.
"""

import bisect
import contextlib
import hmac
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.sharedctypes import RawArray
from typing import Any, Final, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

# When a series began is another series; nothing here asks.
disable_created_metrics()  # type: ignore[no-untyped-call]

CLAIMED = Counter("jobfarm_jobs_claimed", "Jobs that this process handed to workers.", ["queue"])
DENIED = Counter("jobfarm_limit_denials", "Times that a rate limit denied in this process.", ["limit"])
WEBHOOKS = Counter("jobfarm_webhook_requests", "Webhook requests answered by this process.", ["source", "status"])
REQUESTS = Counter("jobfarm_http_requests", "Requests answered by this process.", ["part", "status"])
REQUEST_SECONDS = Histogram(
    "jobfarm_http_request_seconds",
    "How long requests took that do not wait for something to happen.",
    ["part"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
PAGE_SOCKETS_REFUSED = Counter(
    "jobfarm_page_sockets_refused", "Page sockets that this process refused or closed for a limit.", ["reason"]
)
PAGE_WATCHES_REFUSED = Counter("jobfarm_page_watches_refused", "Watches refused before any database read.", ["reason"])
PAGE_MESSAGES_DELAYED = Counter(
    "jobfarm_page_messages_delayed", "Parts of messages that waited because their socket asks too fast."
)
# By model, in vLLM's names: whoever has a dashboard for that finds them here.
FIRST_TOKEN_SECONDS = Histogram(
    "jobfarm_time_to_first_token_seconds",
    "How long streamed calls took from their request to their first token.",
    ["model_name"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
OUTPUT_TOKEN_SECONDS = Histogram(
    "jobfarm_request_time_per_output_token_seconds",
    "How long each chunk after the first took, on average over a streamed call.",
    ["model_name"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
)
PROMPT_TOKENS = Counter("jobfarm_prompt_tokens", "Tokens of prompts of ended attempts.", ["model_name"])
PREFIX_CACHE_QUERIES = Counter(
    "jobfarm_prefix_cache_queries",
    "Tokens of prompts whose model server says what of them it had in its cache.",
    ["model_name", "worker"],
)
PREFIX_CACHE_HITS = Counter("jobfarm_prefix_cache_hits", "Tokens of these that it had.", ["model_name", "worker"])
GENERATION_TOKENS = Counter("jobfarm_generation_tokens", "Tokens of answers of ended attempts.", ["model_name"])
CALL_HOOKS = Counter(
    "jobfarm_call_hooks", "Calls and answers that hooks of this process decided about.", ["hook", "outcome"]
)
OPEN = Gauge("jobfarm_open_connections", "What this process holds open now.", ["kind"])

# Of janitors alone: apart from the others, so that no web process shows them.
JANITOR = CollectorRegistry()
SWEPT = Counter(
    "jobfarm_janitor_jobs",
    "Jobs that this janitor took back, timed out while they waited, or opened to their workers again.",
    ["result"],
    registry=JANITOR,
)
SWEEP_SECONDS = Histogram(
    "jobfarm_janitor_sweep_seconds",
    "How long its sweeps took.",
    buckets=(0.005, 0.025, 0.1, 0.5, 2.5, 10),
    registry=JANITOR,
)
JANITOR_ERRORS = Counter("jobfarm_janitor_errors", "Times that it lost the database and tried again.", registry=JANITOR)
OUTBOX_ATTEMPTS = Counter(
    "jobfarm_outbox_attempts",
    "Attempts of this janitor to send a message, by what they came to.",
    ["outcome"],
    registry=JANITOR,
)
for _outcome in ("delivered", "failed", "gone"):
    OUTBOX_ATTEMPTS.labels(_outcome)
for _result in ("taken_back", "expired"):
    SWEPT.labels(_result)  # from the beginning, so that a first one is an increase

MOST_MODELS: Final = 100
_models: Final[dict[str, None]] = {}
MOST_CACHES: Final = 500  # models of workers
_caches: Final[dict[tuple[str, str], None]] = {}
_models_lock: Final = threading.Lock()
T = TypeVar("T")


def label_of_model(model: str) -> str:
    """Keep series for this model, whose name anybody with a worker chooses: of MOST_MODELS, the ones used last."""
    for oldest in _moved_out(_models, model, most=MOST_MODELS):
        for family in (FIRST_TOKEN_SECONDS, OUTPUT_TOKEN_SECONDS, PROMPT_TOKENS, GENERATION_TOKENS):
            family.remove(oldest)
    return model


def count_cached(model: str, worker: str, *, prompt: int, cached: int) -> None:
    """Count the tokens of a prompt and the cached ones of them; of MOST_CACHES, series of those used last stay."""
    for oldest in _moved_out(_caches, (model, worker), most=MOST_CACHES):
        for family in (PREFIX_CACHE_QUERIES, PREFIX_CACHE_HITS):
            family.remove(*oldest)
    PREFIX_CACHE_QUERIES.labels(model, worker).inc(prompt)
    PREFIX_CACHE_HITS.labels(model, worker).inc(cached)


def _moved_out(recent: dict[T, None], key: T, *, most: int) -> list[T]:
    """What is not among the ones used last any more, now that this one is used."""
    with _models_lock:
        recent.pop(key, None)
        recent[key] = None
        oldest = [*recent][: max(0, len(recent) - most)]
        for one in oldest:
            del recent[one]
        return oldest


ANSWERED_WITHIN_S: Final = 0.5
LONGEST_QUESTION: Final = 8192  # bytes
_END: Final = b"\r\n\r\n"
log = logging.getLogger(__name__)


class NoMetricsToken(Exception):
    """--metrics takes JOBFARM_METRICS_TOKEN: what Prometheus has to show as bearer."""


class Exposition:
    """Listens at `address` and answers `GET /metrics` with what `render` returns to whoever shows `token` as bearer.
    Raises OSError where it cannot listen, NoMetricsToken without a token: numbers reveal what goes on."""

    def __init__(self, address: tuple[str, int], *, token: str, render: Callable[[], bytes]) -> None:
        if not token:
            raise NoMetricsToken(NoMetricsToken.__doc__)
        self._token, self._render = token.encode(), render
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family)
        self._listener.setblocking(False)

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def fileno(self) -> int:
        return self._listener.fileno()

    def answer(self) -> None:
        """Answer one who asks, if somebody does. Who is slow or gone is left."""
        with contextlib.suppress(OSError):
            caller, _ = self._listener.accept()
            with caller:
                until = time.monotonic() + ANSWERED_WITHIN_S
                caller.settimeout(ANSWERED_WITHIN_S)
                status, body = self._reply(_head(caller, until=until))
                caller.settimeout(max(until - time.monotonic(), 0.05))
                caller.sendall(_response(status, body))

    def serve(self) -> None:
        """Answer whoever asks, until the process ends. For a thread of one that has no loop to do it in."""
        self._listener.setblocking(True)
        while True:
            self.answer()

    def close(self) -> None:
        self._listener.close()

    def _reply(self, head: bytes) -> tuple[str, bytes]:
        line, _, rest = head.partition(b"\r\n")
        if not line.startswith((b"GET /metrics ", b"GET /metrics?")):
            return "404 Not Found", b""
        if not hmac.compare_digest(_bearer(rest), self._token):
            return "401 Unauthorized", b""
        return "200 OK", self._render()


def opened(at: tuple[str, int], *, token: str, render: Callable[[], bytes]) -> Exposition | None:
    """An Exposition, or None and a warning in the log where there is no token or somebody else has the port. Who
    watches over jobs does so without being watched: numbers that are missing are an alert of their own."""
    try:
        return Exposition(at, token=token, render=render)
    except (NoMetricsToken, OSError) as error:
        log.warning("No numbers are shown at %s:%s: %s", *at, error)
        return None


def expose(at: tuple[str, int], *, token: str, render: Callable[[], bytes]) -> None:
    """Answer at this address in a thread, for a process whose own work takes long."""
    if (shown := opened(at, token=token, render=render)) is not None:
        threading.Thread(target=shown.serve, name="metrics", daemon=True).start()


def address(text: str) -> tuple[str, int]:
    """ "9101", "0.0.0.0:9101", "[::]:9101" as host and port; this machine's own interface unless it names one. Raises
    ValueError."""
    host, _, port = text.rpartition(":")
    number = int(port)
    if not 0 <= number <= 65_535:
        raise ValueError(text)
    return host.strip("[]") or "127.0.0.1", number


def _head(caller: socket.socket, *, until: float) -> bytes:
    """What came up to the empty line. Raises OSError for who does not get that far in time."""
    head = b""
    while _END not in head:
        caller.settimeout(max(until - time.monotonic(), 0.001))
        more = caller.recv(LONGEST_QUESTION)
        head += more
        if not more or len(head) > LONGEST_QUESTION:
            raise ConnectionError
    return head


def _bearer(headers: bytes) -> bytes:
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            return value.strip().removeprefix(b"Bearer ").strip()
    return b""


def _response(status: str, body: bytes) -> bytes:
    more = "WWW-Authenticate: Bearer\r\n" if status.startswith("401") else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE_LATEST}\r\nContent-Length: {len(body)}\r\n{more}"
    return f"{head}Connection: close\r\n\r\n".encode() + body


OUTCOMES: Final = ("success", "failed", "again")  # again: put back, to be run once more
BOUNDS_S: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 1800.0)
_SECONDS, _COLLISIONS = len(OUTCOMES), len(OUTCOMES) + 1
_BUCKETS: Final = len(OUTCOMES) + 2
_WIDTH: Final = _BUCKETS + len(BOUNDS_S) + 1


class FunctionCounts:
    """The counts of one cluster with so many places for workers. Made before its processes are forked."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._cells: Any = RawArray("d", places * _WIDTH)
        self._deaths: Any = RawArray("q", 1)  # the dispatcher's
        self.restarts = 0  # the supervisor's own

    def add(self, place: int, *, outcome: str, seconds: float, collisions: int) -> None:
        start = place * _WIDTH
        self._cells[start + OUTCOMES.index(outcome)] += 1
        self._cells[start + _SECONDS] += seconds
        self._cells[start + _COLLISIONS] += collisions
        self._cells[start + _BUCKETS + bisect.bisect_left(BOUNDS_S, seconds)] += 1

    def worker_died(self) -> None:
        """A worker ended that should not have; another takes its place."""
        self._deaths[0] += 1

    def families(self, role: str) -> Iterator[Metric]:
        sums = self._sums()
        ran = CounterMetricFamily(
            "jobfarm_functions_run", "Runs of functions by this cluster.", labels=["role", "outcome"]
        )
        for outcome, number in zip(OUTCOMES, sums, strict=False):
            ran.add_metric([role, outcome], number)
        took = HistogramMetricFamily(
            "jobfarm_function_run_seconds", "How long runs of functions took.", labels=["role"]
        )
        took.add_metric([role], buckets=_cumulative(sums[_BUCKETS:]), sum_value=sums[_SECONDS])
        yield from (ran, took)
        for name, about, value in (
            ("function_collisions", "Tries that collided with others and were made again at once.", sums[_COLLISIONS]),
            ("cluster_worker_deaths", "Workers of this cluster that were killed or died.", self._deaths[0]),
            ("cluster_restarts", "Times that this cluster died or froze and began anew.", self.restarts),
        ):
            counter = CounterMetricFamily(f"jobfarm_{name}", about, labels=["role"])
            counter.add_metric([role], value)
            yield counter

    def _sums(self) -> list[float]:
        rows = [self._cells[place * _WIDTH : (place + 1) * _WIDTH] for place in range(self._places)]
        return [sum(column) for column in zip(*rows, strict=True)]


_counted_in: list[tuple[FunctionCounts, int]] = []  # of a cluster's worker: its counts, and its place there


def count_into(counts: FunctionCounts, place: int) -> None:
    _counted_in[:] = [(counts, place)]


def ran(*, outcome: str, seconds: float, collisions: int = 0) -> None:
    """A run has ended here. Outside of a cluster's worker it is not counted."""
    for counts, place in _counted_in:
        counts.add(place, outcome=outcome, seconds=seconds, collisions=collisions)


def _cumulative(counts: Sequence[float]) -> list[tuple[str, float]]:
    bounds = [*map(str, BOUNDS_S), "+Inf"]
    return [(bound, sum(counts[: index + 1])) for index, bound in enumerate(bounds)]
