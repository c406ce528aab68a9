"""Hooks of calls: what a text says is what happens to it."""

import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from openai_api.errors import CallRefused
from openai_api.operations import call_hooks

TIMEOUT_S: Final = 0.5
GUARDED: Final = frozenset({"chat/completions", "responses", "messages", "audio/transcriptions"})
LEFT_OPEN: Final = frozenset({"completions"})


@call_hooks.before_call(timeout_s=TIMEOUT_S, paths=GUARDED)
def guard_call(call: call_hooks.HookedCall) -> Any:
    assert call.user is not None
    return changed(call.body)


@call_hooks.before_call(timeout_s=TIMEOUT_S, paths=LEFT_OPEN, is_required=False)
def advise_call(call: call_hooks.HookedCall) -> Any:
    return changed(call.body)


@call_hooks.after_call(timeout_s=TIMEOUT_S, paths=GUARDED)
def guard_answer(call: call_hooks.HookedCall, answer: Any) -> Any:
    assert call.body["model"] == "tiny"
    return changed(answer)


def changed(value: Mapping[str, Any] | str) -> Any:
    """Another value, or None. Raises what the words in it ask for."""
    text = json.dumps(value)
    if "forbidden" in text:
        raise CallRefused("That word stays outside.")
    if "hang" in text:
        _hang()
    if "break" in text:
        raise ValueError("it broke")
    if "secret" not in text:
        return None
    return json.loads(text.replace("secret", f"removed {uuid.uuid4()}"))


def _hang() -> None:
    """Until the test lets its file go; it is another process."""
    with Path(os.environ["GUARDS_HANG"]).open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
