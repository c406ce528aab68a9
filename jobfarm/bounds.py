"""Checks that never end in a traceback and never hang: what goes wrong with one is a finding like any other."""

from typing import Final

from django.db import connections

from jobfarm.conditions import Area
from jobfarm.findings import Check, Finding, Level
from postgres import deadline, reachability
from scheduling.operations.time_limits import time_limit

CHECKED_WITHIN_S: Final = 10.0  # all of them take 20 ms on a farm that is well
UNREACHABLE: Final = "The database does not answer."
_ALARM_LATER_S: Final = 0.5  # the deadline of the database names it


class _TooLong(BaseException):
    """Not an Exception: code that retries what failed must not retry this."""


def bounded(check: Check, *, within_s: float = CHECKED_WITHIN_S) -> list[Finding]:
    """What the check finds; an error if it fails, or takes longer: that of another thread waits no longer for the
    database alone."""
    findings: list[Finding] = []
    name = _name(check)
    try:
        with time_limit(within_s + _ALARM_LATER_S, _TooLong), deadline.within(within_s):
            findings.extend(check())
    except _TooLong:
        connections.close_all()
        sentence = f"The check of {name} did not end within {within_s:g} s."
        remedy = "Something that it asks hangs. Look at pg_stat_activity, at the bucket and at Redis."
        findings.append(Finding(Level.ERROR, sentence, remedy))
    except Exception as error:
        findings.append(_failure(name, error))
    return findings


def _name(check: Check) -> str:
    return (check.name if isinstance(check, Area) else check.__name__).strip("_").replace("_", " ")


def _failure(name: str, error: Exception) -> Finding:
    if why := reachability.explain_unreachable(error):
        return Finding(Level.ERROR, UNREACHABLE, why)
    message = str(error).partition("\n")[0]
    return Finding(Level.ERROR, f"The check of {name} failed: {type(error).__name__}.", message)
