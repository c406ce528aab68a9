"""How tokens are read of results and expected of payloads, whatever their form."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from metering.domain import MOST, OUTPUT_TOKENS, Tokens, cached, expected, used
from openai_api import domain as openai
from tests.looped import looped

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["usage", "body"]), inner),
    max_leaves=10,
)


@looped(
    ("usage", "tokens"),
    [
        pytest.param({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}, (12, 5), id="chat"),
        pytest.param({"input_tokens": 12, "output_tokens": 5}, (12, 5), id="responses"),
        pytest.param({"prompt_tokens": 12, "total_tokens": 12}, (12, 0), id="embeddings"),
        pytest.param({"prompt_tokens": 12, "total_tokens": 15}, (12, 3), id="a total alone says the rest"),
        pytest.param({"prompt_tokens": 12.0, "completion_tokens": 5.0}, (12, 5), id="floats"),
        pytest.param({"prompt_tokens": -1, "completion_tokens": 5}, (0, 5), id="a negative number is none"),
        pytest.param({"prompt_tokens": True, "completion_tokens": "5"}, (0, 0), id="no numbers"),
        pytest.param({"prompt_tokens": 1e300}, (0, 0), id="no count of tokens"),
        pytest.param("many", (0, 0), id="no object"),
    ],
)
def test_a_result_says_what_was_used(usage: Any, tokens: tuple[int, int]) -> None:
    assert used({"usage": usage}) == Tokens(*tokens)


@looped(
    ("usage", "tokens"),
    [
        pytest.param({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}}, 7, id="chat"),
        pytest.param({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}}, 0, id="responses"),
        pytest.param({"input_tokens": 2, "cache_read_input_tokens": 7}, 7, id="messages"),
        pytest.param({"prompt_tokens": 9, "prompt_tokens_details": None}, None, id="without details"),
        pytest.param({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": "7"}}, None, id="no number"),
        pytest.param("many", None, id="no object"),
    ],
)
def test_a_result_says_what_of_its_prompt_was_cached(usage: Any, tokens: int | None) -> None:
    assert cached({"usage": usage}) == tokens


@given(result=JSON)
def test_no_result_breaks_reading(result: Any) -> None:
    cached(result)
    tokens = used(result)
    assert 0 <= tokens.input <= MOST
    assert 0 <= tokens.output <= MOST


@given(payload=JSON)
def test_no_payload_breaks_expecting(payload: Any) -> None:
    for tokens in (expected(payload), openai.expected(payload), openai.expected({"body": payload})):
        assert tokens.input >= 1
        assert 0 <= tokens.output <= MOST


class TestWhatIsExpected:
    def test_is_a_token_for_four_characters_and_the_most_that_the_answer_may_have(self) -> None:
        body = {"messages": [{"role": "user", "content": "x" * 396}], "max_tokens": 50}
        assert expected(body) == Tokens(101, 50)

    def test_is_a_usual_answer_where_the_call_states_no_limit(self) -> None:
        assert expected({"prompt": "x"}).output == OUTPUT_TOKENS

    def test_is_of_all_answers(self) -> None:
        assert expected({"prompt": "x", "max_completion_tokens": 10, "n": 3}).output == 30

    def test_does_not_count_the_bytes_of_a_picture(self) -> None:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
        assert expected({"messages": [{"role": "user", "content": [picture]}]}).input < 1100

    def test_has_no_answer_where_that_is_no_text(self) -> None:
        payload = {"path": "embeddings", "body": {"model": "m", "input": "x" * 400}}
        assert openai.expected(payload) == Tokens(101, 0)

    def test_is_an_answer_of_a_chat(self) -> None:
        payload = {"path": "chat/completions", "body": {"model": "m", "messages": [], "max_tokens": 7}}
        assert openai.expected(payload) == Tokens(1, 7)
