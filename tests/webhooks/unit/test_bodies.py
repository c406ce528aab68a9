"""JSON from strangers: refused with a reason, or readable and storable; and quick either way."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.looped import looped
from webhooks.domain import bodies
from webhooks.errors import NotJson

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


class TestParse:
    @given(JSON)
    @settings(max_examples=200, deadline=None)
    def test_reads_what_json_writes_or_replaces_what_cannot_be_stored(self, value: Any) -> None:
        parsed = bodies.parse(json.dumps(value).encode())
        plain = json.loads(json.dumps(value))
        assert parsed.is_altered is (parsed.document != plain)
        json.dumps(parsed.document, ensure_ascii=False).encode()  # no half of a surrogate pair is left
        assert "\\u0000" not in json.dumps(parsed.document)

    @looped(
        ("body", "why"),
        [
            (b"", "Expecting value at character 0"),
            (b"nul", "Expecting value"),
            (b"{", "Expecting property name"),
            (b'{"a":1}x', "Extra data"),
            (b"\xff", "byte 0 is not UTF-8"),
            (b"\xef\xbb\xbf{}", "BOM"),
            ("{}".encode("utf-16"), "byte 0 is not UTF-8"),
            (b'"a\x00b"', "Invalid control character"),
            (b'{"a":1,"a":2}', "the name 'a' twice"),
            (b'{"b":{"a":1,"a":1}}', "the name 'a' twice"),
            (b"NaN", "NaN is no number"),
            (b"[Infinity]", "Infinity is no number"),
            (b'{"a":-Infinity}', "-Infinity is no number"),
            (b"1e400", "too large"),
            (b"0." + b"1" * 200, "too large or too long"),
            (b"9" * 101, "101 digits"),
            (b"[" * 101 + b"]" * 101, "more than 100 deep"),
        ],
    )
    def test_refuses_what_is_no_json_and_says_why(self, body: bytes, why: str) -> None:
        with pytest.raises(NotJson, match=why.replace("(", r"\(")):
            bodies.parse(body)

    @looped(
        "bomb",
        [
            b"[" * 5_000_000,
            b'{"a":' * 1_000_000,
            b"1" * 5_000_000,
            b"-" + b"1" * 5_000_000,
            b"1." + b"1" * 5_000_000,
            b"1e" + b"9" * 5_000_000,
            b'"' + b'\\"[' * 1_500_000,  # quadratic for a pattern that gives back
            b'"' + b'\\"[' * 1_500_000 + b"\\",
            b"[" * 101 + b'"' * 3_000_000,
            b'{"' + b"a" * 5_000_000,
        ],
        ids=range(10),
    )
    def test_refuses_a_bomb_within_seconds_and_without_a_crash(self, bomb: bytes) -> None:
        """Linear, a tenth of a second each; the quadratic ways take minutes, which the suite's limit would show."""
        with pytest.raises(NotJson):
            bodies.parse(bomb)

    def test_takes_a_hundred_levels_and_brackets_in_strings_count_for_nothing(self) -> None:
        deep = b"[" * 99 + json.dumps("[{" * 1000 + '"\\').encode() + b"]" * 99
        assert bodies.parse(deep).is_altered is False

    def test_keeps_a_nul_readable_and_storable(self) -> None:
        parsed = bodies.parse(rb'{"a\u0000":"x\u0000y","b":"\ud800","c":"\ud83d\ude00"}')
        assert parsed.document == {"a␀": "x␀y", "b": "�", "c": "😀"}
        assert parsed.is_altered

    def test_leaves_an_escaped_backslash_before_u0000_alone(self) -> None:
        assert bodies.parse(rb'"\\u0000"') == bodies.Parsed(document="\\u0000", is_altered=False)


class TestForms:
    TYPE = "application/x-www-form-urlencoded"

    def test_hold_their_json_in_payload(self) -> None:
        assert bodies.parse(b"payload=%7B%22zen%22%3A%22%C3%A9%22%7D", content_type=self.TYPE).document == {"zen": "é"}

    def test_are_read_however_their_type_is_spelled(self) -> None:
        spelled = f" {self.TYPE.upper()}; charset=UTF-8"
        assert bodies.parse(b"payload=%7B%22a%22%3A1%7D", content_type=spelled).document == {"a": 1}

    @looped("body", [b"", b"other=1", b"payload=1&payload=2", b"payload=%7B", b"&".join([b"a=1"] * 50)])
    def test_without_one_payload_are_refused(self, body: bytes) -> None:
        with pytest.raises(NotJson):
            bodies.parse(body, content_type=self.TYPE)

    def test_are_not_read_as_such_under_another_type(self) -> None:
        with pytest.raises(NotJson):
            bodies.parse(b"payload=%7B%7D")


class TestWords:
    def test_are_the_strings_and_numbers_in_a_row(self) -> None:
        document = {"a": ["one", 2, {"b": 3.5}], "c": None, "d": True, "e": "two"}
        assert bodies.words(document, most=100) == "one 2 3.5 two"

    def test_are_cut_at_the_limit(self) -> None:
        assert bodies.words(["abc", "defgh", "i"], most=6) == "abc de"
        assert len(bodies.words(["x" * 1000] * 1000, most=5000)) <= 5000
