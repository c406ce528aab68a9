"""What /health/ready answers: whether this server can serve, and how the farm around it stands."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from jobfarm import health, job_health, presence, scheduler_health
from jobfarm.findings import Check, Finding, Level
from jobfarm.health import UNREACHABLE
from postgres import deadline
from postgres.reachability import explain_unreachable

WORDS = {Level.FINE: "ok", Level.STARTING: "starting", Level.WARNING: "warning", Level.ERROR: "error"}
# What a server can serve without. A load balancer that sent its visitors elsewhere for these would mend nothing.
SURROUNDINGS: Mapping[str, Check] = {
    "janitor": health.janitor, "scheduler": scheduler_health.scheduler, "web": presence.web,
    "queues": job_health.served, "redis": health.redis,
}  # fmt: skip
WITHIN_S: Final = 1.9  # a balancer is promised an answer within 2 s
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`is_ready`: requests can be served. `checks`: of each its status ("ok", "starting", "warning", "error", or
    "skipped" when what it stands on is wrong) and sentences, which name no host, queue, user or password."""

    is_ready: bool
    checks: Mapping[str, Mapping[str, object]]


def check_all() -> Readiness:
    """Run all checks, as far as the database allows, and wait for it WITHIN_S in all. Raises nothing."""
    checks: dict[str, Mapping[str, object]] = {}
    is_ready = True
    with deadline.within(WITHIN_S):
        for name, check in {**health.FOUNDATIONS, **SURROUNDINGS}.items():
            checks[name] = _examined(check) if is_ready else {"status": "skipped"}
            if name in health.FOUNDATIONS and checks[name]["status"] == "error":
                is_ready = False
    return Readiness(is_ready=is_ready, checks=checks)


def _examined(check: Check) -> Mapping[str, object]:
    try:
        return _summary(check())
    except Exception as error:
        why = explain_unreachable(error)
        if why is None:
            log.exception("A health check failed")
            return {"status": "error", "messages": ["This check failed; the log has the details."]}
        log.warning("A health check cannot reach the database: %s", why)
        return {"status": "error", "messages": [UNREACHABLE]}


def _summary(findings: Iterable[Finding]) -> Mapping[str, object]:
    wrong = [finding for finding in findings if finding.level is not Level.FINE]
    worst = max((finding.level for finding in wrong), default=Level.FINE)
    messages = [finding.sentence for finding in wrong]
    return {"status": WORDS[worst], **({"messages": messages} if messages else {})}
