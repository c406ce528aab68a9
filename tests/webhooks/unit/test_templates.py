"""Payload templates: placeholders are replaced value by value, and nothing in them is run."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from core.templates import BadTemplate, MissingValue, PayloadTooBig
from tests.looped import looped
from webhooks.domain import rules
from webhooks.errors import BadRule

VALUES: dict[str, Any] = {
    "source": "github",
    "event": "push",
    "delivery": 7,
    "sandbox": None,
    "body": {
        "ref": "refs/heads/main",
        "repository": {"full_name": "ada/engine", "id": 12, "private": False, "topics": ["x", "y"]},
        "commits": [{"id": "abc"}, {"id": "def"}],
        "share": 0.5,
        "base": None,
    },
}
LIMIT = 10_000
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
scraps = st.sampled_from(
    ["{{", "}}", " ", "body", ".", "0", "ref", "?", "{", "}", "__class__", "event", "\n", "%s", "{0}", "é", "commits"]
)
texts = st.lists(scraps, max_size=12).map("".join) | st.text()
template_values = st.recursive(
    texts | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def rendered(template: Any, values: dict[str, Any] = VALUES) -> Any:
    rules.check_template(template)
    return rules.render(template, values, limit_bytes=LIMIT)


class TestAPlaceholder:
    @looped(
        ("template", "value"),
        [
            ("{{ body.repository.id }}", 12),
            ("{{body.repository.private}}", False),
            ("{{ body.share }}", 0.5),
            ("{{ body.base }}", None),
            ("{{ body.repository.topics }}", ["x", "y"]),
            ("{{ body.commits.1.id }}", "def"),
            ("{{ body }}", VALUES["body"]),
            ("{{ event }}", "push"),
            ("{{ delivery }}", 7),
        ],
    )
    def test_that_is_the_whole_string_takes_the_type_of_its_value(self, template: str, value: Any) -> None:
        assert rendered(template) == value
        assert type(rendered(template)) is type(value)

    @looped(
        ("template", "text"),
        [
            ("{{ body.repository.full_name }}@{{ body.commits.0.id }}", "ada/engine@abc"),
            ("#{{ body.repository.id }}", "#12"),
            ("is {{ body.repository.private }}", "is false"),
            ("<{{ body.base }}>", "<>"),
            ("in {{ body.repository.topics }}", 'in ["x","y"]'),
            (" {{ event }}", " push"),
        ],
    )
    def test_within_a_text_becomes_text(self, template: str, text: str) -> None:
        assert rendered(template) == text

    def test_is_found_at_any_depth_and_all_else_stays(self) -> None:
        template = {"a": [{"{{ event }}": "{{ event }}"}, 3, None, True, "}} plain {"], "b": 1.5}
        assert rendered(template) == {"a": [{"{{ event }}": "push"}, 3, None, True, "}} plain {"], "b": 1.5}

    @looped("path", ["body.nothing", "body.ref.upper", "body.commits.2", "body.commits.x", "body.base.x"])
    def test_of_what_is_not_there_refuses_and_names_it(self, path: str) -> None:
        with pytest.raises(MissingValue, match=path):
            rendered({"a": f"{{{{ {path} }}}}"})

    def test_of_what_may_be_missing_is_null_or_an_empty_text(self) -> None:
        assert rendered(["{{ body.nothing? }}", "x{{ body.nothing? }}y", "{{ body.ref? }}"]) == [
            None,
            "xy",
            "refs/heads/main",
        ]

    def test_reaches_no_attribute_and_no_method(self) -> None:
        for path in ("body.__class__", "body.repository.keys", "body.ref.upper", "body.commits.__len__"):
            with pytest.raises(MissingValue):
                rendered(f"{{{{ {path} }}}}")

    def test_of_a_value_is_not_looked_at_again(self) -> None:
        """What a sender wrote is never a template."""
        values = {"body": {"title": "{{ body.secret }}", "secret": "x"}}
        assert rendered(["{{ body.title }}", "> {{ body.title }}"], values) == [
            "{{ body.secret }}",
            "> {{ body.secret }}",
        ]


class TestACheck:
    @looped(
        "template",
        [
            "{{",
            "{{ }}",
            "{{ body.ref",
            "{{ nobody }}",
            "{{ body..ref }}",
            "{{ body ref }}",
            "{{ body|safe }}",
            "{{ event.__class__ }}",
            "{{ body.ref() }} {{",
        ],
    )
    def test_refuses_what_is_no_placeholder(self, template: str) -> None:
        with pytest.raises(BadRule):
            rules.check_template({"a": [template]})

    def test_refuses_what_is_no_json_too_deep_or_too_large(self) -> None:
        deep: Any = "x"
        for _ in range(200):
            deep = [deep]
        rules.check_template(10**400)
        for template in (object(), {1: "x"}, float("nan"), deep, "x" * 100_000, {"a": b"x"}):
            with pytest.raises(BadRule):
                rules.check_template(template)


class TestAPayload:
    def test_that_would_be_too_large_is_refused_before_it_is_made(self) -> None:
        values = {"body": {"text": "x" * 9_000}}
        assert len(rendered("{{ body.text }}", values)) == 9_000
        for template in (["{{ body }}"] * 1_000, "{{ body.text }}" * 1_000, {"a": "{{ body }}", "b": "{{ body }}"}):
            with pytest.raises(PayloadTooBig):
                rendered(template, values)

    @given(template=template_values, body=json_values)
    def test_of_any_template_and_body_is_json_or_refused_with_a_sentence(self, template: Any, body: Any) -> None:
        values = VALUES | {"body": body}
        with contextlib.suppress(BadRule, BadTemplate, MissingValue, PayloadTooBig):
            rules.check_template(template)
            payload = rules.render(template, values, limit_bytes=LIMIT)
            json.dumps(payload, allow_nan=False)

    @given(body=json_values)
    def test_of_the_body_alone_is_the_body(self, body: Any) -> None:
        assert rules.render("{{ body }}", {"body": body}, limit_bytes=10**6) == body

    @given(template=template_values)
    def test_that_was_not_checked_raises_nothing_else_either(self, template: Any) -> None:
        with contextlib.suppress(BadRule, BadTemplate, MissingValue, PayloadTooBig):
            rules.render(template, VALUES, limit_bytes=LIMIT)
