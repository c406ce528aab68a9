"""What a list of jobs is narrowed to. Texts, as an address and a live query carry them; an empty one means any.

Each filter is described here once: the form, the API's parameters, the live query's arguments and the statement's
conditions are made from that.
"""

import re
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from core.values import moment
from jobs.domain.states import Status

AGES: Final = {"hour": timedelta(hours=1)} | {
    name: timedelta(days=days) for name, days in (("day", 1), ("week", 7), ("month", 30))
}
# `https://…` is no key with a value, nor is `12:30`; a value with spaces stands in quotes.
_PAIR: Final = re.compile(r'(?<!\S)([A-Za-z_][\w.-]*):(?!//)(?:"([^"]+)"|([^\s"]+))(?!\S)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """How one filter is asked for, and how it becomes a condition.

    `type` says what its text is: one of `choices`, one of the `kinds` or `queues` that are known, a moment, `ids` or
    `tags` with commas between them, or any text up to `longest` characters. `column` is what it is compared with;
    without one, `jobs.queries.lists` knows how. `about` explains it to callers of the API (None: it has no such
    parameter). `is_further`: the form folds it away.
    """

    type: Literal["text", "search", "choice", "kinds", "queues", "moment", "ids", "tags"] = "text"
    label: str | None = None
    choices: tuple[tuple[str, str], ...] = ()
    longest: int = 100
    column: str = ""
    about: str | None = None
    is_further: bool = False


def _filter(**description: Any) -> Any:
    return field(default="", metadata={"filter": Filter(**description)})


_STATUSES: Final = tuple((status.value, status.replace("_", " ")) for status in Status)
_DUE: Final = (("now", "Now"), ("later", "Later"))
_SUBMITTED: Final = tuple((age, f"In the last {age}") for age in AGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """`owner`, `group` and `worker` are names. `age` is one of AGES; `since` and `until` bound the time of submission,
    in UTC as ISO 8601 says it ("2026-09-30T14:05"). `due` means pending jobs alone. `text` is looked for in payloads,
    results and errors, or as `key:value` in payloads (`terms`). `ids` are single jobs, "7,9", `flow` the id of a
    flow, and `tag` one tag or several that a job has, "nightly,tenant:7"."""

    status: str = _filter(type="choice", choices=_STATUSES, column="status", about="How it stands.")
    kind: str = _filter(type="kinds", column="kind", about="Name of the kind.")
    queue: str = _filter(type="queues", column="queue", about="Name of the queue.")
    owner: str = _filter(longest=150, about="User name.", is_further=True)
    group: str = _filter(longest=150, about="Name of the group.", is_further=True)
    worker: str = _filter(column="worker_name", about="Name of the worker that has it or had it last.", is_further=True)
    due: str = _filter(type="choice", label="Pending and due", choices=_DUE, is_further=True)
    tag: str = _filter(type="tags", longest=700, about="One tag, or several with commas between.", is_further=True)
    flow: str = _filter(label="Flow", longest=19, about="Id of the flow that it is part of.", is_further=True)
    age: str = _filter(type="choice", label="Submitted", choices=_SUBMITTED)
    since: str = _filter(type="moment", label="From (UTC)", is_further=True)
    until: str = _filter(type="moment", label="Until (UTC)", is_further=True)
    text: str = _filter(type="search", label="Text", longest=200)
    ids: str = _filter(type="ids", label="Jobs", longest=1000)

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Filters":
        """Those that `as_dict` wrote; names that are not known any more are left out."""
        return cls(**{name: str(value) for name, value in values.items() if name in DESCRIBED})

    def as_dict(self) -> dict[str, str]:
        """What is narrowed, and nothing else: for an address, or to keep."""
        return {name: value for name, value in asdict(self).items() if value}

    def for_address(self) -> dict[str, str]:
        """`as_dict` with no more ids than an address holds, the first of them."""
        values, longest = self.as_dict(), DESCRIBED["ids"].longest
        if len(self.ids) > longest:
            values["ids"] = self.ids[: longest + 1].rpartition(",")[0]
        return values

    def at(self, now: datetime) -> "Filters":
        """The same for good: what "of the last hour" means is said by the moment at which somebody asked."""
        if self.age not in AGES:
            return replace(self, age="")
        aged = now - AGES[self.age]
        since = moment(self.since)
        return replace(self, age="", since=(aged if since is None else max(aged, since)).isoformat())


DESCRIBED: Final[dict[str, Filter]] = {each.name: each.metadata["filter"] for each in fields(Filters)}


def ids_of(text: str) -> list[int]:
    """The ids that a text lists, "7,9"; what is no id is left out, as is what PostgreSQL's bigint does not hold."""
    return [int(each) for each in text.split(",") if each.isascii() and each.isdigit() and int(each) < 2**63]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a person looks for. `pairs`: the path of a key in the payload, and its value. `text`: the rest."""

    pairs: tuple[tuple[tuple[str, ...], str], ...]
    text: str


def terms(text: str) -> Terms:
    """Return what `text` asks for: `options.seed:7 model:"sdxl turbo" fog` has two pairs and the text "fog"."""
    pairs = tuple((tuple(pair[1].split(".")), pair[2] or pair[3]) for pair in _PAIR.finditer(text))
    rest = _PAIR.sub("", text).strip() if pairs else text
    return Terms(pairs=tuple((path, value) for path, value in pairs if all(path)), text=rest)


def is_whole(value: str) -> bool:
    """Whether a value is compared as a whole: `seed:7` does not mean 17; of a text, a part is enough."""
    return bool(re.fullmatch(r"-?\d+(\.\d+)?|true|false|null", value))
