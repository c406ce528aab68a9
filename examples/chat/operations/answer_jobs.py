"""What the farm calls: prompts for jobs that workers take, and answers that follow their jobs (ADR 26)."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from examples.chat import queries
from examples.chat.domain import answers, texts
from examples.chat.domain.answers import State
from examples.chat.operations import rooms
from examples.chat.queries import Again, Followed
from jobs import operations as jobs
from jobs.domain.states import Status
from jobs.operations import Discard, Move, Prepared
from scheduling.operations import action

ERROR_CHARACTERS = 300
MODEL_CHARACTERS = 100
RECONCILED_AT_ONCE = 500


def prepare(claimed: Sequence[Prepared]) -> Mapping[int, Any]:
    """The prompts of these jobs, as the rooms are now. Jobs that were submitted with a prompt of their own keep it."""
    answer_of = queries.answers_of(job.job_id for job in claimed)
    prompts = queries.prompts(list(answer_of.values())) if answer_of else {}
    payloads: dict[int, Any] = {}
    for job in claimed:
        if prompt := prompts.get(answer_of.get(job.job_id, 0)):
            payloads[job.job_id] = texts.payload(prompt)
        elif isinstance(job.payload, dict) and "answer" in job.payload:
            payloads[job.job_id] = Discard(why="No message waits for this answer any more.")
    return payloads


def on_transition(moves: Sequence[Move]) -> None:
    """Let the answers of these jobs follow them, and touch the topics of their rooms."""
    again = [
        Again(job_id=move.job_id, retry_of=move.retry_of, starts_at=move.run_at)
        for move in moves
        if move.retry_of is not None
    ]
    followed = [_followed(move) for move in moves if move.retry_of is None]
    groups = (queries.ask_again(again) if again else []) + (queries.follow(followed) if followed else [])
    rooms.touch(sorted(set(groups)))


@action(timeout=60, own_writes=True)
def reconcile() -> int:
    """Mend answers that fell behind their jobs; how many. For the day a hook failed: none in a sound farm."""
    mended, after = 0, 0
    while batch := queries.open_answers(after=after, limit=RECONCILED_AT_ONCE):
        after = batch[-1][0]
        mended += _reconciled({job_id: state for _, job_id, state in batch})
    return mended


def _reconciled(states: Mapping[int, str]) -> int:
    statuses = jobs.statuses(states)
    behind = [job_id for job_id, status in statuses.items() if not answers.agrees(states[job_id], status=status)]
    gone = [job_id for job_id in states if job_id not in statuses]
    with transaction.atomic():
        if behind:
            jobs.resync(behind)
        if gone:
            rooms.touch(queries.close(gone, error="This question is no longer stored."))
    return len(behind) + len(gone)


def _followed(move: Move) -> Followed:
    state = answers.state(move.to, outcome=move.outcome)
    return Followed(
        job_id=move.job_id,
        state=state,
        attempt=move.attempt,
        worker_name=move.worker_name,
        error=_sentence(move.error) if state is not State.FINISHED else "",
        starts_at=move.run_at if state is State.RETRYING else None,
        text=_text(move, state),
        model_name=_model(move),
    )


def _text(move: Move, state: State) -> str | None:
    """What the answer keeps: of a finished one its text, of a stopped one what was written; None changes nothing."""
    if state is State.CANCELED and move.from_ is Status.IN_PROGRESS:
        return _written(move) or None
    return _result_text(move) if state is State.FINISHED else None


def _result_text(move: Move) -> str:
    """The worker's result: the handler's `text`, or else whatever it wrote on its way."""
    text = move.result.get("text") if isinstance(move.result, dict) else move.result
    if isinstance(text, str) and text.strip():
        return text.strip()
    return _written(move) or "(The worker answered with nothing.)"


def _written(move: Move) -> str:
    return jobs.output_text(move.job_id, attempt=move.attempt).strip()


def _model(move: Move) -> str:
    """What the worker's result names as its model, cut to what an answer keeps; empty if it names none."""
    name = move.result.get("model") if isinstance(move.result, dict) else None
    return name.replace("\x00", "")[:MODEL_CHARACTERS] if isinstance(name, str) else ""


def _sentence(error: str) -> str:
    """Of a traceback the last line, which is the error itself."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[-1][:ERROR_CHARACTERS] if lines else ""
