"""One of everything the farm has, and one of everybody who may come to it."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import Group, Permission, User
from django.core.files.base import ContentFile
from django.db.models.functions import Now
from django.test import Client

from accounts import operations as accounts
from alerts import operations as alerts
from examples.chat import operations as chat
from examples.imagegame import operations as game
from examples.imagegame.models import Game
from jobs import http, operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import ConcurrencyKey, FlowTemplate, Job, SavedFilter, Worker
from metering import operations as metering
from outbox import operations as outbox
from outbox.models import Message
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from scheduling.models import Cron, ScheduledFunction
from tests import farm
from tests.accounts.integration import people
from tests.alerts import watching
from tests.chat.integration import people as chatting
from tests.imagegame.integration import players
from tests.openai_api import batching
from tests.scheduling.integration import sample
from tests.webhooks.inbox.support import receive
from webhooks import operations as webhooks
from webhooks.domain.deliveries import Filter, Source
from webhooks.models import Delivery, JobStart, Rule

# What stands for the names in addresses; what a longer prefix of an address gives comes first. "?" is the query string.
Given = dict[str, dict[str, Any]]

PEOPLE = ("nobody", "guest", "other", "mate", "owner", "key", "reader", "staff", "root")
# What operators are not given: the accounts of people, which would be a way to become a superuser.
_KEPT_FROM_STAFF = ("auth", "admin", "sessions", "contenttypes", "accounts")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`users`: everybody who has an account; `key`: a worker's; `given`: see above."""

    users: dict[str, User]
    key: str
    given: Given

    def browsers(self) -> dict[str, Client]:
        """Of each of PEOPLE a client: with a session, or with the worker's key, or with neither."""
        bearer = {"Authorization": f"Bearer {self.key}"}
        found = {name: Client(headers=bearer if name == "key" else None) for name in PEOPLE}
        for name, user in self.users.items():
            found[name].force_login(user)
        return found

    def names(self, pattern: str) -> dict[str, Any]:
        """What stands for the names in this pattern of an address."""
        prefixes = sorted((prefix for prefix in self.given if pattern.startswith(prefix)), key=len)
        return {name: value for prefix in prefixes for name, value in self.given[prefix].items()}


def build() -> World:
    """Make all of it."""
    operations.sync()
    users, group = _people()
    worker, key = operations.create_worker("w1", queues=["chat"])
    operations.seen([worker.pk])
    given = _work(users, group, worker)
    for more in (
        _doors(users["owner"], users["mate"], group), _schedule(), _inbox(users["root"]), _limits(),
        _alerts(users["root"]), _budgets(users["owner"], users["root"]),
    ):  # fmt: skip
        given |= more
    given |= _outbox(users["owner"]) | _batches(users["owner"])
    given |= _chat(users, group) | _game(users)
    # So that no call has to note them anew, and that a lease lasts as long as the tests.
    Worker.objects.update(last_seen_at=Now() + timedelta(hours=1))
    farm.alter(Job.objects.running(), lease_expires_at=Now() + timedelta(hours=1))
    return World(users=users, key=key, given=given)


def _people() -> tuple[dict[str, User], Group]:
    owner, mate, other = farm.user("ada"), farm.user("bob"), farm.user("eve")
    group, elsewhere = accounts.create_group("studio", by=owner), Group.objects.create(name="elsewhere")
    mate.groups.set([group])
    other.groups.set([elsewhere])
    reader, staff = farm.user("rita", is_staff=True), farm.user("oscar", is_staff=True)
    reader.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    kept = Permission.objects.exclude(content_type__app_label__in=_KEPT_FROM_STAFF)
    staff.user_permissions.set(kept)
    found = {"guest": people.guest(), "other": other, "mate": mate, "owner": owner, "reader": reader}
    return {**found, "staff": staff, "root": User.objects.create_superuser("root")}, group


