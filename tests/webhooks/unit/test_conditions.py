"""Filters of rules, and which events a rule is for."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.looped import looped
from tests.webhooks.unit.test_templates import VALUES, json_values, texts
from webhooks.domain import rules
from webhooks.errors import BadRule


def matches(conditions_: dict[str, Any], values: dict[str, Any] = VALUES) -> bool:
    rules.check_conditions(conditions_)
    return rules.mismatch(conditions_, values) is None


class TestAFilter:
    @looped(
        ("condition", "is_met"),
        [
            ({}, True),
            ({"body.ref": "refs/heads/main"}, True),
            ({"body.ref": "refs/heads/other"}, False),
            ({"body.ref": ["refs/heads/other", "refs/heads/main"]}, True),
            ({"body.ref": []}, False),
            ({"body.ref": {"prefix": "refs/heads/"}}, True),
            ({"body.ref": {"prefix": "refs/tags/"}}, False),
            ({"body.repository.id": {"prefix": "1"}}, False),
            ({"body.ref": {"not": "refs/heads/main"}}, False),
            ({"body.ref": {"not": ["x", "y"]}}, True),
            ({"body.nothing": {"not": "x"}}, True),
            ({"body.base": {"exists": True}}, True),
            ({"body.nothing": {"exists": True}}, False),
            ({"body.nothing": {"exists": False}}, True),
            ({"body.ref": {"exists": False}}, False),
            ({"body.base": None}, True),
            ({"body.nothing": None}, False),
            ({"body.repository.private": False}, True),
            ({"body.repository.private": 0}, False),
            ({"body.repository.id": 12.0}, True),
            ({"body.repository.id": "12"}, False),
            ({"body.commits.0.id": "abc", "event": "push"}, True),
            ({"body.commits.0.id": "abc", "event": "pull"}, False),
            ({"body.ref": {"prefix": "refs/", "not": "refs/heads/main"}}, False),
        ],
    )
    def test_is_met_by_all_its_conditions(self, condition: dict[str, Any], is_met: bool) -> None:
        assert matches(condition) is is_met

    def test_says_which_condition_was_not_met_and_what_was_there(self) -> None:
        mismatch = rules.mismatch({"event": "push", "body.ref": "main"}, VALUES)
        assert mismatch == 'body.ref is "refs/heads/main"'
        assert rules.mismatch({"body.nothing": 1}, VALUES) == "body.nothing is not there"

    @looped(
        "condition",
        [
            [], "x", None, {"nobody": 1}, {"body..x": 1}, {"": 1}, {"body.x": {"like": "y"}}, {"body.x": {}},
            {"body.x": {"exists": "yes"}}, {"body.x": {"prefix": 3}}, {"body.x": [["y"]]}, {"body.x": {"not": {}}},
            {"body.x": [{"a": 1}]}, {f"body.x{n}": 1 for n in range(200)},
        ],
    )  # fmt: skip
    def test_that_makes_no_sense_is_refused(self, condition: Any) -> None:
        with pytest.raises(BadRule):
            rules.check_conditions(condition)

    @given(
        condition=st.dictionaries(texts | st.sampled_from(["body", "body.a", "event"]), json_values, max_size=4),
        body=json_values,
    )
    def test_of_any_form_is_met_or_not_or_refused(self, condition: dict[str, Any], body: Any) -> None:
        with contextlib.suppress(BadRule):
            rules.check_conditions(condition)
            assert isinstance(rules.mismatch(condition, {**VALUES, "body": body}), str | None)


class TestAnEvent:
    @looped(
        ("pattern", "event", "is_meant"),
        [
            ("push", "push", True),
            ("push", "pushed", False),
            ("issues", "issues.opened", False),
            ("issues.opened", "issues.opened", True),
            ("issues.*", "issues.opened", True),
            ("issues.*", "issues", True),
            ("issues.*", "issues_x.opened", False),
            ("customer.subscription.*", "customer.subscription.updated", True),
            ("customer.subscription.*", "customer.updated", False),
            ("*", "anything", True),
            ("*", "", True),
        ],
    )
    def test_is_meant_by_its_name_its_family_or_a_star(self, pattern: str, event: str, is_meant: bool) -> None:
        rules.check_event(pattern)
        assert rules.means(pattern, event) is is_meant

    @looped("pattern", ["", "*.opened", "iss*", "a.*.b", "x" * 256, "a\nb", ".*", "**"])
    def test_of_another_form_is_refused(self, pattern: str) -> None:
        with pytest.raises(BadRule):
            rules.check_event(pattern)
