"""What a flow template may say: jobs as JSON with names, and the placeholders that stand in them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core import templates
from core.templates import TemplateError
from jobs.errors import InvalidValue

MOST_JOBS: Final = 1_000  # as in one bulk
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")
_RESERVED: Final = {"by", "owner"}  # arguments of `operations.submit_flow` itself
# What a job of a template may have, and of which type that is.
_TYPES: Final[Mapping[str, Any]] = {
    "name": str, "kind": str, "payload": object, "after": list, "when": str, "queue": str, "priority": int,
    "max_attempts": int, "timeout_s": int | float, "unique_key": str, "concurrency_key": str, "tags": list,
    "requires": dict, "prefers": dict,
}  # fmt: skip


def check(jobs: Any, placeholders: Any) -> None:
    """Raise InvalidValue for what is no list of jobs, or names a placeholder that is none of these."""
    if not isinstance(placeholders, Mapping):
        raise InvalidValue(field="placeholders", why="an object of names, each with its default")
    for name in placeholders:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InvalidValue(field="placeholders", why=f"{name[:60]!r} is no name: a-z 0-9 _, not by, nor owner")
    if not isinstance(jobs, list | tuple) or not 1 <= len(jobs) <= MOST_JOBS:
        raise InvalidValue(field="jobs", why=f"a list of 1 to {MOST_JOBS:,} jobs")
    for number, job in enumerate(jobs, start=1):
        if why := _mistake(job):
            raise InvalidValue(field="jobs", why=f"job {number}: {why}")
    try:
        templates.check([*jobs], _reason(placeholders))
    except TemplateError as refusal:
        raise InvalidValue(field="jobs", why=refusal.reason) from None


def filled(jobs: Sequence[Mapping[str, Any]], placeholders: Mapping[str, Any], values: Mapping[str, Any], *,
           limit_bytes: int) -> list[dict[str, Any]]:  # fmt: skip
    """The jobs with these values in place of their placeholders; what is not among them has its default.

    Raises InvalidValue for a value that no placeholder has, for a placeholder without one that has no `?`, and where
    more than `limit_bytes` would be put in.
    """
    for name in values.keys() - placeholders.keys():
        raise InvalidValue(field="values", why=f"there is no placeholder {name!r}")
    known = {name: value for name, value in {**placeholders, **values}.items() if value is not None}
    try:
        made = templates.render([*jobs], known, reason=_reason(placeholders), limit_bytes=limit_bytes)
    except TemplateError as refusal:
        raise InvalidValue(field="values", why=refusal.message.rstrip(".")) from None
    return [_as_texts(job) for job in made]


def _as_texts(job: dict[str, Any]) -> dict[str, Any]:
    """With texts where a job has texts, whatever type a value has that is put there."""
    texts = {name: templates.as_text(job[name]) for name in ("unique_key", "concurrency_key") if name in job}
    return job | texts | ({"tags": [templates.as_text(tag) for tag in job["tags"]]} if "tags" in job else {})


def _mistake(job: Any) -> str | None:
    if not isinstance(job, Mapping):
        return "an object with a name and a kind"
    for name in ("name", "kind"):
        if name not in job:
            return f"it has no {name}"
    for name, value in job.items():
        if name not in _TYPES:
            return f"there is no {name!r}; there are {', '.join(_TYPES)}"
        if not isinstance(value, _TYPES[name]):
            return f"its {name} cannot be {value!r}"
    if not all(isinstance(one, str) for one in job.get("after", ())):
        return "its after is a list of names of other jobs of the template"
    return None


def _reason(placeholders: Mapping[str, Any]) -> templates.Reason:
    def reason(path: str) -> str | None:
        name = path.partition(".")[0]
        known = ", ".join(placeholders) or "there are none"
        return None if name in placeholders else f"{name[:60]!r} is none of its placeholders: {known}"

    return reason
