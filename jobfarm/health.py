"""What is wrong with this farm, and what to do about it: the checks behind `manage.py doctor` and /health/ready. None
ends in a traceback or hangs: what goes wrong with one is a finding like any other."""

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.core.files.storage import storages
from django.db import connections as django_connections
from psycopg import sql

from accounts import operations as accounts
from alerts import queries as alerts
from alerts.domain.rules import Unit
from core.commands import MANAGE
from jobfarm import database_health, job_health, message_health, presence, scheduler_health
from jobfarm.findings import Area, Check, Condition, Finding, Gauge, Level, Rule
from jobs.queries import reads
from postgres import clock, connections, deadline, reachability, statements
from postgres.reachability import explain_unreachable
from scheduling.operations.endings import time_limit
from webhooks import operations as webhooks

CHECKED_WITHIN_S: Final = 10.0  # all of them take 20 ms on a farm that is well
UNREACHABLE: Final = "The database does not answer."
_ALARM_LATER_S: Final = 0.5  # the deadline of the database names it
_UNKNOWN_S = 3600.0  # of an alert rule: a farm that starts knows within minutes
_MOST_UNKNOWN = 500
NOTICED_WITHIN_S = 5.0  # promise 5 of docs/promises.md
OVERDUE_S = 10.0  # of a lease: twice that is worth an alert
SKEW_S = 2.0
NOTIFICATION_WITHIN_S = 2.0
REDIS_WITHIN_S = 1.5
FOUNDATIONS: Mapping[str, Check] = {
    "database": database_health.database, "writes": database_health.writes, "migrations": database_health.migrations,
}  # fmt: skip
STATUS_WORDS = {Level.FINE: "ok", Level.STARTING: "starting", Level.WARNING: "warning", Level.ERROR: "error"}
READY_WITHIN_S: Final = 1.9  # a balancer is promised an answer within 2 s
log = logging.getLogger(__name__)


class _TooLong(BaseException):
    """Not an Exception: code that retries what failed must not retry this."""


def bounded(check: Check, *, within_s: float = CHECKED_WITHIN_S) -> list[Finding]:
    """What the check finds; an error if it fails, or takes longer: that of another thread waits no longer for the
    database alone."""
    findings: list[Finding] = []
    name = (check.name if isinstance(check, Area) else check.__name__).strip("_").replace("_", " ")
    try:
        with time_limit(within_s + _ALARM_LATER_S, _TooLong), deadline.within(within_s):
            findings.extend(check())
    except _TooLong:
        django_connections.close_all()
        sentence = f"The check of {name} did not end within {within_s:g} s."
        remedy = "Something that it asks hangs. Look at pg_stat_activity, at the bucket and at Redis."
        findings.append(Finding(sentence, remedy, level=Level.ERROR))
    except Exception as error:
        findings.append(_failure(name, error))
    return findings


def _failure(name: str, error: Exception) -> Finding:
    if why := reachability.explain_unreachable(error):
        return Finding(UNREACHABLE, why, level=Level.ERROR)
    message = str(error).partition("\n")[0]
    return Finding(f"The check of {name} failed: {type(error).__name__}.", message, level=Level.ERROR)


def examine(*, surroundings: Callable[[], Iterable[Finding]] | None = None) -> Iterator[Finding]:
    """Check everything, one finding after the other. Raises the database's error if it cannot be reached at first; a
    check that fails or hangs later is a finding, and the last one if the database is away by then.

    `surroundings` returns the findings of `examine_surroundings` where the caller has them already.
    """
    for foundation in FOUNDATIONS.values():
        with deadline.within(CHECKED_WITHIN_S):
            findings = list(foundation())
        yield from findings
        if any(finding.level is Level.ERROR for finding in findings):
            return  # the others would stumble over the same thing
    for check, page in CHECKS.items():
        findings = [replace(finding, page=finding.page or page) for finding in bounded(check)]
        yield from findings
        if UNREACHABLE in {finding.sentence for finding in findings}:
            return
    yield from surroundings() if surroundings else examine_surroundings()


def examine_surroundings() -> Iterator[Finding]:
    """Check what is not in the database: that may take seconds when something is wrong with it."""
    for check in SURROUNDINGS:
        yield from bounded(check)


