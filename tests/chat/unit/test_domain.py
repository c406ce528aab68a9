"""The rules of the chat: states that follow jobs, texts that can be kept, tokens that are enough."""

import pytest
from hypothesis import given, strategies as st

from examples.chat.domain import answers, texts
from examples.chat.domain.answers import ASKABLE, OPEN, State
from examples.chat.domain.texts import PromptMessage
from jobs.domain.states import ENDED, LIVE, AttemptOutcome, Status
from tests.looped import looped


class TestState:
    def test_is_open_while_the_job_lives_and_over_with_it(self) -> None:
        for status in Status:
            for outcome in [None, *AttemptOutcome]:
                state = answers.state(status, outcome=outcome)
                assert (state in OPEN) == (status in LIVE)
                assert (state in ASKABLE) == (status in ENDED)
                assert answers.agrees(state, status=status)

    @pytest.mark.parametrize("outcome", [AttemptOutcome.FAILED, AttemptOutcome.LOST, AttemptOutcome.TIMED_OUT])
    def test_says_that_an_attempt_failed_before_the_next_one(self, outcome: AttemptOutcome) -> None:
        assert answers.state(Status.PENDING, outcome=outcome) is State.RETRYING

    @pytest.mark.parametrize("outcome", [None, AttemptOutcome.RELEASED])
    def test_does_not_say_so_of_a_job_that_was_only_given_back(self, outcome: AttemptOutcome | None) -> None:
        assert answers.state(Status.PENDING, outcome=outcome) is State.WAITING

    def test_belongs_to_one_status_alone(self) -> None:
        for state in State:
            fitting = {status for status in Status if answers.agrees(state, status=status)}
            assert len(fitting) == 1


class TestTexts:
    @pytest.mark.parametrize(("given", "kept"), [("  a\r\nb\rc \n", "a\nb\nc"), ("\t\n", ""), ("  é😀 ", "é😀")])
    def test_are_tidied(self, given: str, kept: str) -> None:
        assert texts.tidied(given) == kept

    @looped(
        ("text", "fits"),
        [("", True), ("x" * 10, True), ("x" * 11, False), ("a\x00", False), ("\ud83d", False), ("😀" * 10, True)],
    )
    def test_that_cannot_be_stored_are_known_before(self, text: str, *, fits: bool) -> None:
        assert texts.is_storable(text, limit=10) is fits


class TestTokens:
    @given(st.lists(st.text(max_size=2000), min_size=1, max_size=6))
    def test_are_enough_for_the_answer_and_grow_with_what_is_asked(self, sentences: list[str]) -> None:
        lines = [PromptMessage(role="user", text=text) for text in sentences]
        tokens = texts.estimated_tokens(lines)
        characters = sum(map(len, sentences))
        assert tokens >= texts.ANSWER_TOKENS + characters / texts.TOKEN_CHARACTERS
        assert tokens <= texts.ANSWER_TOKENS + characters + 5 * len(lines)
        assert texts.estimated_tokens([*lines, PromptMessage(role="user", text="more")]) > tokens

    def test_of_the_answer_are_what_the_model_is_told(self) -> None:
        assert texts.payload(
            [PromptMessage(role="system", text="Be brief."), PromptMessage(role="user", text="Why?")]
        ) == {
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
            "max_tokens": texts.ANSWER_TOKENS,
        }