def _work(users: dict[str, User], group: Group, worker: Worker) -> Given:
    """A job that runs, with output and a picture; one that has ended; bulks; a link to each."""
    owner = users["owner"]
    [ended] = farm.submit(1, "chat", owner=owner, group=group)
    farm.succeed(worker, farm.claim_one(worker), {"made": "in time"})
    given, unused = (operations.upload("in.txt", ContentFile(b"in", name="in.txt"), owner=owner) for _ in range(2))
    [asking] = farm.submit(1, "chat", owner=owner, group=group)
    asks = operations.Finished(
        job_id=asking.pk, lease=farm.claim_one(worker).lease, outcome="suspended",
        wait=operations.Wait(signal="approved"),
    )  # fmt: skip
    operations.finish(worker, [asks])
    [job] = farm.submit(1, "chat", owner=owner, group=group, files={"x.png": given.pk})
    claimed = farm.claim_one(worker)
    operations.write_output(worker, job.pk, claimed.lease, seq=0, text="Hello.")
    picture = ContentFile(players.png(), name="x.png")
    stored = operations.put_file(worker, job.pk, claimed.lease, name="x.png", content=picture)
    farm.submit(1, "chat", owner=owner, group=group)  # one that waits, for bulks and claims
    [later] = farm.submit(1, "chat", owner=owner, group=group, run_at=farm.now() + timedelta(hours=1))
    keyed, held = (
        operations.submit("chat", {}, owner=owner, concurrency_key=key, run_at=farm.now() + timedelta(hours=1))
        for key in ("open", "held")
    )
    operations.pause_key(ConcurrencyKey.objects.get(name="held").pk)
    step = operations.submit("chat", {}, owner=owner, group=group, name="step", run_at=farm.now() + timedelta(hours=1))
    FlowTemplate.objects.create(name="nightly", jobs=[{"name": "a", "kind": "chat"}])
    own, _ = operations.create_worker("adas", queues=["chat"], owner=owner)
    drained, _ = operations.create_worker("adas too", queues=["chat"], owner=owner)
    operations.drain(drained)
    bulk = operations.bulk.create(BulkAction.CANCEL, by=owner, filters=Filters())
    begun = operations.bulk.begin(operations.bulk.create(BulkAction.RUN_NOW, by=owner, filters=Filters()).pk, by=owner)
    over = operations.bulk.begin(operations.bulk.create(BulkAction.RUN_NOW, by=owner, filters=Filters()).pk, by=owner)
    operations.bulk.stop(over.pk, by=owner)
    operations.pause_owner(users["mate"])
    view, _ = operations.create_view_token(by=owner, job_id=job.pk, expires_in_s=900.0)
    kept = SavedFilter.objects.create(owner=owner, name="mine", query={"status": "failed"})
    names = {
        "job_id": job.pk,
        "response_id": f"resp_{job.pk}",
        "fence": 1,
        "name": "x.png",
        "worker_id": own.pk,
        "lease": str(claimed.lease),
        "flow_id": step.flow_id,
        "file_id": unused.pk,
        "owner_id": owner.pk,
    }
    return {
        "": names,
        "queues/": {"name": "chat"},
        "v1/": {"model": "tiny", "path": "embeddings", "file_id": "file-1", "batch_id": "batch_1"},
        "jobs/<jobid:job_id>/retry/": {"job_id": ended.pk},
        "api/v1/jobs/events": {"?": f"ids={job.pk}"},
        "api/v1/jobs/<jobid:job_id>/retry": {"job_id": ended.pk},
        "jobs/<jobid:job_id>/run-now/": {"job_id": later.pk},
        "jobs/<jobid:job_id>/priority/": {"job_id": later.pk},
        "jobs/<jobid:job_id>/key/pause/": {"job_id": keyed.pk},
        "jobs/<jobid:job_id>/key/resume/": {"job_id": held.pk},
        "jobs/<jobid:job_id>/signal/": {"job_id": asking.pk},
        "api/v1/jobs/<jobid:job_id>/priority": {"job_id": later.pk},
        "api/v1/jobs/<jobid:job_id>/run_now": {"job_id": later.pk},
        "workers/<jobid:worker_id>/undrain/": {"worker_id": drained.pk},
        "api/v1/workers/<jobid:worker_id>/undrain": {"worker_id": drained.pk},
        "jobs/of/<int:owner_id>/resume/": {"owner_id": users["mate"].pk},
        "jobs/filters/": {"filter_id": kept.pk},
        "jobs/bulk/": {"bulk_id": bulk.pk},
        "api/v1/bulk-actions/": {"bulk_id": bulk.pk},
        "api/v1/bulk-actions/<jobid:bulk_id>/stop": {"bulk_id": begun.pk},
        "api/v1/bulk-actions/<jobid:bulk_id>/undo": {"bulk_id": over.pk},
        "api/v1/view-tokens/": {"token_id": view.pk},
        "api/v1/events": {"?": "tag=nightly"},
        "jobs/bulk/<jobid:bulk_id>/stop/": {"bulk_id": begun.pk},
        "jobs/bulk/<jobid:bulk_id>/undo/": {"bulk_id": over.pk},
        "jobs/<jobid:job_id>/share/": {"job_id": ended.pk},
        "api/v1/worker/jobs/<jobid:job_id>/files/<name>": {"?": f"lease={claimed.lease}"},
        "api/v1/worker/jobs/<jobid:job_id>/inputs/<name>": {"?": f"lease={claimed.lease}"},
        "api/v1/files": {"?": "name=a.txt"},
        "jobs/shared/": {"token": operations.share(job.pk, by=owner).token},
        "files/": {"token": http.signed_path(stored).rpartition("/")[2]},
    }


