"""Rules that apps declare in their code. Importable before any app is ready: this module loads no model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from webhooks.domain import rules
from webhooks.domain.rules import Rule
from webhooks.errors import BadRule
from webhooks.handlers.registry import Event

B = TypeVar("B", bound=Callable[[Event], Any])

_declared: list["Declaration"] = []


class Declaration:
    """One call of `on`. As a decorator it has the function make the payload."""

    def __init__(self, rule: Rule, *, has_payload: bool) -> None:
        self.rule = rule
        self._has_payload = has_payload

    def __call__(self, build: B) -> B:
        """Let this function make the payload: it is given the Event, and returns None for no job."""
        self.rule = replace(self.rule, build=build)
        return build

    def mistake(self) -> str | None:
        if self._has_payload and self.rule.build is not None:
            return BadRule(field="payload", reason="a function makes it, so no template is given").message
        try:
            rules.check(self.rule)
        except BadRule as refusal:
            return refusal.message
        return None


def on(  # noqa: PLR0913  # what a rule says; they are named wherever they are given
    source: str,
    event: str,
    *,
    kind: str = "",
    flow_template: str = "",
    signal: str = "",
    signal_key: str = "",
    payload: Any = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002  # the word that the administration has for it
    name: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    owner: str | None = None,
    unique_key: str | None = None,
    on_conflict: str | None = None,
    debounce: Mapping[str, float] | None = None,
    tags: Sequence[str] = (),
) -> Declaration:
    """Have every delivery of `source` whose event is `event` start a job of this kind, or a flow of this template,
    or send this signal to the jobs that wait for it by `signal_key`, a template. Each delivery does so once,
    whatever crashes, comes twice or is replayed, unless a replay is asked to start its jobs again.

    `event` is a type (`issues.opened`), a family (`issues.*`) or `*`; `filter` an object of paths and what has to be
    there; `payload` a template (docs/webhooks.md), None: the body as it is. As a decorator the function makes the
    payload instead: it is given the `Event` and returns JSON, or None for no job. It runs in the transaction that
    processes the delivery, so it touches nothing but the database, and may run again.

    `queue`, `priority`, `unique_key` and `tags` (templates), `on_conflict` and `debounce` are those of
    `jobs.operations.submit`; `owner` is the name of a person, None: the job is the site's own. `name` tells this rule
    from others for good, also after its code has moved: "source event kind" unless it is said. To be called where an
    app is loaded, in its `hooks.py`.

    Raises nothing: `manage.py check` says what is wrong, and a job that cannot be started is kept with the delivery.
    """
    name = name or f"{source} {event} {kind or flow_template or signal}"
    rule = Rule(
        key=f"code:{name}",
        name=name,
        source=source,
        event=str(event),  # whatever it is: one that makes no sense means nothing, and the checks say so
        kind=kind,
        flow_template=flow_template,
        signal=signal,
        signal_key=signal_key,
        filter={} if filter is None else filter,
        template=rules.WHOLE_BODY if payload is None else payload,
        queue=queue,
        priority=priority,
        owner=owner,
        unique_key=unique_key,
        on_conflict=on_conflict,
        debounce=debounce,
        tags=tags,
    )
    declaration = Declaration(rule, has_payload=payload is not None)
    _declared.append(declaration)
    return declaration


def declared() -> list[Declaration]:
    return list(_declared)


def declared_for(source: str, event: str) -> list[Rule]:
    every = (one.rule for one in _declared if one.rule.source == source)
    return [rule for rule in every if rules.means(rule.event, event)]


def find(key: str) -> Rule | None:
    return next((one.rule for one in _declared if one.rule.key == key), None)