def _clock() -> Iterator[Finding]:
    skew = abs((clock.now() - datetime.now(UTC)).total_seconds())  # noqa: TID251 (this is about the machine's clock)
    if skew > SKEW_S:
        yield Finding(
            f"This machine's clock and the database's differ by {skew:.1f} s.",
            "Jobs use the database's clock. Synchronize this machine by NTP, or times on pages look wrong.",
        )


processes: Final = Area(
    name="processes", read=presence.counts, gauges=[
        Gauge(
            "jobfarm_processes", "Web processes and janitors that report themselves.", lambda counts: counts, ["part"]
        ),
    ],
)  # fmt: skip


_Leases = Condition[float]


janitor: Final = Area(
    name="janitor", read=reads.overdue_s, others=lambda _: presence.janitors(),
    gauges=[
        Gauge[float](
            "jobfarm_lease_overdue_seconds",
            "By how much the running job most past its lease is; more than 5: janitors are missing or stuck.",
            lambda overdue_s: overdue_s,
        ),
    ],
    conditions=[
        _Leases(
            code="leases_overdue", read=lambda overdue_s: overdue_s, noticed=NOTICED_WITHIN_S, level=Level.ERROR,
            sentence=lambda s: f"A job in progress is {s:.0f} s past its lease, and no janitor has ended it.",
            remedy=f"The janitors' log says what fails; if none runs, start {MANAGE} janitor.",
        ),
        _Leases(
            code="janitor_away", is_absence=True,
            read=lambda overdue_s: float(presence.counts()["janitor"] < 1 or overdue_s > OVERDUE_S),
            title="No janitor takes back what dead workers held", unit=Unit.PRESENCE,
            rule=Rule(
                "FarmHasNoJanitor",
                f'max(jobfarm_processes{{part="janitor"}}) < 1 or max(jobfarm_lease_overdue_seconds) > {OVERDUE_S:g}',
                "No janitor works: jobs of dead workers hang", severity="critical", lasts="1m",
            ),
        ),
    ],
)  # fmt: skip


def _rules() -> Iterator[Finding]:
    for name, why in webhooks.broken_rules().items():
        yield Finding(
            f"The rule {name} starts no job when a webhook comes. {why}",
            "Fix it in the administration, under Rules, or in its app's code.",
        )


def _alerts() -> Iterator[Finding]:
    """Alert rules of which nothing is known for long: nobody gets a message of them."""
    unknown = alerts.unknown(for_s=_UNKNOWN_S, limit=_MOST_UNKNOWN)
    if unknown:
        listed = "; ".join(f"{row.name}: {row.unknown}" for row in unknown[:3])
        yield Finding(
            f"Alert rules of which nothing has been known for an hour: {len(unknown)}.",
            f"Mend what they watch, or change or disable them. {listed}",
        )


def _second_factors() -> Iterator[Finding]:
    if people := accounts.unreadable_second_factors():
        yield Finding(
            f"People with a second factor that SECRET_KEY cannot decrypt, so no code of theirs fits: {len(people)}.",
            "Set the SECRET_KEY that they were stored under, or take them away in the administration, under Users. "
            f"{', '.join(people[:10])}",
            level=Level.ERROR,
        )


def is_round_trip_done(*, within_s: float) -> bool:
    """Send a notification to ourselves, the way all messages of the farm go: by Django's connection, to one that
    listens by itself. Whether it arrived within so many seconds.

    False behind a pooler in transaction mode when DATABASE_DIRECT_URL does not lead past it, and when that leads to
    another database. Raises psycopg.Error when the listening side cannot connect.
    """
    channel = f"jobfarm_doctor_{uuid.uuid4().hex}"
    with connections.listening(application_name="jobfarm doctor") as listener:
        listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        statements.load("jobfarm", "hello").run({"channel": channel})
        channels = [notify.channel for notify in listener.notifies(timeout=within_s, stop_after=1)]
        listener.execute("UNLISTEN *")  # a pooler may give this session to others
    return channels == [channel]


