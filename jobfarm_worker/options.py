"""Options of a worker, checked before anything is connected."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from jobfarm_client import wire
from jobfarm_worker.errors import BadOption
from jobfarm_worker.farm import Transport

VERSION = wire.VERSION
MOST_READY = 200  # by default; what a farm gives in two answers
LONGEST_LABEL = 200  # characters of its value
_LABEL = re.compile(r"[a-z][a-z0-9_.-]{0,62}")
_NO_KEY = "A worker needs its key; the command `create_worker NAME` of the farm prints one."


@dataclass(eq=False)
class Options:
    """A worker of the farm at `url`, known there by `key`.

    `queues`: take jobs of these only (default: the worker's own queues, then stealing).
    `concurrency`: jobs at a time. `transport`: `auto` is a WebSocket where one can be had, else HTTP.
    `grace_s`: on a stop, seconds that running jobs have to finish before they are given back.
    `prefetch`: while jobs are short, so many at most are kept ready; 0: one call a job, none kept ready.
    `labels`: what jobs may require of this machine, such as `{"vram": "24", "region": "home"}`.
    Raises BadOption, with a sentence that says what to change, when one of them makes no sense.
    """

    url: str
    key: str
    _: KW_ONLY
    queues: Sequence[str] | None = None
    concurrency: int = 1
    transport: Transport = "auto"
    grace_s: float = 10.0
    prefetch: int = MOST_READY
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise BadOption(f"A worker runs at least one job at a time, not {self.concurrency}.")
        if self.transport not in {"auto", "ws", "http"}:
            raise BadOption(f"The transport is auto, ws or http, not {self.transport!r}.")
        if isinstance(self.queues, str):
            raise BadOption("Queues are a list of names, not one string.")
        if not self.grace_s >= 0:
            raise BadOption(f"The grace is a number of seconds from 0 up, not {self.grace_s}.")
        if self.prefetch < 0:
            raise BadOption(f"A worker keeps 0 jobs or more ready, not {self.prefetch}.")
        self.url = wire.checked_url(self.url)
        self.key = wire.checked_key(self.key, lacking=_NO_KEY)
        self.queues = tuple(self.queues) if self.queues else None
        self.labels = {name: _label(name, value) for name, value in (self.labels or {}).items()}

    @property
    def socket_url(self) -> str:
        return "ws" + self.url.removeprefix("http") + "/ws/worker/"

    def headers(self, *, name: str) -> dict[str, str]:
        """The headers of every request; `name` identifies this process to the operator."""
        return wire.headers(key=self.key, agent="jobfarm-worker", name=name)


def written_labels(texts: Iterable[str]) -> dict[str, str]:
    """The labels of a command line, each as `vram=24`; the Options refuse others."""
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}


def _label(name: str, value: str) -> str:
    """The value of a label as a farm takes it (docs/labels.md)."""
    is_value = 0 < len(value) <= LONGEST_LABEL and value.isprintable() and "|" not in value and value[0] not in "<>="
    if not _LABEL.fullmatch(name) or not is_value:
        raise BadOption(f"A label is such as vram=24, its name of a-z 0-9 _ . -, not {name}={value}.")
    return value
