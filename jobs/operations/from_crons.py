"""Jobs that people's crons submit."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jobs.domain.states import LIVE
from jobs.errors import InvalidValue, NotUnique
from jobs.operations.flows import check_start, store_flow
from jobs.operations.submit import check_submit, submit
from jobs.queries import flows, reads
from observing import fields
from scheduling import registry
from scheduling.operations import Json, mutation

log = logging.getLogger(__name__)


@mutation
def submit_job(
    *,
    kind: str,
    payload: Json,
    job_queue: str | None = None,
    job_priority: int | None = None,
    unique_key: str | None = None,
    on_conflict: str | None = None,
    debounce: Mapping[str, float] | None = None,
    requires: Mapping[str, Json] | None = None,
    prefers: Mapping[str, Json] | None = None,
    tags: Sequence[str] | None = None,
) -> int | None:
    """Submit a job of this kind without an owner, and return its id; None where one with its `unique_key` lives and it
    does not replace that, nor wait for its end (`on_conflict`, `debounce`).

    `requires` and `prefers` are conditions on its worker's labels, by label (docs/labels.md); by `tags` it is found.

    Raises as `submit`.
    """
    try:
        job = submit(
            kind, payload, queue=job_queue, priority=job_priority, unique_key=unique_key,
            on_conflict=on_conflict, debounce=debounce, requires=requires, prefers=prefers, tags=tags,
        )  # fmt: skip
    except NotUnique:
        return None
    fields.note(job_id=job.pk)
    log.info("Submitted a job of the kind %s", kind)
    return job.pk


_TYPES: Final[Mapping[str, Any]] = {
    "kind": str,
    "tags": list | None,
    "job_priority": int | None,
    **dict.fromkeys(("job_queue", "unique_key", "on_conflict"), str | None),
    **dict.fromkeys(("debounce", "requires", "prefers"), dict | None),
}


def check(args: Mapping[str, Any]) -> None:
    """Raise what `submit_job` would raise for these arguments, as far as that can be known before it runs."""
    for name, types in _TYPES.items():
        if not isinstance(args.get(name), types):
            raise InvalidValue(field=name, why=f"got {args.get(name)!r}")
    options: dict[str, Any] = {name.removeprefix("job_"): args.get(name) for name in _TYPES if name != "kind"}
    check_submit(args["kind"], args["payload"], **options)


@mutation
def start_flow(*, template: str, values: Mapping[str, Json]) -> int | None:
    """Start a flow template without an owner, with values for its placeholders, and return the flow's id; None where
    a living job has a `unique_key` of one of its jobs.

    Raises as `submit_flow`.
    """
    try:
        [first, *_] = store_flow(template, values, by=None)
    except NotUnique:
        return None
    log.info("Started the flow %d of the template %s", first.record.flow_id, template)
    return first.record.flow_id


def check_flow(args: Mapping[str, Any]) -> None:
    """Raise what `start_flow` would raise for these arguments, as far as that can be known before it runs."""
    for name, expected in (("template", str), ("values", dict)):
        if not isinstance(args.get(name), expected):
            raise InvalidValue(field=name, why=f"got {args.get(name)!r}")
    check_start(args["template"], args["values"])


def flow_lives(flow_ids: Sequence[Any]) -> bool:
    """Whether any job of these flows, which firings started, waits or runs."""
    known = [flow_id for flow_id in flow_ids if isinstance(flow_id, int)]
    return any(flows.living(flow_id, owner=None) for flow_id in known)


def lives(job_ids: Sequence[Any]) -> bool:
    """Whether any of these jobs, which firings submitted, waits or runs."""
    known = [job_id for job_id in job_ids if isinstance(job_id, int)]
    return any(status in LIVE for status in reads.statuses(known).values())


registry.offer(submit_job, registry.Offer(check=check, lives=lives))
registry.offer(start_flow, registry.Offer(check=check_flow, lives=flow_lives))
