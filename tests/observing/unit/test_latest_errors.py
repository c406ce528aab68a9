"""A process remembers what it logged as errors lately, each sentence once, so that it can be named elsewhere."""

import logging

import pytest

from observing.logs import KEPT_S, LATEST_ERRORS, MOST_KEPT
from tests.unprintable import Unprintable

log = logging.getLogger("jobs")


def _raised(message: str) -> Exception:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


class TestLatestErrors:
    def test_are_named_with_what_was_raised_in_one_line_without_secrets(self) -> None:
        log.error("The job %d is put aside", 7, exc_info=_raised("no\0 row of jfw_0123456789\nat all"))
        assert LATEST_ERRORS.sentences() == ["The job 7 is put aside: ValueError: no row of jfw_[hidden]"]

    def test_are_named_where_they_have_no_text_and_what_cannot_be_written_at_all_costs_nobody_anything(self) -> None:
        log.error("The hook failed", exc_info=Unprintable())
        LATEST_ERRORS.handle(log.makeRecord("jobs", logging.ERROR, "", 0, "It failed: %s", (Unprintable(),), None))
        assert LATEST_ERRORS.sentences() == ["The hook failed: Unprintable: its text raises ZeroDivisionError"]

    def test_are_no_warnings_and_each_sentence_stands_once_at_its_last_place(self) -> None:
        log.warning("slow")
        for name in ("a", "b", "a"):
            log.error("The lane %s cannot be tidied", name)
        assert LATEST_ERRORS.sentences() == [f"The lane {name} cannot be tidied" for name in "ba"]

    def test_keep_their_beginning_and_their_end_where_they_are_long(self) -> None:
        log.error("It failed", exc_info=_raised(f"{'x' * 400}: the disk is full"))
        [sentence] = LATEST_ERRORS.sentences()
        assert (sentence[:22], sentence[-18:]) == ("It failed: ValueError:", ": the disk is full")
        assert len(sentence) <= 300

    def test_are_few_however_many_there_are(self) -> None:
        for number in range(100):
            log.error("error %d", number)
        assert LATEST_ERRORS.sentences() == [f"error {number}" for number in range(100 - MOST_KEPT, 100)]

    def test_are_forgotten_after_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log.error("It broke")
        assert LATEST_ERRORS.sentences() == ["It broke"]
        now = logging.time.monotonic()  # type: ignore[attr-defined]
        monkeypatch.setattr("observing.logs.time.monotonic", lambda: now + KEPT_S + 1)
        assert LATEST_ERRORS.sentences() == []
