"""The example of docs/webhooks.md does what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests import documented
from tests.webhook_samples import changed, sample
from webhooks.domain import bodies
from webhooks.domain.rules import Rule, check
from webhooks.handlers import registry
from webhooks.operations import job_starts

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()
SECTION = PAGE.partition("## Jobs from deliveries")[2].partition("\n## ")[0]


def cell(name: str) -> str:
    """What the example's table says of a field."""
    [documented] = re.findall(rf"^ *\| {name} \| `(.*?)`", SECTION, re.MULTILINE)
    return str(documented)


def document(field: str) -> Any:
    return bodies.parse(cell(field).encode()).document


def pushed(**changes: Any) -> Any:
    """A push to the main branch."""
    given = {"ref": "refs/heads/main", "deleted": False, "after": "c0ffee", **changes}
    return sample("github/push.1.json").event(type="push", body=changed("github/push.1.json", **given))


def test_a_push_to_the_main_branch_becomes_the_payload_of_a_deployment() -> None:
    rule = Rule(
        key="rule:1", name="deploy", source="github", event="push", kind=cell("kind"), filter=document("filter"),
        template=document("payload"), unique_key=cell("unique key"), on_conflict=cell("while another has the key"),
    )  # fmt: skip
    check(rule)
    values = job_starts.values_of(pushed())
    assert rule.mismatch(values) is None
    payload = job_starts.payload_of(rule, pushed(), values)
    assert payload == {
        "repository": "Codertocat/Hello-World", "commit": "c0ffee", "by": "Codertocat",
        "title": "Deploy of Hello-World",
    }  # fmt: skip
    assert rule.mismatch(job_starts.values_of(pushed(deleted=True))) == "body.deleted is true"
    assert rule.mismatch(job_starts.values_of(pushed(ref="refs/tags/x"))) == 'body.ref is "refs/tags/x"'


def test_the_code_declares_two_rules_without_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_declared", [])
    code = documented.block("webhooks.md", "import webhooks")
    exec(code, {})
    declared = registry.declared()
    assert [(one.rule.name, one.mistake()) for one in declared] == [
        ("github release.published publish", None),
        ("github push deploy", None),
    ]
    build = declared[1].rule.build
    assert build is not None
    assert build(pushed(commits=[{"modified": ["a", "b"]}])) == {"commit": "c0ffee", "paths": ["a", "b"]}
    assert build(pushed(commits=[])) is None
