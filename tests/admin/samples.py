"""Rows for every table that the administration shows: so many of each as are asked for, and what belongs to them."""

import uuid
from datetime import timedelta
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models
from django.utils import timezone

from accounts import operations as accounts
from accounts.models import ApiToken, AuditLine
from core.administration import registered
from examples.chat.models import Answer, Message
from examples.imagegame.models import Game, Player, Round, Submission
from jobs.models import (
    Attempt,
    Bulk,
    Checkpoint,
    Input,
    Job,
    Kind,
    Live,
    Outcome,
    Queue,
    ResultFile,
    Stage,
    Upload,
    Usage,
    Worker,
)
from metering.models import Budget, Day
from openai_api.models import CallRule
from outbox.models import Endpoint, Event, Message as OutboxMessage
from scheduling.models import ScheduledFunction
from tests import farm
from webhooks.models import Activity, Delivery, DeliveryAttempt, JobStart, Resource

NOW = timezone.now()
_MADE_BY_HAND = {
    User, Group, ApiToken, AuditLine, Job, Attempt, Bulk, Worker, Queue, Kind, Message, Game, Submission, Activity,
    JobStart, Usage, Endpoint, OutboxMessage, Budget, Day, CallRule,
}  # fmt: skip

_ANEW = {  # what must differ from row to row
    "jobs_job": {}, "jobs_attempt": {"number": "nr + 1"}, "scheduling_scheduledfunction": {},
    "webhooks_delivery": {"delivery_id": "md5(nr::text)", "body_sha256": "sha256(nr::text::bytea)"},
    "webhooks_activity": {"delivery_id": "one.delivery_id + 1000000 + nr"},
    "ratelimits_bucket": {"key": "md5(nr::text)"},
}  # fmt: skip
BIG = tuple(_ANEW)


def fill(count: int) -> None:
    """Add `count` rows to every table that has pages in the administration, each with links to others."""
    people = [farm.user(f"p{uuid.uuid4().hex[:8]}") for _ in range(count)]
    for person in people:
        token, _ = accounts.create_token(person, name="ci")
        CallRule.objects.create(token=token, names=["tiny"])
        accounts.create_group(f"group of {person}", by=person)
    _work(people)
    _examples(people)
    _events(people)
    for model in registered():
        if model not in _MADE_BY_HAND:
            model._default_manager.bulk_create([_row(model) for _ in range(count)])
    for delivery in Delivery.objects.order_by("-pk")[:count]:
        DeliveryAttempt.objects.create(
            delivery=delivery, number=1, started_at=NOW, ended_at=NOW, outcome="failed", error="no", traceback="line"
        )
        JobStart.objects.create(
            delivery=delivery, rule_key="rule:1", rule_name="deploy main", kind="chat", outcome="failed", error="no"
        )
        Activity.objects.create(delivery=delivery, n=0, source="github", at=NOW, actor="ada", verb="did", object="it")


def newest_function() -> int:
    """The id of the function that was scheduled last."""
    return ScheduledFunction.objects.values_list("pk", flat=True)[0]


def multiply(count: int) -> None:
    """Make the big tables so large that plans for them are those of large tables, and let the planner know."""
    fill(1)
    with connection.cursor() as cursor:
        for table in BIG:
            cursor.execute("SELECT column_name FROM information_schema.columns WHERE table_name = %s", [table])
            columns = {name for (name,) in cursor.fetchall()} - {"id"}
            given = {name: _ANEW[table].get(name, f"one.{name}") for name in sorted(columns)}
            cursor.execute(
                f"INSERT INTO {table} ({', '.join(given)}) SELECT {', '.join(given.values())} "
                f"FROM (SELECT * FROM {table} ORDER BY id LIMIT 1) AS one, generate_series(1, {count}) AS nr"
            )
            if table == "jobs_job":
                cursor.execute(
                    "INSERT INTO jobs_outcome (job_id, kind, queue, status)"
                    " SELECT id, kind, queue, 'failed' FROM jobs_job"
                    " WHERE NOT EXISTS (SELECT FROM jobs_live WHERE job_id = id)"
                    " AND NOT EXISTS (SELECT FROM jobs_outcome WHERE job_id = id)"
                )
                cursor.execute("ANALYZE jobs_live, jobs_outcome")
            cursor.execute(f"ANALYZE {table}")


