"""JSON as a page folds it: escaped, bounded, complete as far as it goes."""

import json
import re
from html import unescape
from typing import Any

import pytest
from hypothesis import given, strategies as st

from live.templatetags import trees

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=30,
)


def _text(value: Any) -> str:
    return unescape(re.sub("<[^>]*>", "", trees.tree(value)))


class TestATree:
    def test_names_fields_and_says_values_as_json_does(self) -> None:
        value = {"seed": "<i>7</i>", "ok": True, "none": None, "list": [1, 2.5], "empty": {}}
        html = trees.tree(value)
        assert "<i>" not in html
        text = _text(value)
        assert [
            part in text for part in ('"seed": "<i>7</i>"', '"ok": true', '"none": null', "2.5", '"empty": {}')
        ] == [True] * 5
        assert "2 items" in text

    @given(JSON)
    def test_holds_no_markup_but_its_own(self, value: Any) -> None:
        tags = set(re.findall(r"<(/?\w+)", trees.tree(value)))
        assert {tag.strip("/") for tag in tags} <= {"div", "details", "summary", "span"}

    @given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=8))
    def test_says_every_field(self, value: dict[str, str]) -> None:
        text = _text(value)
        for key, leaf in value.items():
            assert f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(leaf, ensure_ascii=False)}" in text

    def test_stops_at_a_page_full_and_says_how_much_is_left(self) -> None:
        text = _text({"numbers": list(range(100_000))})
        assert len(text) < 20_000
        assert re.search(r"… and 99,?\d{3} more", text)

    def test_cuts_a_text_that_fills_pages(self) -> None:
        assert "(100,002 characters)" in _text("x" * 100_000)

    @pytest.mark.parametrize("depth", [40, 400])
    def test_of_great_depth_ends(self, depth: int) -> None:
        value: Any = "bottom"
        for _ in range(depth):
            value = [value]
        assert ("bottom" in _text(value)) == (depth < 50)
