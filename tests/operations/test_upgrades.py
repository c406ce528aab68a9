"""A farm of the first migrations, in the middle of its work, is brought to this version and goes on."""

import hashlib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.test import Client

from accounts import operations as accounts
from accounts.models import AuditLine
from jobs import operations
from jobs.domain.leases import Lease
from jobs.models import Job, Worker
from ratelimits import operations as ratelimits
from scheduling.domain.calls import Kind
from scheduling.models import ScheduledFunction
from scheduling.operations import clusters
from tests import farm
from tests.operations.databases import empty_database, on
from webhooks.models import Delivery

WITH_ROWS = ("accounts", "jobs", "ratelimits", "scheduling", "webhooks")
KEY = "jft_of-a-farm-of-the-first-migrations"
SECRET = uuid.UUID("0123456789abcdef0123456789abcdef")


@pytest.mark.landing
@pytest.mark.django_db(transaction=True)
class TestAnUpgrade:
    def test_keeps_everything_and_the_farm_goes_on(self) -> None:
        with empty_database() as name, on(name):
            executor = MigrationExecutor(connection)
            first = [node for node in executor.loader.graph.nodes if node[0] in WITH_ROWS and node[1] == "0001_initial"]
            executor.migrate(first)
            held, ended = _filled(executor.loader.project_state(first).apps)
            call_command("migrate", interactive=False, verbosity=0)
            call_command("migrate", check_unapplied=True, interactive=False, verbosity=0)
            _lets_people_in()
            _goes_on(held, ended)


def _filled(old: Any) -> tuple[int, int]:
    """Rows of every app, by the models of then; the job that is held, and one that ended."""
    ada = old.get_model("auth", "User").objects.create(
        username="ada", is_active=True, is_staff=True, email="Ada@example.com", password=make_password(farm.PASSWORD)
    )
    ada.groups.add(old.get_model("auth", "Group").objects.create(name="painters"))
    old.get_model("accounts", "ApiToken").objects.create(
        user=ada, name="ci", key_hash=hashlib.sha256(KEY.encode()).hexdigest(), key_hint=KEY[:8]
    )
    jobs = old.get_model("jobs", "Job").objects
    old.get_model("jobs", "Queue").objects.create(name="work")
    old.get_model("jobs", "Kind").objects.create(name="work", queue="work")
    worker = old.get_model("jobs", "Worker").objects.create(
        name="box", queues=["work"], key_hash="0" * 64, key_hint="jfw_00"
    )
    now = farm.now()
    common = {"kind": "work", "queue": "work"}
    ran = {"worker_id": worker.pk, "worker_name": "box", "claimed_at": now, "fence": 1, "confirmed_fence": 1}
    ended, waiting, held = (jobs.create(**common, owner_id=ada.pk, payload={"n": n}) for n in range(3))
    with connection.cursor() as cursor:
        cursor.execute("SELECT jobs_enter('work', 0::smallint, %s, NULL, NULL, '{}', now())", [ada.pk])
        [(lane,)] = cursor.fetchall()
    lives = old.get_model("jobs", "Live").objects
    lives.create(job_id=waiting.pk, **common, owner_id=ada.pk, lane_id=lane)
    lease = {"lease_secret": SECRET, "lease_expires_at": now + timedelta(hours=1)}
    lives.create(job_id=held.pk, **common, owner_id=ada.pk, lane_id=lane, **ran, **lease)
    old.get_model("jobs", "Outcome").objects.create(
        job_id=ended.pk, **common, **ran, status="success", attempt=1, ended_at=now, result={"made": 1}
    )
    _filled_function(old, now)
    old.get_model("webhooks", "Delivery").objects.create(
        source="github", delivery_id="d-1", event_type="push", body=b"{}", body_bytes=2,
        body_sha256=hashlib.sha256(b"{}").digest(),
    )  # fmt: skip
    old.get_model("ratelimits", "Bucket").objects.create(
        name="spent", key="", shard=0, shards=1, is_window=False, rate=1, period_ms=86_400_000, most=1, value=0,
        ts=int(now.timestamp() * 1000), used=1,
    )  # fmt: skip
    return held.pk, ended.pk


def _filled_function(old: Any, now: Any) -> None:
    function = old.get_model("scheduling", "ScheduledFunction").objects.create(
        function="tests.scheduling.integration.sample.make_group", kind="mutation", args={"name": "after"}
    )
    old.get_model("scheduling", "Due").objects.create(
        function_id=function.pk, kind="mutation", queue="default", priority=0, run_at=now, next_at=now
    )


def _lets_people_in() -> None:
    """By what they had: their password, their token; with their groups and their address, which nobody has proved."""
    browser = Client()
    answer = browser.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    ada = accounts.token(KEY).user
    assert (ada.username, ada.is_staff, [group.name for group in accounts.groups_of(ada)]) == (
        "ada",
        True,
        ["painters"],
    )
    [address] = EmailAddress.objects.filter(user=ada)
    assert (address.email, address.verified, address.primary) == ("ada@example.com", False, True)
    assert AuditLine.objects.get(event="log_in").by == ada


def _goes_on(held: int, ended: int) -> None:
    worker = Worker.objects.get(name="box")
    assert Job.objects.get(pk=ended).result == {"made": 1}
    finished = operations.Finished(
        job_id=held, lease=Lease(fence=1, secret=SECRET), outcome="success", result={"made": 2}
    )
    assert operations.finish(worker, [finished]) == ["success"]
    claimed = farm.claim_one(worker)
    assert (claimed.attempt, claimed.payload) == (1, {"n": 1})
    assert farm.succeed(worker, claimed) == "success"
    operations.submit("work", {}, owner=User.objects.get(username="ada"))
    assert farm.claim_one(worker).id > claimed.id
    assert clusters.run_due(kinds=[Kind.MUTATION]) == 1
    assert ScheduledFunction.objects.get().status == "success"
    assert bytes(Delivery.objects.get().body) == b"{}"
    assert not ratelimits.limit("spent", config=ratelimits.TokenBucket(rate=1, period=timedelta(days=1)))
