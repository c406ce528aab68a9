"""Processes that are forked: how they end, what reaches them, and who notices."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core import forked


def leave(code: object) -> Callable[[], None]:
    def run() -> None:
        sys.exit(code)  # type: ignore[arg-type]

    return run


@pytest.fixture
def signals() -> Iterator[forked.Signals]:
    made = forked.Signals()
    yield made
    made.close()


class TestAForkedProcess:
    @pytest.mark.parametrize(("code", "exit_code"), [(None, 0), (3, 3), ("a sentence", 1)])
    def test_ends_with_the_code_of_its_function(self, code: object, exit_code: int) -> None:
        assert forked.start(leave(code)).wait(5) == exit_code

    def test_that_fails_says_why_and_ends_with_1(self, capfd: pytest.CaptureFixture[str]) -> None:
        assert forked.start(lambda: 1 // 0).wait(5) == 1
        assert "ZeroDivisionError" in capfd.readouterr().err

    def test_leads_a_session_reads_nothing_and_has_a_name(self, tmp_path: Path) -> None:
        def report() -> None:
            name = Path("/proc/self/comm").read_text().strip() if sys.platform == "linux" else "janitor"
            seen = [os.getsid(0) == os.getpid(), os.read(0, 1), name]
            (tmp_path / "seen").write_text(repr(seen))

        assert forked.start(report, name="janitor").wait(5) == 0
        assert (tmp_path / "seen").read_text() == repr([True, b"", "janitor"])

    def test_is_ended_by_a_signal_that_its_parent_handles(self) -> None:
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        try:
            process = forked.start(lambda: time.sleep(60))
            process.terminate()
            assert process.wait(5) == -signal.SIGTERM
        finally:
            signal.signal(signal.SIGTERM, before)
        assert process.poll() == -signal.SIGTERM
        process.kill()  # one that has ended is left alone

    def test_that_does_not_end_is_not_waited_for_longer_than_asked(self) -> None:
        process = forked.start(lambda: time.sleep(60))
        with pytest.raises(TimeoutError):
            process.wait(0.05)
        process.kill()
        assert process.wait() == -signal.SIGKILL


class TestAWaitForSignals:
    def test_is_ended_by_the_end_of_a_child(self, signals: forked.Signals) -> None:
        process = forked.start(lambda: None)
        signals.wait(30)
        assert process.wait(5) == 0

    def test_is_ended_by_what_came_before_it(self, signals: forked.Signals) -> None:
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        os.kill(os.getpid(), signal.SIGTERM)
        began = time.monotonic()
        signals.wait(30)
        signal.signal(signal.SIGTERM, before)
        assert time.monotonic() < began + 10

    def test_is_ended_by_another_file(self, signals: forked.Signals) -> None:
        reading, writing = os.pipe()
        os.write(writing, b".")
        signals.wait(30, or_fds=[reading])
        os.close(reading)
        os.close(writing)