def _notifications() -> Iterator[Finding]:
    if not is_round_trip_done(within_s=NOTIFICATION_WITHIN_S):
        yield Finding(
            f"A notification that the farm sent to itself did not arrive within {NOTIFICATION_WITHIN_S:.0f} s.",
            "A pooler in transaction mode drops LISTEN, so whatever waits for it only polls every few "
            "seconds: set DATABASE_DIRECT_URL to the same database, bypassing the pooler.",
        )


def redis() -> Iterator[Finding]:
    """Whether the Redis answers that carries live messages, if there is one."""
    hosts = settings.CHANNEL_LAYERS["default"].get("CONFIG", {}).get("hosts", [])
    if not hosts:
        return
    from redis import Redis, RedisError  # noqa: PLC0415 (most farms have none, and it is 60 ms of each start)

    for host in hosts:
        within = {"socket_connect_timeout": REDIS_WITHIN_S, "socket_timeout": REDIS_WITHIN_S}
        try:
            with Redis.from_url(host["address"], **within) as client:
                client.ping()
        except RedisError as error:
            yield Finding(
                f"Redis, which carries live messages, cannot be used: {type(error).__name__}.",
                "Until it can, pages and waiting workers only poll every few seconds. Start it, or check "
                "REDIS_URL; without that variable, messages go through PostgreSQL.",
            )


def _files() -> Iterator[Finding]:
    if settings.FILES_ORIGIN:
        if complaint := getattr(storages["default"], "complaint", lambda: None)():
            sentence = f"The bucket for result files cannot be used: {complaint}"
            yield Finding(sentence, "Check FILES_URL and its keys.", level=Level.ERROR)
        return
    folder = settings.MEDIA_ROOT
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        yield Finding(f"{folder} is not writable.", "Result files go there.", level=Level.ERROR)
    elif free < database_health.ROOM_BYTES:
        sentence = f"{folder} has {free >> 20} MiB left."
        yield Finding(sentence, "Make room, or lower JOBFARM_RETENTION_DAYS.")


def _settings() -> Iterator[Finding]:
    if settings.DEBUG:
        yield Finding("DEBUG is on.", "Error pages reveal settings: unset DEBUG outside development.")


CHECKS: dict[Check, str] = {
    janitor: "", presence.web: "", presence.errors: "", scheduler_health.scheduler: "scheduling:functions",
    message_health.inbox: "webhooks:inbox", _rules: "admin:webhooks_rule_changelist",
    message_health.events: "outbox:endpoints", _alerts: "alerts:list",
    job_health.workers: "jobs:workers", job_health.queues: "jobs:queues", job_health.unconfirmed: "jobs:failures",
    job_health.lanes: "",
    job_health.quotas: "admin:jobs_usage_changelist", job_health.requirement_sets: "jobs:list",
    database_health.snapshots: "", database_health.dead_rows: "",
    _second_factors: "admin:auth_user_changelist", _settings: "",
}  # fmt: skip
SURROUNDINGS: tuple[Check, ...] = (
    _clock, _notifications, redis, _files, database_health.disk, database_health.schema, database_health.autovacuum,
    database_health.pooler,
)  # fmt: skip

# What a server can serve without. A load balancer that sent its visitors elsewhere for these would mend nothing.
AROUND_A_SERVER: Mapping[str, Check] = {
    "janitor": janitor, "scheduler": scheduler_health.scheduler, "web": presence.web,
    "queues": job_health.served, "redis": redis,
}  # fmt: skip


def check_readiness() -> tuple[bool, dict[str, Mapping[str, object]]]:
    """Run all checks, as far as the database allows, and wait for it READY_WITHIN_S in all. Whether requests can be
    served; and of each check its status ("ok", "starting", "warning", "error", or "skipped" when what it stands on is
    wrong) and sentences, which name no host, queue, user or password. Raises nothing."""
    checks: dict[str, Mapping[str, object]] = {}
    is_ready = True
    with deadline.within(READY_WITHIN_S):
        for name, check in {**FOUNDATIONS, **AROUND_A_SERVER}.items():
            checks[name] = _examined(check) if is_ready else {"status": "skipped"}
            if name in FOUNDATIONS and checks[name]["status"] == "error":
                is_ready = False
    return is_ready, checks


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
    return {"status": STATUS_WORDS[worst], **({"messages": messages} if messages else {})}
