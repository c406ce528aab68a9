"""What processes write down of their calls, whether these are answered, refused, broken off or killed."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.histories import recording
from tests.histories.history import Bound, Call, History, Move


class Refused(Exception):
    code = "lease_lost"


def is_refusal(error: Exception) -> bool:
    return isinstance(error, Refused)


def recorded(path: Path) -> list[tuple[str, str, int | None, str | None]]:
    return [(call.call, call.outcome, call.job, call.answer) for call in recording.calls([path])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def test_a_call_is_a_line_for_each_job_it_was_answered_about(path: Path) -> None:
    with path.open("w") as file:
        recorder = recording.Recorder(file, process="w", refuses=is_refusal)
        with recorder.call("finish", worker=7, parts=[(1, 1), (2, 5)]) as call:
            call.answer(1, 1, "success")
            call.answer(2, 5, "lease_lost", is_refusal=True)
            call.answer(9, 1, call="claim")
        with recorder.call("report", worker=7, parts=[(9, 1)]):
            pass
        with suppress(Refused), recorder.call("report", worker=7, parts=[(2, 5)]):
            raise Refused
    assert recorded(path) == [
        ("finish", "ok", 1, "success"), ("finish", "failed", 2, "lease_lost"), ("claim", "ok", 9, None),
        ("report", "ok", 9, None), ("report", "failed", 2, "lease_lost"),
    ]  # fmt: skip


def test_a_call_that_breaks_off_or_is_not_ended_is_unknown(path: Path) -> None:
    with path.open("w") as file:
        recorder = recording.Recorder(file, process="w", refuses=is_refusal)
        with suppress(OSError), recorder.call("claim", worker=7):
            raise OSError
        with recorder.call("cancel", parts=[(4, None)]):
            pass
    whole = path.read_text()
    path.write_text(whole[:-20])
    assert recorded(path) == [("claim", "unknown", None, None), ("cancel", "unknown", 4, None)]


def test_a_claim_that_brings_nothing_is_about_no_job(path: Path) -> None:
    with path.open("w") as file, recording.Recorder(file, process="w").call("claim", worker=7) as call:
        call.nothing()
    assert recorded(path) == []


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    history = History(
        calls=[Call(call="claim", began=1.0, ended=2.0, job=1, fence=1, worker=7, more={"limit": 5})],
        moves=[Move(1, None, "pending", 0, 0, None, 0.5)], bounds=[Bound(name="queue two", most=3)],
        states={1: "in_progress"}, within={1: ["queue two"]}, lists={"a": [1, 2]},
    )  # fmt: skip
    history.write(tmp_path / "history.gz")
    assert History.read(tmp_path / "history.gz") == history
