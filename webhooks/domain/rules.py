"""Rules: which deliveries start a job, and which job that is. One is kept by a person, or declared in an app's code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from webhooks.domain import conditions, names, templates
from webhooks.errors import BadRule

WHOLE_BODY: Final = "{{ body }}"
ANY: Final = "*"
LONGEST_NAME: Final = 300
_FAMILY: Final = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Deliveries of `source` whose event `event` means and that meet `filter` start a job of `kind`.

    With a `flow_template` instead of a kind they start that, and what is said of the payload is said of its values;
    with a `signal` they send that to the jobs that wait for it by the `signal_key`, a template, and the payload is its
    data.
    Its payload is made by `template`, or by `build` if there is one (None: no job). What is None of `queue` and
    `priority` comes from the kind. `unique_key` is a template too, as each of `tags` is; `on_conflict` and
    `debounce` say what becomes of the job while another has its key. `owner` is the name of the
    person whose job it is, None: the site's own. `key` tells rules apart for good: of each a delivery starts one job.
    `pk` is that of the row, where a person keeps it.
    """

    key: str
    name: str
    source: str
    event: str
    kind: str = ""
    flow_template: str = ""
    signal: str = ""
    signal_key: str = ""
    template: Any = WHOLE_BODY
    build: Callable[[Any], Any] | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None
    unique_key: str | None = None
    on_conflict: str | None = None
    debounce: Mapping[str, float] | None = None
    tags: Sequence[str] = ()
    owner: str | None = None
    pk: int | None = None

    def mismatch(self, values: Mapping[str, Any]) -> str | None:
        """Why a delivery with these values (`paths.ROOTS`) does not meet it; None if it does."""
        if values["source"] != self.source:
            return f"its source is {values['source']}"
        if not means(self.event, values["event"]):
            return f"its event is {values['event'] or 'not named'}"
        return conditions.mismatch(self.filter, values)


def check(rule: Rule) -> None:
    """Raise BadRule for what no delivery could ever start a job by. Whether its kind exists is not known here."""
    if rule.source not in set(names.Source):
        known = ", ".join(names.Source)
        raise BadRule(field="source", reason=f"there is no source {rule.source!r}; there are: {known}")
    if not (rule.name.isprintable() and len(rule.name) <= LONGEST_NAME):
        raise BadRule(field="name", reason=f"it has at most {LONGEST_NAME} printable characters")
    check_event(rule.event)
    conditions.check(rule.filter)
    templates.check(rule.template)
    _check_target(rule)
    for key in ("unique_key", "signal_key"):
        if getattr(rule, key):
            _check_key(getattr(rule, key), key)
    try:
        templates.check([*rule.tags])
    except BadRule as refusal:
        raise BadRule(field="tags", reason=refusal.reason) from None


def _check_target(rule: Rule) -> None:
    if sum(map(bool, (rule.kind, rule.flow_template, rule.signal))) != 1:
        raise BadRule(field="kind", reason="a kind, a flow template or a signal, one of them")
    own = (rule.queue, rule.unique_key, rule.on_conflict, rule.debounce)
    if not rule.kind and (any(own) or rule.tags or rule.priority is not None):
        field = "flow_template" if rule.flow_template else "signal"
        raise BadRule(field=field, reason="its jobs have queues, keys and tags of their own")
    if bool(rule.signal) != bool(rule.signal_key):
        raise BadRule(field="signal_key", reason="a signal has one, by which it finds who waits, and nothing else has")


def check_event(pattern: str) -> None:
    """Raise BadRule for what means no event: one is named (`issues.opened`), a family (`issues.*`), or all (`*`)."""
    name = "x" if pattern == ANY else pattern.removesuffix(_FAMILY)
    if not name or ANY in name or not name.isprintable() or len(pattern) > names.LONGEST:
        how = "write its name, like issues.opened, or issues.* for a family, or * for all"
        reason = f"{pattern[:80]!r} is no event: {how}"
        raise BadRule(field="event", reason=reason)


def means(pattern: str, event: str) -> bool:
    if pattern.endswith(_FAMILY):
        family = pattern.removesuffix(_FAMILY)
        return event == family or event.startswith(f"{family}.")
    return pattern in {ANY, event}


def _check_key(template: Any, field: str) -> None:
    if not isinstance(template, str) or not 1 <= len(template) <= 200:
        raise BadRule(field=field, reason="it is a text of 1 to 200 characters")
    try:
        templates.check(template)
    except BadRule as refusal:
        raise BadRule(field=field, reason=refusal.reason) from None
