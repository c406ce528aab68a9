"""What is wrong with this farm, and what to do about it: the checks behind `manage.py doctor` and /health/ready."""

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from django.conf import settings
from django.core.files.storage import storages
from psycopg import sql

from alerts import queries as alerts
from core.commands import MANAGE
from jobfarm import database_health, job_health, presence
from jobfarm.bounds import CHECKED_WITHIN_S, UNREACHABLE, bounded
from jobfarm.findings import Check, Finding, Level
from jobs.queries import reads
from outbox import operations as outbox
from postgres import clock, connections, deadline, statements
from scheduling import operations as scheduling
from scheduling.domain.schedules import Source
from scheduling.models import Cron
from webhooks import operations as webhooks

_UNKNOWN_S = 3600.0  # of an alert rule: a farm that starts knows within minutes
_MOST_UNKNOWN = 500
NOTICED_WITHIN_S = 5.0  # DESIGN promise 5
SKEW_S = 2.0
NOTIFICATION_WITHIN_S = 2.0
REDIS_WITHIN_S = 1.5


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
            level=Level.WARNING,
            sentence=f"This machine's clock and the database's differ by {skew:.1f} s.",
            remedy="Jobs use the database's clock. Synchronize this machine by NTP, or times on pages look wrong.",
        )


def janitor() -> Iterator[Finding]:
    """Whether a janitor is there, and leases that run out are noticed."""
    yield from presence.janitors()
    late = reads.overdue_s()
    if late > NOTICED_WITHIN_S:
        yield Finding(
            level=Level.ERROR,
            sentence=f"A job in progress is {late:.0f} s past its lease, and no janitor has ended it.",
            remedy=f"The janitors' log says what fails; if none runs, start {MANAGE} janitor.",
        )


def scheduler() -> Iterator[Finding]:
    """Whether scheduled functions run, and what came of them in the last day."""
    facts = scheduling.health()
    for role in facts.missing_roles():
        yield _no_cluster(role)
    if not facts.missing_roles():
        yield Finding(level=Level.FINE, sentence=f"Clusters that run scheduled functions: {len(facts.clusters)}.")
    if facts.late:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Scheduled functions that are late: {facts.late:,}, the oldest by {facts.oldest_late_s:.0f} s.",
            remedy="Start more clusters, or more processes with --workers, for the functions that are late.",
        )
    yield from _crons(facts)
    if facts.colliding:
        worst = facts.colliding[0]
        yield Finding(
            level=Level.WARNING,
            sentence=f"Mutations that keep colliding: {len(facts.colliding)}; most often {worst.function} "
            f"#{worst.id}: {worst.collisions} runs, last at {worst.statement[:100]}",
            remedy="Let it touch fewer rows, and find them by an index. If it never succeeds, it ends as failed.",
        )
    if facts.frozen:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Clusters that froze within a day and were replaced: {facts.frozen:,}.",
            remedy="The page of crons says when. Causes are lack of memory, or a machine that was suspended.",
        )
    if facts.unknown:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Actions with an unknown outcome within a day: {facts.unknown:,}.",
            remedy="Their processes died. Check each on the page of functions, and repeat those that may happen twice.",
        )


def _crons(facts: scheduling.Health) -> Iterator[Finding]:
    """Crons that do not fire. The sentences name those of code; what people called theirs is for the remedies."""
    if facts.overdue and facts.clusters:  # without any, that is the fault
        yield Finding(
            level=presence.absence(),
            sentence=f"Crons that should have fired a minute ago: {_named_to_strangers(facts.overdue)}.",
            remedy=f"The clusters' log says what fails. Overdue: {', '.join(cron.name for cron in facts.overdue)}.",
        )
    if facts.unfirable:
        reasons = "; ".join(f"{cron.name}: {cron.pause_reason}" for cron in facts.unfirable)
        yield Finding(
            level=Level.WARNING,
            sentence=f"Crons that were paused because they could not be fired: {_named_to_strangers(facts.unfirable)}.",
            remedy=f"Fix the cause, then resume each on its page, or remove it. {reasons}",
        )


def _named_to_strangers(crons: Sequence[Cron]) -> str:
    names = [cron.name for cron in crons if cron.source == Source.CODE]
    others = len(crons) - len(names)
    return ", ".join([*names, *([f"{others} made or changed by people"] if others else [])])


def _no_cluster(role: str) -> Finding:
    if presence.is_starting():
        return Finding(level=Level.STARTING, sentence=f"No cluster for {role} has reported yet.")
    return Finding(
        level=Level.ERROR,
        sentence=f"No cluster for {role} runs: no {role[:-1]} is run, however long it has been due.",
        remedy=f"Start {MANAGE} cluster --{role} ({MANAGE} farm does).",
    )


def _webhooks() -> Iterator[Finding]:
    facts = webhooks.health()
    if facts.needs_secret:
        # Fine: most farms are sent webhooks by one or two of the adapters, a new one by none.
        named = ", ".join(source.label for source in facts.needs_secret)
        yield Finding(level=Level.FINE, sentence=f"Webhooks that are refused because they have no secret: {named}.")
    if facts.unreadable:
        named = ", ".join(source.label for source in facts.unreadable)
        yield Finding(
            level=Level.ERROR,
            sentence=f"SECRET_KEY cannot decrypt the secrets of these sources, so their webhooks are refused: {named}.",
            remedy="Set the SECRET_KEY that they were stored under, or add them again.",
        )
    if facts.late:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Webhook deliveries that should have been processed a minute ago: {facts.late:,}.",
            remedy="Check that a cluster for mutations runs; the inbox says what they are waiting for.",
        )
    if facts.dead:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Dead letters (webhook deliveries whose attempts all failed): {facts.dead:,}.",
            remedy="The inbox says why each failed. Fix the cause, then replay them.",
        )
    if facts.rejected:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Webhook deliveries of the last day without a field that their handler needs: "
            f"{facts.rejected:,}.",
            remedy="The inbox names the field. Fix the sender or the handler, then replay them.",
        )
    if facts.unstarted:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Jobs that webhooks of the last day should have started but did not: {facts.unstarted:,}.",
            remedy="The administration says why under Job starts. Fix the cause, then start them there.",
        )