def _work(people: list[User]) -> None:
    for n, person in enumerate(people):
        tag = uuid.uuid4().hex[:8]
        worker = farm.worker(f"w{tag}", f"q{tag}", owner=person)
        Kind.objects.create(name=f"k{tag}", queue=f"q{tag}")
        group = person.groups.first()
        chat: dict[str, Any] = {"kind": "chat", "queue": "chat"}
        ended, again, running = (
            Job.objects.create(payload={"n": n}, **chat | more)
            for more in ({"owner": person, "group": group}, {"owner": person, "unique_key": tag}, {})
        )
        Job.objects.filter(pk=again.pk).update(retry_of=ended)
        run: dict[str, Any] = chat | {"claimed_at": NOW, "worker": worker, "worker_name": worker.name, "fence": 1}
        Outcome.objects.create(job=ended, status="failed", ended_at=NOW, failures=1, **run)
        Live.objects.create(job=again, owner=person, **chat)
        Live.objects.create(
            job=running, lease_secret=uuid.uuid4(), lease_expires_at=NOW + timedelta(hours=1), progress=0.5,
            detail="half", **run,
        )  # fmt: skip
        Attempt.objects.create(
            job=ended, number=1, outcome="failed", worker=worker, worker_name=worker.name, claimed_at=NOW,
            ended_at=NOW, error="Traceback\nValueError: no",
        )  # fmt: skip
        Checkpoint.objects.create(job=ended, fence=1, value={"n": n})
        Stage.objects.create(job=ended, attempt=1, number=1, detail="began")
        ResultFile.objects.create(job=ended, attempt=1, name="a.txt", stored_as=tag, size=1, sha256="0" * 64)
        kept = Upload.objects.create(owner=person, name="in.txt", stored_as=tag, size=1, sha256="0" * 64)
        Input.objects.create(job=ended, name="text", upload=kept)
        Bulk.objects.create(by=person, action="cancel", filters={}, top_id=1, next_id=1)
        Usage.objects.create(owner=person, waiting=n, output_bytes=n, files=n, file_bytes=n)
        Budget.objects.create(person=person, unit="tokens", period="day", amount=100)
        Day.objects.create(
            day=NOW.date(), kind="chat", worker=worker, person=person, group=group, attempts=1, seconds=1,
            tokens_in=1, tokens_out=1, cost=0,
        )  # fmt: skip
        LogEntry.objects.create(
            user=person, content_type=ContentType.objects.get_for_model(Job), object_id=str(ended.pk),
            object_repr=str(ended), action_flag=2, change_message="canceled",
        )  # fmt: skip


def _examples(people: list[User]) -> None:
    for person in people:
        group = person.groups.first()
        assert group is not None
        question = Message.objects.create(group=group, role="user", author=person, text="Why?")
        answer = Message.objects.create(group=group, role="assistant", question=question, text="So.")
        job_id = -person.pk
        Answer.objects.create(message=answer, group=group, asker=person, job_id=job_id, state="finished")
        game = Game.objects.create(
            code=uuid.uuid4().hex[:5], host=person, group=group, theme="cats", stage="over", ended_at=NOW
        )
        Player.objects.create(game=game, user=person)
        picture = Submission.objects.create(
            owner=person, prompt="a cat", job_id=job_id, state="saved", file="a.png", attempt=1, ended_at=NOW
        )
        Round.objects.create(game=game, number=0, author=person, submission=picture)


def _events(people: list[User]) -> None:
    for person in people:
        endpoint = Endpoint.objects.create(name="ci", url="https://ci.example/events", owner=person, events=["job.*"])
        event = Event.objects.create(uid=uuid.uuid4(), type="job.failed", subject="job/1", occurred_at=NOW, body="{}")
        OutboxMessage.objects.create(
            event=event, endpoint=endpoint, subject=event.subject, status="dead", attempts=10, ended_at=NOW, note="no"
        )


_GIVEN: dict[str, dict[str, Any]] = {
    "scheduling.ScheduledFunction": {
        "function": "tests.nothing",
        "kind": "mutation",
        "status": "success",
        "ended_at": NOW,
    },
    "webhooks.Delivery": {"source": "github", "status": "dead", "ended_at": NOW, "note": "no", "event_type": "push"},
    "webhooks.Secret": {"source": "github"},
    "webhooks.Refusal": {"source": "github"},
    "jobs.FlowTemplate": {"jobs": [{"name": "a", "kind": "chat"}]},
    "jobs.HealthScore": {"day": NOW.date()},
    "jobs.Weight": {"group": lambda: Group.objects.create(name=f"painters {Group.objects.count()}")},
    "jobs.PausedOwner": {"owner": lambda: User.objects.create(username=str(User.objects.count()), password="x" * 20)},
    "django_q.Success": {"success": True},
    "django_q.Failure": {"success": False},
    "scheduling.Cluster": {"role": "mutations"},
    "ratelimits.Bucket": {"name": "submit", "rate": 1.0, "period_ms": 1000.0, "most": 5.0, "is_window": False},
}


def _row(model: type[models.Model]) -> models.Model:
    """A row with something in every column that needs it, different from all others."""
    given = {name: value() if callable(value) else value for name, value in _GIVEN.get(model._meta.label, {}).items()}
    if issubclass(model, Resource):
        given |= {"type": model.type_name(), "document": {"number": 7, "parent": "8", "title": "It rains"}}
    for field in model._meta.concrete_fields:
        if field.name not in given and not field.generated and not _is_optional(field):
            given[field.name] = _value(field)
    return model(**given)


def _is_optional(field: Any) -> bool:
    has_own = field.has_default() or field.db_default is not models.NOT_PROVIDED
    return bool(field.null or has_own or isinstance(field, models.AutoField))


def _value(field: Any) -> Any:
    if field.choices:
        return next(value for value, _ in field.flatchoices if value != "")
    if isinstance(field, models.GenericIPAddressField):
        return "127.0.0.1"
    if isinstance(field, models.CharField):
        return ("f" + uuid.uuid4().hex * 2)[: field.max_length]  # as long as a SHA-256, without a place to break
    for kind, value in _BY_KIND.items():
        if isinstance(field, kind):
            return value() if callable(value) else value
    raise AssertionError(f"{field} is of a kind that no sample is known of")


_BY_KIND: dict[Any, Any] = {
    models.BooleanField: False,
    models.UUIDField: uuid.uuid4,
    models.TextField: "text",
    models.DateTimeField: NOW,
    models.DateField: NOW.date(),
    models.DecimalField: 1,
    models.FloatField: 1.0,
    models.DurationField: timedelta(seconds=1),
    models.IntegerField: 1,
    models.BinaryField: lambda: uuid.uuid4().bytes,
    models.JSONField: dict,
    models.ForeignKey: None,
}
