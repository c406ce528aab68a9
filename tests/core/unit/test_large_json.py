"""What is large is cut out of a body and can be put back; what is no JSON is refused, as if it had been read whole."""

import io
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from core import large_json
from core.large_json import ANY, Cut, Cutting, LargeBodyError
from core.values import NotJsonError

CALL = Cutting(at=(), over=400, most=100_000, subject="body")
PAYLOAD = Cutting(at=("payload",), over=400, most=10_000, subject="payload")
RESULTS = Cutting(at=("finished", ANY, "result"), over=400, most=10_000, subject="result", keeps_whole=True)
PICTURE = "data:image/png;base64," + "iVBO" * 500


class Dripping(io.BytesIO):
    """A body that comes a few bytes at a time, so that each of its tokens is cut somewhere."""

    def __init__(self, content: bytes, *, at_once: int) -> None:
        super().__init__(content)
        self._at_once = at_once

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._at_once)


def read(value: Any, cutting: Cutting = CALL, *, at_once: int = 1 << 20, most: int = 10_000, **form: Any) -> Any:
    content = value if isinstance(value, bytes) else json.dumps(value, **form).encode()
    return large_json.read(Dripping(content, at_once=at_once), cutting, most=most)


def whole(value: Any) -> Any:
    """The value as it was before it was cut."""
    if not isinstance(value, Cut):
        return value
    parts = [(part.path, json.loads(part.open().read())) for part in value.parts]
    return large_json.put_together(json.loads(json.dumps(value)), parts)


def paths(value: Any) -> list[Any]:
    return [part.path for part in value.parts] if isinstance(value, Cut) else []


class TestCut:
    def test_leaves_a_short_body_as_it_is(self) -> None:
        assert type(read({"a": ["x" * 340, 1, None, {"é": "\u2028"}]})) is dict

    def test_takes_long_texts_out_wherever_they_are(self) -> None:
        body = {"model": "tiny", "messages": [{"content": [{"image_url": {"url": PICTURE}}]}], "user": "x" * 400}
        cut = read(body)
        assert paths(cut) == [("messages", 0, "content", 0, "image_url", "url"), ("user",)]
        [url, _] = cut.parts
        begins = PICTURE[:39]
        placeholder = {"jobfarm_part": f"part-{url.sha256[:32]}", "size": len(PICTURE) + 2, "begins": begins}
        assert cut["messages"][0]["content"][0]["image_url"]["url"] == placeholder
        assert whole(cut) == body

    def test_takes_a_long_field_out_with_the_texts_of_it_beside(self) -> None:
        body = {"model": "tiny", "messages": [{"n": n, "url": PICTURE if n == 3 else "y" * 30} for n in range(20)]}
        cut = read(body)
        assert paths(cut) == [("messages",), ("messages", 3, "url")]
        assert cut["model"] == "tiny"
        assert whole(cut) == body

    def test_says_how_long_it_was_with_what_was_cut_out_of_it_but_for_pictures(self) -> None:
        body = {"messages": [{"text": "word " * 300, "url": PICTURE, "rest": [n] * 20} for n in range(9)]}
        [placeholder] = large_json.placeholders(dict(read(body)))
        assert placeholder["size"] > 9 * 1_500
        assert placeholder["size"] < 9 * 2_000, "without the pictures"

    def test_names_the_same_bytes_alike_in_every_body(self) -> None:
        first, second = read({"a": PICTURE}), read({"b": [1, PICTURE]}, indent=2)
        assert first.parts[0].sha256 == second.parts[0].sha256

    @pytest.mark.parametrize("at_once", [1, 2, 3, 7, 64, 1000])
    def test_comes_to_the_same_however_the_body_is_cut_on_its_way(self, at_once: int) -> None:
        body: Any = {
            "a": PICTURE + '"\\\n😀é',
            "b": [[1.5e-7, -0, True, None, "x", {}], []] * 9,
            "c": {"d": ["é" * 600]},
        }
        for form in ({}, {"ensure_ascii": False}, {"indent": 1}):
            assert whole(read(body, at_once=at_once, **form)) == body

    def test_comes_to_the_same_for_whatever_json_there_is(self) -> None:
        rng = random.Random(46)
        for _ in range(300):
            body = {"payload": value(rng, depth=4), "more": value(rng, depth=2)}
            for cutting in (replace(CALL, most=1_000_000), replace(PAYLOAD, most=1_000_000)):
                cut = read(body, cutting, at_once=rng.choice([5, 50, 5000]), most=1_000_000)
                found = whole(cut) if not cutting.at else cut | {"payload": whole(cut["payload"])}
                assert found == body

    def test_is_made_of_what_lies_at_its_place_alone(self) -> None:
        cut = read({"kind": "chat", "payload": ["x" * 500], "tags": ["y" * 390]}, PAYLOAD)
        assert paths(cut["payload"]) == [(), (0,)]
        assert whole(cut["payload"]) == ["x" * 500]
        assert cut["tags"] == ["y" * 390]

    def test_leaves_what_is_long_only_as_it_is_written(self) -> None:
        assert read({"payload": "é" * 199}, PAYLOAD)["payload"] == "é" * 199
        assert paths(read({"payload": "é" * 200}, PAYLOAD)["payload"]) == [()]
        assert read(b'{"payload": [' + b" " * 900 + b"1]}", PAYLOAD)["payload"] == [1]

    def test_keeps_whole_texts_of_several(self) -> None:
        long = {"usage": 3, "data": ["z" * 600]}
        entries = [{"id": 1, "result": long}, {"id": 2, "result": 5}, {"id": 3, "result": "w" * 600}]
        cut = read({"finished": entries, "claim_next": 1}, RESULTS)
        kept = [entry["result"] for entry in cut["finished"]]
        assert kept[0]["usage"] == 3
        assert [json.loads(kept[n].whole.open().read()) for n in (0, 2)] == [long, "w" * 600]
        assert kept[1] == 5

    def test_believes_no_placeholder_that_a_body_has_itself(self) -> None:
        own = {"jobfarm_part": read({"a": PICTURE}).parts[0].name, "size": 7, "begins": "x"}
        body = {"a": PICTURE, "b": own, "c": [own] * 5}
        assert whole(read(body)) == body


