"""Rules: which deliveries start a job, and which job that is. One is kept by a person, or declared in an app's code.

`"x"`, `7`, `true`, `null`: this value. `["x", "y"]`: one of these. `{"exists": true}`, `{"prefix": "refs/tags/"}`,
`{"not": "x"}` or `{"not": ["x", "y"]}`: what they say; several in one object have to hold together.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core import templates
from core.templates import MISSING, PATH, BadTemplate, find
from webhooks.domain import deliveries
from webhooks.domain.parts import cut
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
        """Why a delivery with these values (`ROOTS`) does not meet it; None if it does."""
        if values["source"] != self.source:
            return f"its source is {values['source']}"
        if not means(self.event, values["event"]):
            return f"its event is {values['event'] or 'not named'}"
        return mismatch(self.filter, values)


def check(rule: Rule) -> None:
    """Raise BadRule for what no delivery could ever start a job by. Whether its kind exists is not known here."""
    if rule.source not in set(deliveries.Source):
        known = ", ".join(deliveries.Source)
        raise BadRule(field="source", reason=f"there is no source {rule.source!r}; there are: {known}")
    if not (rule.name.isprintable() and len(rule.name) <= LONGEST_NAME):
        raise BadRule(field="name", reason=f"it has at most {LONGEST_NAME} printable characters")
    check_event(rule.event)
    check_conditions(rule.filter)
    check_template(rule.template)
    _check_target(rule)
    for key in ("unique_key", "signal_key"):
        if getattr(rule, key):
            _check_key(getattr(rule, key), key)
    try:
        check_template([*rule.tags])
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
    if not name or ANY in name or not name.isprintable() or len(pattern) > deliveries.LONGEST:
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
        check_template(template)
    except BadRule as refusal:
        raise BadRule(field=field, reason=refusal.reason) from None


MOST: Final = 50
_SHOWN: Final = 80
_SCALARS: Final = (str, bool, int, float, type(None))


def check_conditions(conditions: Any) -> None:
    if not isinstance(conditions, Mapping):
        raise _bad('it is an object of paths, like {"body.ref": "refs/heads/main"}')
    if len(conditions) > MOST:
        raise _bad(f"it has more than {MOST} conditions")
    for path, condition in conditions.items():
        if why := path_reason(str(path)):
            raise _bad(why)
        _check_condition(path, condition)


def mismatch(conditions: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The first condition that is not met, as what is there instead; None if the delivery fits."""
    for path, condition in conditions.items():
        value = find(path, values)
        if not _is_met(condition, value):
            return f"{path} is {_shown(value)}"
    return None


def _is_met(condition: Any, value: Any) -> bool:
    if isinstance(condition, Mapping):
        return all(_OPERATORS[name](wanted, value) for name, wanted in condition.items())
    return _is_one_of(condition, value)


def _is_one_of(wanted: Any, value: Any) -> bool:
    """As JSON has it: 12 and 12.0 are the same, true and 1 are not."""
    several = wanted if isinstance(wanted, list) else [wanted]
    return any(isinstance(one, bool) is isinstance(value, bool) and one == value for one in several)


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "exists": lambda wanted, value: (value is not MISSING) is wanted,
    "prefix": lambda wanted, value: isinstance(value, str) and value.startswith(wanted),
    "not": lambda wanted, value: not _is_one_of(wanted, value),
}


def _check_condition(path: str, condition: Any) -> None:
    if not isinstance(condition, Mapping):
        _check_values(path, condition)
        return
    unknown = [name for name in condition if name not in _OPERATORS]
    if unknown or not condition:
        raise _bad(f"{path}: a condition says {', '.join(_OPERATORS)}, or is a value or a list of values")
    if not isinstance(condition.get("exists", True), bool):
        raise _bad(f"{path}: exists is true or false")
    if not isinstance(condition.get("prefix", ""), str):
        raise _bad(f"{path}: prefix is a text")
    _check_values(path, condition.get("not"))


def _check_values(path: str, wanted: Any) -> None:
    for one in wanted if isinstance(wanted, list) else [wanted]:
        if not isinstance(one, _SCALARS):
            raise _bad(f"{path}: it can be compared with texts, numbers, true, false and null alone")


def _shown(value: Any) -> str:
    if value is MISSING:
        return "not there"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, _SCALARS) else type(value).__name__
    text = {"dict": "an object", "list": "a list"}.get(text, text)
    return cut(text, _SHOWN)


def _bad(reason: str) -> BadRule:
    return BadRule(field="filter", reason=reason)


def check_template(template: Any) -> None:
    try:
        templates.check(template, path_reason)
    except BadTemplate as refusal:
        raise BadRule(field="payload", reason=refusal.reason) from None


def render(template: Any, values: Mapping[str, Any], *, limit_bytes: int) -> Any:
    """What a template makes of a delivery; raises as `core.templates.render`."""
    return templates.render(template, values, reason=path_reason, limit_bytes=limit_bytes)


ROOTS: Final = ("source", "event", "delivery", "delivery_id", "sandbox", "occurred_at", "received_at", "body")
_PATH: Final = re.compile(PATH)


def path_reason(path: str) -> str | None:
    if not _PATH.fullmatch(path):
        return f"{path[:80]!r} is no path: write names with dots between, like body.repository.full_name"
    root, _, rest = path.partition(".")
    if root not in ROOTS:
        return f"the path {path[:80]!r} begins with none of {', '.join(ROOTS)}"
    if rest and root != "body":
        return f"the path {path[:80]!r} goes on after {root}, which has no parts"
    return None
