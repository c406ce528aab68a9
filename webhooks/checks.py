"""What `manage.py check` says about the rules that apps declare in their code (`webhooks.on`)."""

from collections import Counter
from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  # Django's name for it

from jobs import operations as jobs
from webhooks.handlers import rules

_TWICE = "two rules have this name, so a delivery starts the job of one alone: give one of them another name=."


@register()
def check_rules(**_: Any) -> list[CheckMessage]:
    """Find rules that can start no job (E001), two of one name (E002), and kinds that no code declares (W001)."""
    declared = rules.declared()
    mistakes = [(one.rule.name, one.mistake()) for one in declared]
    names = Counter(one.rule.name for one in declared)
    return [
        *(Error(f"webhooks.on {name!r}: {why}", id="webhooks.E001") for name, why in mistakes if why),
        *(Error(f"webhooks.on {name!r}: {_TWICE}", id="webhooks.E002") for name, count in names.items() if count > 1),
        *(_undeclared(one) for one in declared if one.rule.kind and one.rule.kind not in jobs.declared()),
    ]


def _undeclared(one: rules.Declaration) -> CheckMessage:
    sentence = f"webhooks.on {one.rule.name!r}: no code declares the kind {one.rule.kind!r}."
    hint = "Declare it, or create it with the command `create_kind`; `doctor` says whether it is there."
    return Warning(sentence, hint=hint, id="webhooks.W001")