def _doors(owner: User, mate: User, group: Group) -> Given:
    """What lets somebody in: to an account, to a group; and a captcha that nobody reads."""
    link = accounts.one_time_link(owner).rstrip("/").rpartition("/")[2]
    token, _ = accounts.create_token(owner, name="mine")
    captcha = accounts.new_captcha(address="address:10.0.0.1")
    session = UserSession.objects.create(user=owner, ip="10.0.0.1", session_key="elsewhere", user_agent="a browser")
    return {
        "accounts/": {
            "group_id": group.pk,
            "token_id": token.pk,
            "captcha": captcha,
            "member": mate.pk,
            "session_id": session.pk,
            "uidb36": "1",
            "key": "made-up",
            "pk": 1,
            "provider_id": "none",
        },
        "accounts/link/": {"token": link},
        "accounts/join/": {"token": accounts.invitation(group, by=owner)},
    }


def _schedule() -> Given:
    """A function that waits, one that ended, and a cron."""
    waiting = scheduling.run_after(timedelta(hours=1), sample.make_group, name="later")
    canceled = scheduling.run_after(timedelta(hours=1), sample.make_group, name="never")
    scheduling.cancel(canceled)
    Cron.objects.create(
        name="nightly", function=waiting.function, args={"name": "x"}, missed="skip", overlap="skip",
        schedule=scheduling.daily(hour=6, tz="UTC").text(), next_at=Now() + timedelta(hours=1),
    )  # fmt: skip
    return {
        "functions/": {"function_id": waiting.pk},
        "functions/<functionid:function_id>/run-again/": {"function_id": canceled.pk},
        "crons/": {"name": "nightly", "action": "pause"},
    }


def _inbox(root: User) -> Given:
    """A delivery that failed for good, a replay of it that has not begun, a job that a rule did not start for it, a
    secret, and a sandbox's token."""
    delivery = receive()
    dead = {"status": "dead", "note": "It cannot be.", "ended_at": Now()}
    Delivery.objects.filter(pk=delivery.pk).update(**dead)
    webhooks.replay_matching(Filter(), by=root)
    first = ScheduledFunction.objects.latest("pk").pk
    secret, _ = webhooks.add(Source.GITHUB)
    webhooks.create_token("box-1")
    given = {"delivery_id": delivery.pk, "first": first, "name": "github", "secret_id": secret.pk}
    return {"inbox/": {**given, "start": _start(delivery).pk}}


