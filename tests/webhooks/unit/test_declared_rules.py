"""Rules that an app declares in its code: at any time, and `manage.py check` finds the mistakes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

import webhooks
from webhooks.handlers import registry

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_declared", [])


def complaints() -> list[str]:
    """What the checks say about webhooks."""
    return [f"{one.id} {one.msg}" for one in run_checks() if str(one.id).startswith("webhooks.")]


def made(event: webhooks.Event) -> Any:
    return event.body


class TestOn:
    def test_can_be_called_before_django_is_set_up(self) -> None:
        code = "import webhooks; webhooks.on('github', 'push', kind='x'); import sys; print('django.db' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True, check=True
        )
        assert done.stdout == "False\n"

    def test_is_right_with_a_template_or_a_function(self) -> None:
        webhooks.on("github", "push", kind="chat", payload={"ref": "{{ body.ref }}"}, filter={"body.ref": "x"})

        @webhooks.on("stripe", "invoice.*", kind="chat")
        def build(event: webhooks.Event) -> Any:
            return event.body

        assert complaints() == []
        assert callable(build), "the function stays what it is"
        assert [one.rule.name for one in registry.declared()] == ["github push chat", "stripe invoice.* chat"]
        assert [rule.build for rule in registry.declared_for("stripe", "invoice.paid")] == [build]
        assert registry.declared_for("stripe", "customer.created") == []

    @pytest.mark.parametrize(
        ("declare", "sentence"),
        [
            (
                lambda: webhooks.on("gihub", "push", kind="chat"),
                "E001 webhooks.on 'gihub push chat': The rule cannot be saved: its source: there is no source 'gihub'",
            ),
            (lambda: webhooks.on("github", "*.x", kind="chat"), "its event: '*.x' is no event"),
            (lambda: webhooks.on("github", "push", kind="chat", payload="{{ x"), "its payload: '{{ x' is no"),
            (lambda: webhooks.on("github", "push", kind="chat", filter={"x": 1}), "its filter: the path 'x' begins"),
            (lambda: webhooks.on("github", "push", kind="chat", unique_key="{{ x"), "its unique_key: "),
            (lambda: webhooks.on("github", "push", kind="chat", name="x" * 301), "its name: "),
            (lambda: webhooks.on("github", "push", kind="chat", payload={})(made), "its payload: a function makes it"),
            (lambda: webhooks.on("github", "push", kind="gone"), "W001 webhooks.on 'github push gone': no code"),
        ],
    )
    def test_with_a_mistake_is_found_by_the_checks(self, declare: Callable[[], Any], sentence: str) -> None:
        declare()
        [found] = complaints()
        assert sentence in found

    def test_twice_under_one_name_is_found_by_the_checks(self) -> None:
        webhooks.on("github", "push", kind="chat")
        webhooks.on("github", "push", kind="chat", payload={})
        [found] = complaints()
        assert found.startswith("webhooks.E002 webhooks.on 'github push chat': two rules have this name")
        webhooks.on("github", "push", kind="chat", name="another")
        assert len(complaints()) == 1
