"""What a stranger may say on a socket: near the protocol, far from it, and no JSON at all."""

import json
from typing import Any

from hypothesis import strategies as st

_NUMBERS = (
    st.integers()
    | st.sampled_from([-1, 0, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30])
    | st.floats()  # NaN and the infinities, which JSON has not
)
_NASTY = ["", "\x00", "\ud800", "\udc00\ud83d", "\u202e", "x" * 5000, "1-" + "0" * 32]
_TEXTS = st.text(max_size=30) | st.sampled_from(_NASTY)
_SCALARS = st.none() | st.booleans() | _NUMBERS | _TEXTS
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4), max_leaves=8
)


def _near(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with some of these fields, each right or anything at all, and perhaps one that nobody knows."""
    mixed = {name: usual | ANYTHING for name, usual in fields.items()}
    return st.fixed_dictionaries({}, optional={**mixed, "colour": ANYTHING})


def _texts(messages: st.SearchStrategy[Any]) -> st.SearchStrategy[str | bytes]:
    """As they are sent: JSON, JSON cut short, any text, any bytes."""
    texts = messages.map(json.dumps)
    cut = st.tuples(texts, st.integers(0, 50)).map(lambda pair: pair[0][: pair[1]])
    return texts | texts | texts | cut | st.text(st.characters(exclude_categories=["Cs"])) | st.binary(max_size=50)


def of_workers(*, job: int, lease: str) -> st.SearchStrategy[str | bytes]:
    """What comes to /ws/worker/, of a worker that has this job."""
    leases, jobs = (st.sampled_from([lease, lease, f"{lease}0", "1-x"]), st.sampled_from([job, job, job + 1, 0]))
    ending = {
        "id": jobs,
        "lease": leases,
        "outcome": st.sampled_from(["success", "failed", "suspended"]),
        "result": ANYTHING,
    }
    fields = {
        "type": st.sampled_from(
            [
                *("claim", "heartbeat", "heartbeat_many", "checkpoint", "output", "finish", "finish_many", "release"),
                *("unclaim", "steal", "submit"),
            ]
        ),
        "ref": ANYTHING,
        "job": jobs,
        "lease": leases,
        "limit": st.integers(0, 101),
        "queues": st.lists(st.sampled_from(["chat", "none"]), max_size=2),
        "wait": st.just(0),
        "progress": st.floats(0, 1),
        "detail": _TEXTS,
        "value": ANYTHING,
        "seq": st.integers(0, 3),
        "text": _TEXTS,
        "outcome": st.sampled_from(["success", "failed"]),
        "error": _TEXTS,
        "claim_next": st.integers(0, 2),
        "finished": st.lists(_near(ending), max_size=3),
        "jobs": st.lists(_near({"id": jobs, "lease": leases}), max_size=3),
    }
    return _texts(_near(fields) | ANYTHING)


def of_pages(names: list[str]) -> st.SearchStrategy[str | bytes]:
    """What comes to /ws/live/, where live queries have these names."""
    ids = st.sampled_from(["a", "b", ""]) | _TEXTS
    arguments = {"job_id": st.integers(0, 5), "whose": st.integers(0, 5), "queue": _TEXTS, "before": _NUMBERS}
    watch_request = {
        "id": ids, "name": st.sampled_from(names), "args": _near(arguments), "version": _TEXTS, "cursor": _TEXTS,
        "ticket": _TEXTS,
    }  # fmt: skip
    fields = {
        "watch": st.lists(_near(watch_request), max_size=4),
        "unwatch": st.lists(ids, max_size=3),
        "ping": ANYTHING,
        "language": _TEXTS,
    }
    return _texts(_near(fields) | ANYTHING)