class TestRefusals:
    LONG = b'{"a": "' + b"x" * 600

    @pytest.mark.parametrize("at_once", [3, 1 << 20])
    @pytest.mark.parametrize(
        "content",
        [
            LONG, LONG + b'"', LONG + b'"]', LONG + b'",}', LONG + b'"} x', LONG + b"\x01" + b'"}',
            LONG + b'\\x"}', LONG + b'\\u0000"}', LONG + b'\\ud83d"}', LONG + b'\\ude00\\ud83d"}', LONG + b'\xff"}',
            LONG + b'", "a": 1}',
            LONG + b'", "b": 01}', LONG + b'", "b": NaN}', LONG + b'", b: 1}', b"", b" " * 500, b"[" * 500,
            b"[" + b"1," * 500 + b"]",
            *(b'{"a": [' + each + b', "' + b'", "'.join([b"x" * 90] * 9) + b'"]}' for each in (
                b'{"n": 1, "n": 2, "m": 3}', b'{"n": [], "m": 1, "n": 2}', b'{"n": {"m": 1}, "n": 2}', b"1e400",
                b"-1e309", b"1" * 1300,
            )), b'{"a": [1 2]}' + b" " * 300, b'{"a": ' + b"1" * 5000 + b"}",
        ],
    )  # fmt: skip
    def test_what_is_no_json_or_cannot_be_kept(self, content: bytes, at_once: int) -> None:
        with pytest.raises(NotJsonError, match="not JSON"):
            read(content, at_once=at_once)

    @pytest.mark.parametrize("body", [["x" * 500], [["model", "m"], ["messages", "x" * 500]]])
    def test_a_body_that_is_no_object(self, body: Any) -> None:
        with pytest.raises(NotJsonError, match="no JSON object"):
            read(body)

    def test_a_value_that_is_too_large(self) -> None:
        with pytest.raises(LargeBodyError, match="payload has more than 10000 bytes"):
            read({"payload": "x" * 9_999}, PAYLOAD)
        assert paths(read({"payload": "x" * 9_998}, PAYLOAD)["payload"]) == [()]

    def test_what_is_too_large_beside_it(self) -> None:
        with pytest.raises(LargeBodyError):
            read({"payload": 1, "tags": ["y" * 90] * 200}, PAYLOAD)
        with pytest.raises(LargeBodyError):
            read({"payload": 1, "tag": "y" * 400_000}, PAYLOAD)
        with pytest.raises(LargeBodyError):
            read({str(n): "v" * 90 for n in range(200)})

    def test_more_values_than_are_looked_at(self) -> None:
        with pytest.raises(LargeBodyError, match="number of its values"):
            read(b'{"a": [' + b"[]," * 500_000 + b"1]}")


def value(rng: random.Random, *, depth: int) -> Any:
    """Any JSON, some of it long."""
    sort = rng.choice("tttnndl" if depth else "ttn")
    if sort == "n":
        return rng.choice([0, -1, 1.25e300, 10**30, True, False, None])
    if sort == "t":
        return "".join(rng.choices('abé語😀"\\\n\t,:{}[]', k=rng.choice([0, 3, 20, 90, 700])))
    entries = [value(rng, depth=depth - 1) for _ in range(rng.choice([0, 1, 3, 12]))]
    return entries if sort == "l" else {f"{n}\"'": entry for n, entry in enumerate(entries)}
