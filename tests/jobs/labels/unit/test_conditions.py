"""Labels and conditions: what is one, which spelling it has, and which worker meets it."""

from typing import Any

import pytest

from jobs.domain import labels
from jobs.errors import InvalidValue
from tests.looped import looped

VALUES = {"vram": ("24",), "region": ("home",), "loaded": frozenset({"a", "b"})}


class TestMeets:
    @looped(
        ("condition", "expected"),
        [
            ("vram>=16", True), ("vram>=24", True), ("vram>=24.5", False), ("vram<=24", True), ("vram<=8", False),
            ("vram=24", True), ("vram=24.0", True), ("vram=8|24", True), ("vram=8|16", False),
            ("vram>=9", True),  # as texts, "24" would come before "9"
            ("region=home", True), ("region=lab|home", True), ("region=Home", False), ("region>=1", False),
            ("loaded=a", True), ("loaded=b|c", True), ("loaded=c", False), ("cuda=12", False),
        ],
    )  # fmt: skip
    def test_compares_numbers_as_numbers_and_lacking_labels_never_meet(self, condition: str, expected: bool) -> None:
        named = labels.conditions(labels.read_pairs([condition], field="requires"), field="requires")
        assert labels.meets(named, VALUES) is expected
        assert labels.unmet(named, VALUES) == ({} if expected else dict(named))

    def test_takes_all_conditions_together(self) -> None:
        assert labels.meets({"vram": ">=16", "region": "home"}, VALUES)
        assert not labels.meets({"vram": ">=16", "region": "lab"}, VALUES)


class TestRequirement:
    def test_has_one_spelling_whatever_way_it_is_written(self) -> None:
        ways: list[dict[str, Any]] = [
            {"vram": ">=16", "region": ["lab", "home"]},
            {"region": "home|lab|home", "vram": ">= 16.0"},
            {"region": "lab|home", "vram": ">=+16.00"},
        ]
        texts = {labels.requirement(requires=way, prefers=None, usual={}).text for way in ways}  # type: ignore[union-attr]
        assert texts == {'{"prefers":{},"requires":{"region":"home|lab","vram":">=16"}}'}

    def test_goes_over_what_the_kind_requires_label_by_label(self) -> None:
        made = labels.requirement(requires={"vram": 24}, prefers=None, usual={"region": "home", "vram": ">=8"})
        assert made is not None
        assert made.requires == {"region": "home", "vram": "24"}

    def test_is_none_without_conditions(self) -> None:
        assert labels.requirement(requires={}, prefers=None, usual={}) is None

    @looped(
        ("written", "why"),
        [
            ({"Vram": "1"}, "a label is a-z"),
            ({"vram": ">=much"}, "vram>= needs a number, got 'much'"),
            ({"vram": ">=16|24"}, "vram>= needs a number"),
            ({"vram": ""}, "vram has a number or a text"),
            ({"vram": []}, "vram is one of 1 to 16, got 0"),
            ({"vram": ["1"] * 17}, "vram is one of 1 to 16, got 17"),
            ({"vram": True}, "vram has a number or a text"),
            ({"vram": {"least": 16}}, "vram has a number or a text"),
            ({"vram": "=16"}, "vram has a number or a text"),
            ({"vram": "1\n2"}, "vram has a number or a text"),
            ({"vram": "x" * 201}, "vram has a number or a text"),
            ({f"k{n}": "1" for n in range(9)}, "8 conditions at most, got 9"),
            ({f"k{n}": "x" * 200 for n in range(8)}, "1000 characters at most for all conditions"),
        ],
        ids=str,
    )
    def test_is_refused_with_a_sentence_where_it_is_malformed(self, written: dict[str, object], why: str) -> None:
        with pytest.raises(InvalidValue) as refused:
            labels.requirement(requires=written, prefers=None, usual={})
        assert why in refused.value.message


class TestPairs:
    def test_are_written_as_people_write_them(self) -> None:
        assert labels.read_pairs(["vram>=16", " region = home|lab "], field="requires") == {
            "vram": ">=16",
            "region": "home|lab",
        }
        assert labels.in_words({"region": "home|lab", "vram": ">=16"}) == "region=home|lab and vram>=16"

    @looped("pair", ["vram", "=16", "vram>16", "", "vram>=1 vram"])
    def test_are_refused_where_they_are_none(self, pair: str) -> None:
        with pytest.raises(InvalidValue):
            labels.conditions(labels.read_pairs([pair], field="requires"), field="requires")

    def test_name_a_label_once(self) -> None:
        with pytest.raises(InvalidValue, match="vram has two"):
            labels.read_pairs(["vram>=16", "vram<=24"], field="requires")


class TestLabels:
    def test_of_staff_win_and_an_empty_one_takes_a_label_away(self) -> None:
        values = labels.effective(
            announced={"vram": "24", "region": "home"}, by_staff={"vram": "8", "region": ""}, loaded=["tiny"]
        )
        assert values == {"vram": ("8",), "loaded": frozenset({"tiny"})}

    @looped(
        "written",
        [{"loaded": "tiny"}, {"A": "1"}, {"a": ""}, {"a": "x|y"}, {"a": ">=1"}, {f"k{n}": "1" for n in range(33)}],
        ids=str,
    )
    def test_are_refused_where_they_are_none(self, written: dict[str, str]) -> None:
        with pytest.raises(InvalidValue):
            labels.checked_labels(written)
