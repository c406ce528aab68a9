"""What is sent to an address so that whoever may, does it."""

from collections.abc import Mapping
from typing import Any, Final

from tests import farm

_SUBMITTED: Final = {"kind": "chat", "payload": {"prompt": "Why?"}}
_RULE: Final = {
    "name": "Waits", "threshold": "900", "hold_s": "5", "keep_firing_s": "5", "repeat_s": "4", "severity": "warning",
}  # fmt: skip
_WORKER: Final = "api/v1/worker/jobs/<jobid:job_id>/"

# By pattern. A value "<name>" is what stands for that name in the world.
_CRON: Final = {
    "timing": "every 336 h",
    "zone": "UTC",
    "arguments_text": '{"kind": "chat", "payload": {}}',
    "missed": "once",
    "at_most": "1",
    "overlap": "skip",
}
FORMS: Final[Mapping[str, Any]] = {
    f"{_WORKER}heartbeat": {"lease": "<lease>"},
    f"{_WORKER}checkpoint": {"lease": "<lease>", "value": {"n": 1}},
    f"{_WORKER}submit": {"lease": "<lease>", "position": 0, "kind": "chat", "payload": {}},
    f"{_WORKER}output": {"lease": "<lease>", "seq": 1, "text": "More."},
    f"{_WORKER}files/<name>": b"bytes",
    f"{_WORKER}finish": {"lease": "<lease>", "outcome": "success"},
    f"{_WORKER}release": {"lease": "<lease>"},
    "api/v1/worker/finish": {"finished": [{"id": "<job_id>", "lease": "<lease>", "outcome": "success"}]},
    "api/v1/worker/heartbeat": {"jobs": [{"id": "<job_id>", "lease": "<lease>"}]},
    "api/v1/worker/hello": {"host": "gpu-3"},
    "api/v1/worker/unclaim": {"jobs": [{"id": "<job_id>", "lease": "<lease>"}]},
    "api/v1/files": b"bytes",
    "api/v1/jobs": _SUBMITTED,
    "api/v1/jobs/<jobid:job_id>/priority": {"priority": -5},
    "api/v1/jobs/<jobid:job_id>/signals": {"name": "approved", "data": 7},
    "api/v1/workers/<jobid:worker_id>/labels": {"labels": {"region": "lab"}},
    "api/v1/budgets": {"person": "eve", "unit": "tokens", "period": "day", "amount": 5},
    "api/v1/budgets/<jobid:budget_id>": {"amount": 7},
    "jobs/<jobid:job_id>/priority/": {"priority": "-5"},
    "jobs/<jobid:job_id>/signal/": {"signal-key": "form-1", "signal-json": "7"},
    "api/v1/jobs/bulk": {"jobs": [_SUBMITTED]},
    "accounts/sign-up/": {"username": "newcomer", "password1": farm.PASSWORD, "password2": farm.PASSWORD},
    "accounts/login/": {"login": "ada", "password": farm.PASSWORD},
    "accounts/password/": {
        "oldpassword": farm.PASSWORD,
        "password1": "a new horse battery",
        "password2": "a new horse battery",
    },
    "accounts/password/set/": {"password1": "a new horse battery", "password2": "a new horse battery"},
    "accounts/confirm/": {"password": farm.PASSWORD},
    "accounts/email/": {"action_add": "", "email": "new@example.com"},
    "accounts/tokens/": {"name": "another", "scopes": ["read"]},
    "accounts/groups/": {"name": "Painters"},
    "accounts/groups/<int:group_id>/remove/": {"member": "<member>"},
    "jobs/new/": {"kind": "chat", "prompt": "Why?"},
    "jobs/bulk/": {"action": "cancel"},
    "jobs/failures/": {"group": "none"},
    "jobs/filters/save/": {"name": "failed", "status": "failed"},
    "queues/<str:name>/ceiling/": {"ceiling": "3"},
    "queues/<str:name>/order/": {"fair": "owner", "ages_after": "600"},
    "new-cron/": {"name": "weekly", "function": "jobs.operations.from_crons.submit_job", **_CRON},
    "crons/<cronname:name>/edit/": _CRON | {"arguments_text": '{"name": "y"}'},
    "workers/connect/": {"name": "another", "queues": "chat", "scope": "own"},
    "alerts/rules/new/": _RULE,
    "alerts/rules/<jobid:rule_id>/": _RULE,
    "alerts/rules/<jobid:rule_id>/mute/": {"hours": "4"},
    "outbox/new/": {"name": "new", "url": "https://hooks.example/new", "events": "job.*"},
    "outbox/<int:endpoint_id>/edit/": {"name": "other", "url": "https://hooks.example/other", "events": "job.*"},
    "api/v1/bulk-actions": {"action": "cancel", "filters": {"kind": "chat"}},
    "api/v1/flows": {"template": "nightly", "values": {}},
    "api/v1/jobs/pause": {"owner": "ada"},
    "api/v1/jobs/resume": {"owner": "bob"},
    "api/v1/view-tokens": {"job": "<job_id>"},
    "api/v1/alerts/rules": {"name": "Waits", "condition": "jobs_wait"},
    "api/v1/alerts/rules/<jobid:rule_id>": {"threshold": 1800},
    "api/v1/alerts/rules/<jobid:rule_id>/mute": {"for_s": 3600},
    "api/v1/outbox/endpoints": {"name": "new", "url": "https://hooks.example/new"},
    "api/v1/outbox/endpoints/<int:endpoint_id>": {"name": "other"},
    "limits/reset/": {"name": "<limit>", "key": "<key>"},
    "inbox/sources/<str:name>/": {"grace": "", "secret": "", "name": "second"},
    "inbox/sources/<str:name>/secrets/<jobid:secret_id>/retire/": {"grace": "0"},
    "inbox/<jobid:delivery_id>/start/": {"start": "<start>"},
    "inbox/tokens/": {"sandbox": "box-2"},
    "inbox/tokens/revoke/": {"sandbox": "box-1"},
    "translation/start/": {"document": "One."},
    "game/open/": {"theme": "Weather"},
    "game/join/": {"code": "<code>"},
    "game/paint/": {"prompt": "a castle of cheese"},
    "game/<str:code>/on/": {"step": "<step>"},
    "game/<str:code>/play/": {"submission": "<submission>"},
    "game/<str:code>/name/": {"title": "Monday", "number": "1"},
    "game/<str:code>/guess/": {"title": "1"},
    "chat/": {"name": "Painters"},
    "chat/<jobid:group_id>/say/": {"text": "Hello."},
    "chat/<jobid:group_id>/cancel/": {"answer": "<answer>"},
    "chat/<jobid:group_id>/again/": {"answer": "<answer>"},
    "chat/<jobid:group_id>/remove/": {"message": "<message>"},
    "chat/<jobid:group_id>/instructions/": {"text": "Be brief."},
    "chat/<jobid:group_id>/worker/": {"name": "mine"},
}


def form(pattern: str, names: Mapping[str, Any]) -> Any:
    """The form for this address, or none."""
    return _filled(FORMS.get(pattern, {}), names)


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(each, names) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names) for each in value]
    is_name = isinstance(value, str) and value.startswith("<")
    return names[value[1:-1]] if is_name else value
