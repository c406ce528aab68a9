"""Chunks of a streamed answer, put together; answers that are handed in; the demonstrator of OpenAI's API."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from jobfarm_worker.handlers.chat_demo import Demonstrator
from jobfarm_worker.handlers.chunks import FINISH_SUPPLIED, Whole, is_usage, line
from tests.worker.unit.test_worker_demonstrators import run

HEAD = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
QUESTION = [{"role": "user", "content": "Why do lighthouses turn?"}]


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**HEAD, "choices": list(choices), **more}


def choice(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def piece(arguments: str, *, name: str | None = None, **more: Any) -> dict[str, Any]:
    """A piece of a call of a function."""
    return {**more, "function": {"arguments": arguments, **({"name": name} if name else {})}}


# Two calls of the same function, as servers write them; of each the same is to be read.
CALLS_OF_SERVERS = {
    "by index": [
        piece("", name="look", index=0, id="a"), piece('{"n": 1}', index=0),
        piece("", name="look", index=1, id="b"), piece('{"n": 2}', index=1),
    ],
    "without an index": [
        piece("", name="look", id="a"), piece('{"n"', name="look"), piece(": 1}", name="look"),
        piece('{"n": 2}', name="look", id="b"),
    ],
    "with one index": [
        piece("", name="look", index=0, id="a"), piece('{"n": 1}', index=0, id="a"),
        piece("", name="look", index=0, id="b"), piece('{"n": 2}', index=0, id="b"),
    ],
    "with a new id in each piece": [
        piece('{"n"', name="look", index=0, id="a"), piece(": 1}", index=0, id="b"),
        piece('{"n": 2}', name="look", index=1, id="c"),
    ],
    "without index and id": [piece('{"n": 1}', name="look"), piece('{"n": 2}', name="look")],
}  # fmt: skip


def whole(*chunks: dict[str, Any]) -> Whole:
    made = Whole()
    for each in chunks:
        made.add(each)
    return made


class TestTheWhole:
    def test_has_each_choice_with_its_texts_and_why_it_ended(self) -> None:
        made = whole(
            chunk(choice(role="assistant", content="")),
            chunk(choice(1, role="assistant", content="B"), choice(0, content="A")),
            chunk(choice(0, content="a", reasoning_content="hm")),
            chunk(choice(0, finish="stop"), choice(1, finish="length")),
            chunk(usage={"total_tokens": 3}),
        )
        assert made.is_finished
        answer = made.answer()
        assert (answer["object"], answer["usage"]) == ("chat.completion", {"total_tokens": 3})
        assert [(each["message"]["content"], each["finish_reason"]) for each in answer["choices"]] == [
            ("Aa", "stop"),
            ("B", "length"),
        ]
        assert answer["choices"][0]["message"]["reasoning_content"] == "hm"

    def test_has_the_log_probabilities_of_all_chunks(self) -> None:
        first, second = ({"content": [{"token": token, "logprob": -0.5}]} for token in "ab")
        made = whole(
            chunk({**choice(content="a"), "logprobs": first}), chunk({**choice(content="b"), "logprobs": second})
        )
        assert [each["token"] for each in made.answer()["choices"][0]["logprobs"]["content"]] == ["a", "b"]

    def test_has_each_call_of_a_function_once_with_its_name(self) -> None:
        for pieces in CALLS_OF_SERVERS.values():
            calls = whole(*[chunk(choice(tool_calls=[each])) for each in pieces]).answer()["choices"][0]["message"]
            functions = [call["function"] for call in calls["tool_calls"]]
            assert functions == [{"name": "look", "arguments": f'{{"n": {n}}}'} for n in (1, 2)]

    def test_has_the_usage_where_groq_has_it(self) -> None:
        made = whole(chunk(choice(content="a")), chunk(choice(finish="stop"), x_groq={"id": "r", "usage": {"n": 1}}))
        assert made.answer()["usage"] == {"n": 1}

    def test_is_finished_by_the_farm_where_the_server_does_not_say_why(self) -> None:
        made = whole(chunk(choice(0, content="a")), chunk(choice(1, content="b")), chunk(choice(1, finish="length")))
        [supplied] = map(json.loads, made.supply_finish())
        assert supplied["choices"] == [choice(0, finish="stop")]
        assert (supplied["id"], supplied["jobfarm"]["notes"]) == ("c", [FINISH_SUPPLIED])
        assert [each["finish_reason"] for each in made.answer()["choices"]] == ["stop", "length"]
        assert made.answer()["jobfarm"] == supplied["jobfarm"]

    def test_of_a_call_is_finished_with_the_call(self) -> None:
        made = whole(chunk(choice(tool_calls=[piece("{}", name="look", index=0)])))
        assert json.loads(made.supply_finish()[0])["choices"][0]["finish_reason"] == "tool_calls"

    def test_is_not_finished_before_each_choice_is(self) -> None:
        assert not whole().is_finished
        assert not whole(chunk(choice(0, finish="stop"), choice(1, content="b"))).is_finished

    @pytest.mark.parametrize(
        ("delta", "has_token"),
        [
            ({"role": "assistant", "content": ""}, False),
            ({"role": "assistant", "content": None}, False),
            ({"content": "a"}, True),
            ({"reasoning_content": "a"}, True),
            ({"tool_calls": [{"index": 0}]}, True),
        ],
    )
    def test_has_a_token_once_more_than_the_role_was_said(self, delta: dict[str, Any], has_token: bool) -> None:
        assert whole(chunk(choice(**delta))).has_token is has_token

    @pytest.mark.parametrize("choices", [None, 7, [7], [{"index": "x", "delta": 7}], [{"delta": {"tool_calls": 7}}]])
    def test_bears_what_is_not_as_in_the_api(self, choices: Any) -> None:
        whole({**HEAD, "choices": choices}).answer()

    def test_does_not_change_the_chunks(self) -> None:
        pieces = [chunk(choice(tool_calls=[{"index": 0, "function": {"arguments": text}}])) for text in "{}"]
        before = json.dumps(pieces)
        whole(*pieces).answer()
        assert json.dumps(pieces) == before


def test_a_line_loses_nothing_of_a_chunk() -> None:
    odd = {"text": "\n\0\ud83d€", "n": 1e-7}
    assert line(odd).count("\n") == 1
    assert json.loads(line(odd)) == odd


def test_usage_alone_is_known_by_having_no_choices() -> None:
    assert is_usage(chunk(usage={"total_tokens": 3}))
    assert not is_usage(chunk(choice(content="a"), usage={"total_tokens": 3}))
    assert not is_usage(chunk())


class TestTheDemonstrator:
    async def test_streams_chunks_and_counts_words(self) -> None:
        handler = Demonstrator(pace_s=0)
        body = {
            "model": "demonstrator",
            "messages": QUESTION,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        outcome, context = await run(handler, {"path": "chat/completions", "body": body})
        chunks = [json.loads(text) for text in context.texts]
        text = "".join(each["choices"][0]["delta"].get("content", "") for each in chunks[:-1])
        assert outcome.result["choices"][0]["message"]["content"] == text
        words = len(text.split())
        assert chunks[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": words, "total_tokens": 4 + words}
        assert await handler.models() == ["demonstrator"]

    async def test_paints(self) -> None:
        body = {"model": "demonstrator", "prompt": "a lighthouse"}
        outcome, context = await run(Demonstrator(side=48), {"path": "images/generations", "body": body})
        [file] = context.files
        assert file.name == "image-0.png"
        assert base64.b64decode(outcome.result["data"][0]["b64_json"]) == file.data

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [("embeddings", {}, 404), ("chat/completions", {"messages": []}, 400), ("images/generations", {}, 400)],
    )
    async def test_refuses_as_a_model_server_does(self, path: str, body: dict[str, Any], status: int) -> None:
        outcome, _ = await run(Demonstrator(pace_s=0), {"path": path, "body": body})
        assert not outcome.retryable
        sentence, answered = outcome.error.split("\n")
        assert sentence.startswith(f"The model server answered {status}: ")
        assert set(json.loads(answered)["error"]) == {"message", "type", "param", "code"}
