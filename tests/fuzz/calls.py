"""Calls made up from the OpenAPI document by schemathesis, which takes a second to import: tests import this late."""

from dataclasses import dataclass
from typing import Any

import requests
import schemathesis
from hypothesis import given, strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.effort import effort

WITHIN_S = 20  # an answer that takes longer is a stall
SILENT_S = 1  # an event stream that says nothing for so long may say nothing for ever
CHECKS: list[Any] = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is really there, for half of the calls: who made up an id finds nothing behind it."""

    worker: str
    token: str
    running: int
    lease: str
    ended: int


def check(url: str, known: Known, *, mode: str) -> int:
    """Try every call of the document on the server at `url`; how many calls there are. Raises what a check found."""
    schema = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json")
    calls: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]  # it raises
    with requests.Session() as session:
        session.hooks["response"].append(_limit_silence)
        for call in calls:
            _try(call, known, session, GenerationMode(mode))
    return len(calls)


def _limit_silence(answer: requests.Response, **_: Any) -> None:
    """Its head came in time. What an event stream says at once is read and checked; its silence took 20 s of each."""
    if answer.headers.get("Content-Type", "").startswith("text/event-stream") and answer.raw.connection is not None:
        answer.raw.connection.sock.settimeout(SILENT_S)


def _try(call: Any, known: Known, session: requests.Session, mode: GenerationMode) -> None:
    @effort(examples=5)
    @given(case=call.as_strategy(generation_mode=mode), is_real=st.booleans())
    def answers(case: Case[Any], is_real: bool) -> None:
        if is_real:
            _make_real(case, known)
        _do_not_wait(case)
        key = known.worker if "/worker/" in case.path else known.token
        response = case.call(session=session, headers={"Authorization": f"Bearer {key}"}, timeout=WITHIN_S)
        case.validate_response(response, checks=CHECKS)

    answers()


def _make_real(case: Case[Any], known: Known) -> None:
    """Let the call be about a job that is there, with its lease."""
    if "job_id" in case.path_parameters:
        case.path_parameters["job_id"] = known.running if "/worker/" in case.path else known.ended
    if isinstance(case.body, dict) and "lease" in case.body:
        case.body["lease"] = known.lease
    if "lease" in case.query:
        case.query["lease"] = known.lease


def _do_not_wait(case: Case[Any]) -> None:
    """A claim that would wait a minute is no stall, and no test."""
    body: Any = case.body
    wait = body.get("wait") if isinstance(body, dict) else None
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 < wait <= 60:
        body["wait"] = 0.01