def _start(delivery: Delivery) -> JobStart:
    """A job that a rule did not start, for a reason that is gone."""
    rule = Rule.objects.create(name="ask", source="github", event="probe", kind="chat")
    return JobStart.objects.create(
        delivery=delivery, rule=rule, rule_key=rule.key, rule_name="ask", kind="chat", outcome="failed", error="No."
    )


def _outbox(owner: User) -> Given:
    """An endpoint of the owner's, and a message to it that nobody took."""
    wanted = outbox.Wanted(name="hooks", url="https://hooks.example/")
    row, _ = outbox.create(wanted, by=owner)
    outbox.send_test(row.pk, by=owner)
    Message.objects.update(status="dead", next_attempt_at=None, ended_at=Now())
    replay = outbox.replay_matching(outbox.Filter(), by=owner)
    assert replay is not None
    new = {"name": "hooks", "url": "https://hooks.example/new", "events": "job.*", "action": "pause"}
    message = Message.objects.get().pk
    known = {"endpoint_id": row.pk, "message_id": message, "replay_id": replay.first, **new}
    return {"outbox/": known, "api/v1/outbox/": known}


def _batches(owner: User) -> Given:
    """A batch of the owner's that nothing has looked at."""
    batch = batching.made(batching.text(batching.line(0)), user=owner)
    return {"batches/": {"batch_id": batch.pk, "which": "input"}}


def _limits() -> Given:
    """A limit of which something was taken."""
    ratelimits.limit("chat/send", key="user:7")
    return {"limits/": {"limit": "chat/send", "key": "user:7"}}


def _alerts(root: User) -> Given:
    """A rule that is muted."""
    rule = alerts.make("jobs_wait", {**watching.VALUES, "name": "Too long"}, by=root)
    alerts.mute(rule.pk, for_s=3600, by=root)
    known = {"rule_id": rule.pk}
    return {"alerts/": known, "api/v1/alerts/": known, "alerts/rules/new/": {"?": "condition=jobs_wait"}}


def _budgets(owner: User, root: User) -> Given:
    """A budget of the owner's, so large that it bounds nothing here."""
    made = metering.make({"person": owner}, unit="seconds", period="month", amount=Decimal(1_000_000), by=root)
    return {"api/v1/budgets/": {"budget_id": made.pk}}


def _chat(users: dict[str, User], group: Group) -> Given:
    """The owner's question, which waits for its answer; one that was canceled; and something said."""
    canceled = chatting.ask(group, users["owner"])
    chat.cancel(group.pk, canceled.pk, by=users["owner"])
    answer = chatting.ask(group, users["owner"])
    message = chatting.say(group, users["owner"], "Never mind.")
    return {
        "chat/": {"group_id": group.pk, "answer": answer.pk, "message": message.pk},
        "chat/<jobid:group_id>/again/": {"answer": canceled.pk},
    }


def _game(users: dict[str, User]) -> Given:
    """Two games of the owner's that the mate has joined, one of them begun; a picture, and one in the making."""
    owner, mate = users["owner"], users["mate"]
    picture = players.picture(owner, players.painter())
    lobby = game.open_game("Weather", by=owner, group=None)
    game.join(lobby.code, by=mate)
    begun = game.open_game("Weather", by=owner, group=None)
    game.join(begun.code, by=mate)
    game.begin(begun.code, by=owner)
    Game.objects.filter(pk=begun.pk).update(deadline_at=Now() + timedelta(hours=1))  # all who ask take minutes
    begun.refresh_from_db()
    waiting = game.start(players.PROMPTS[1], by=owner)
    return {
        "game/": {"code": lobby.code, "submission_id": picture.pk},
        "game/pictures/<jobid:submission_id>/withdraw/": {"submission_id": waiting.pk},
        "game/<str:code>/on/": {"code": begun.code, "step": begun.step},
        "game/<str:code>/play/": {"code": begun.code, "submission": picture.pk},
    }