def _outbox() -> Iterator[Finding]:
    facts = outbox.health()
    if facts.is_late:
        yield Finding(
            level=presence.absence(),
            sentence=f"A message of the outbox should have been sent {facts.oldest_due_s:.0f} s ago.",
            remedy=f"Janitors send them ({MANAGE} janitor): the log of one that runs says what fails, and more of them "
            "send more.",
        )
    if facts.paused:
        yield Finding(
            level=Level.WARNING,
            sentence=f"Endpoints of the outbox that were paused because every attempt failed: {facts.paused}.",
            remedy="Their pages say what the receivers answered. Resume them when that is fixed: events are kept.",
        )
    if facts.failing:
        lines = [
            f"{one.name} since {one.failing_since:%Y-%m-%d %H:%M} UTC: {one.last_failure}" for one in facts.failing
        ]
        yield Finding(
            level=Level.WARNING,
            sentence=f"Endpoints of the outbox that take nothing: {len(lines)}.",
            remedy="Their pages show each attempt: mend the receiver, or pause or disable the endpoint. "
            f"Longest: {'; '.join(lines[:3])}",
        )
    if facts.unreadable:
        yield Finding(
            level=Level.ERROR,
            sentence="Endpoints of the outbox with no secret that SECRET_KEY can decrypt, so nothing is sent to them: "
            f"{facts.unreadable}.",
            remedy="Set the SECRET_KEY that they were stored under, or rotate their secrets.",
        )


def _rules() -> Iterator[Finding]:
    for name, why in webhooks.broken_rules().items():
        yield Finding(
            level=Level.WARNING,
            sentence=f"The rule {name} starts no job when a webhook comes. {why}",
            remedy="Fix it in the administration, under Rules, or in its app's code.",
        )


def _alerts() -> Iterator[Finding]:
    """Alert rules of which nothing is known for long: nobody gets a message of them."""
    unknown = alerts.unknown(for_s=_UNKNOWN_S, limit=_MOST_UNKNOWN)
    if unknown:
        listed = "; ".join(f"{row.name}: {row.unknown}" for row in unknown[:3])
        yield Finding(
            level=Level.WARNING,
            sentence=f"Alert rules of which nothing has been known for an hour: {len(unknown)}.",
            remedy=f"Mend what they watch, or change or disable them. {listed}",
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
            level=Level.WARNING,
            sentence="A notification that the farm sent to itself did not arrive within "
            f"{NOTIFICATION_WITHIN_S:.0f} s.",
            remedy="A pooler in transaction mode drops LISTEN, so whatever waits for it only polls every few "
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
                level=Level.WARNING,
                sentence=f"Redis, which carries live messages, cannot be used: {type(error).__name__}.",
                remedy="Until it can, pages and waiting workers only poll every few seconds. Start it, or check "
                "REDIS_URL; without that variable, messages go through PostgreSQL.",
            )


def _files() -> Iterator[Finding]:
    if settings.FILES_ORIGIN:
        if complaint := getattr(storages["default"], "complaint", lambda: None)():
            sentence = f"The bucket for result files cannot be used: {complaint}"
            yield Finding(level=Level.ERROR, sentence=sentence, remedy="Check FILES_URL and its keys.")
        return
    folder = settings.MEDIA_ROOT
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        yield Finding(level=Level.ERROR, sentence=f"{folder} is not writable.", remedy="Result files go there.")
    elif free < database_health.ROOM_BYTES:
        sentence = f"{folder} has {free >> 20} MiB left."
        yield Finding(level=Level.WARNING, sentence=sentence, remedy="Make room, or lower JOBFARM_RETENTION_DAYS.")


def _settings() -> Iterator[Finding]:
    if settings.DEBUG:
        yield Finding(
            level=Level.WARNING,
            sentence="DEBUG is on.",
            remedy="Error pages reveal settings: unset DEBUG outside development.",
        )


FOUNDATIONS: Mapping[str, Check] = {
    "database": database_health.database, "writes": database_health.writes, "migrations": database_health.migrations,
}  # fmt: skip
CHECKS: dict[Check, str] = {
    janitor: "", presence.web: "", scheduler: "scheduling:functions", _webhooks: "webhooks:inbox",
    _rules: "admin:webhooks_rule_changelist", _outbox: "outbox:endpoints", _alerts: "alerts:list",
    job_health.workers: "jobs:workers", job_health.queues: "jobs:queues", job_health.unconfirmed: "jobs:failures",
    job_health.lanes: "",
    job_health.quotas: "admin:jobs_usage_changelist", job_health.requirement_sets: "jobs:list",
    database_health.snapshots: "", database_health.dead_rows: "",
    _settings: "",
}  # fmt: skip
SURROUNDINGS: tuple[Check, ...] = (
    _clock, _notifications, redis, _files, database_health.disk, database_health.schema, database_health.autovacuum,
    database_health.pooler,
)  # fmt: skip
