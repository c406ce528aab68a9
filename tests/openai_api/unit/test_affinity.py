"""By what a conversation is known again, and when a worker is too busy for it."""

import json
import re
from typing import Any
from uuid import UUID

import pytest

from core import large_json
from openai_api import domain
from openai_api.domain import affinity

SECRET = b"ada"
RULES = {"role": "system", "content": "Be short. " * 200}


def _message(number: int, length: int = 1_000) -> dict[str, str]:
    return {"role": "user" if number % 2 else "assistant", "content": f"{number} {'word ' * (length // 5)}"}


def _keys(*messages: Any, path: str = "chat/completions", secret: bytes = SECRET, **body: Any) -> affinity.CallKeys:
    read = large_json.cut({"model": "tiny", "messages": [*messages], **body}, domain.BODY)
    return affinity.keys(domain.call(path, read), secret=secret)


def _shared(*calls: affinity.CallKeys) -> UUID | None:
    """The longest beginning that the last of these calls finds of those before."""
    *before, last = calls
    known = {call.stored for call in before}
    return next((key for key in last.lookup if key in known), None)


class TestKeys:
    def test_of_the_next_turn_find_the_one_before_and_no_other_with_the_same_instructions(self) -> None:
        first, other = _keys(RULES, _message(1)), _keys(RULES, _message(3))
        assert _shared(first, other, _keys(RULES, _message(1), _message(2), _message(5))) == first.stored
        assert _shared(first, other) is None

    def test_of_a_turn_that_is_made_again_or_changed_find_what_is_common(self) -> None:
        turns = [_keys(RULES, *map(_message, range(1, end))) for end in (2, 4, 6)]
        assert _shared(*turns, turns[-1]) == turns[-1].stored
        assert _shared(*turns, _keys(RULES, _message(1), _message(2), _message(3), _message(9))) == turns[1].stored

    def test_depend_on_tools_and_instructions(self) -> None:
        tools = [{"type": "function", "function": {"name": "f", "description": "It does. " * 200}}]
        first = _keys(_message(1), tools=tools)
        assert _shared(first, _keys(_message(1), _message(2), tools=tools)) == first.stored
        assert _shared(first, _keys(_message(1), _message(2))) is None

    def test_of_short_calls_are_none(self) -> None:
        assert _keys({"role": "user", "content": "Why?"}) == affinity.CallKeys(lookup=[])

    @pytest.mark.parametrize("path", ["embeddings", "images/generations", "rerank", "audio/speech"])
    def test_of_calls_without_a_conversation_are_none(self, path: str) -> None:
        assert _keys(RULES, path=path, input="word " * 1_000, prompt_cache_key="k") == affinity.CallKeys()

    def test_of_another_person_model_or_path_differ(self) -> None:
        ours = _keys(RULES)
        for theirs in (_keys(RULES, secret=b"bob"), _keys(RULES, model="large"), _keys(RULES, path="messages")):
            assert _shared(ours, theirs) is None

    def test_are_few_however_long_the_conversation_is(self) -> None:
        assert len(_keys(*(_message(number) for number in range(300))).lookup) == affinity.LATEST

    def test_leave_out_what_changes_from_call_to_call(self) -> None:
        def marked(text: str) -> dict[str, Any]:
            return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}

        def system(number: int) -> list[dict[str, Any]]:
            billing = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={number};"}
            return [billing, marked("Be short. " * 200)]

        first = _keys({"role": "user", "content": [marked("Why?")]}, path="messages", system=system(1))
        second = _keys(
            {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
            {"role": "assistant", "content": "So."}, {"role": "user", "content": [marked("And?")]},
            path="messages", system=system(2),
        )  # fmt: skip
        assert _shared(first, second) == first.stored

    def test_of_one_text_are_of_its_first_characters(self) -> None:
        begin = "word " * 1_000
        first, second, other = (
            _keys(path="completions", prompt=prompt)
            for prompt in (f"{begin}this", begin + "that " * 20_000, f"other {begin}")
        )
        assert first.stored is not None
        assert _shared(first, second) == first.stored
        assert _shared(first, other) is None

    def test_find_a_conversation_that_has_become_too_long_for_a_row(self) -> None:
        short = [_message(number, 2_000) for number in range(20)]
        long, longer = ([_message(number, 9_000) for number in range(20, end)] for end in (24, 60))
        first, second, third = _keys(RULES, *short), _keys(RULES, *short, *long), _keys(RULES, *short, *longer)
        assert _shared(first, second) == first.stored
        fourth = _keys(RULES, *short, *longer, _message(60))
        assert _shared(first, second, third, fourth) == third.stored == fourth.stored

    def test_by_the_caller_s_own_key_are_that_alone(self) -> None:
        first, second = _keys(RULES, prompt_cache_key="k"), _keys(_message(1), prompt_cache_key="k")
        assert first == second == affinity.CallKeys(lookup=[first.stored or UUID(int=0)], stored=first.stored)

    @pytest.mark.parametrize("messages", [None, 5, {}, [None], "", [[]] * 3, {large_json.PLACEHOLDER: "part-0"}])
    def test_of_bodies_that_make_no_sense_raise_nothing(self, messages: Any) -> None:
        body = {"model": "tiny", "messages": messages, "tools": messages, "prompt_cache_key": messages}
        affinity.keys(domain.call("chat/completions", body), secret=SECRET)

    def test_do_not_take_text_for_what_is_left_out(self) -> None:
        text = json.dumps([{"text": '"x-anthropic-billing-header: "', "more": ', "cache_control": {}'}])
        assert re.sub(affinity._PASSING, "", text) == text


class TestAWorker:
    @pytest.mark.parametrize(
        ("jobs", "is_too_busy"),
        [
            ({}, False),
            ({1: 3}, False),
            ({1: 4}, True),  # above the mean of 0 by more than three
            ({1: 4, 2: 1, 3: 1}, False),
            ({1: 5, 2: 8, 3: 8}, True),  # full
        ],
    )
    def test_is_too_busy_without_a_slot_or_far_above_its_peers(self, jobs: dict[int, int], is_too_busy: bool) -> None:
        assert affinity.is_too_busy(1, jobs=jobs, slots={1: 5, 2: 8, 3: None}) is is_too_busy

    def test_that_does_not_say_how_many_it_runs_is_measured_by_its_peers(self) -> None:
        assert not affinity.is_too_busy(1, jobs={1: 50, 2: 49}, slots={1: None, 2: None})
