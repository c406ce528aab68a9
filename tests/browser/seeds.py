"""A farm on which everything has happened: people, jobs in each state, functions, deliveries, a chat, a game.

For the walk through every page and for the pictures in docs/. What pages show is made by the operations that make it
in life, so the words are those of an evening on a real farm.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group, User
from django.core.files.base import ContentFile
from django.db.models.functions import Now
from PIL import Image

from accounts import operations as accounts
from alerts import operations as alerts, operations as alerts_sending
from alerts.models import Notification
from core.templates import MissingValue
from examples.chat import operations as chat
from examples.imagegame import operations as game
from examples.imagegame.models import Game, Submission
from jobs import operations as jobs
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.models import Bulk, FlowTemplate, Job, Worker
from metering import operations as metering
from metering.models import Day, Window
from openai_api.models import Batch, File, Slice
from outbox import operations as outbox
from outbox.models import Attempt, Endpoint, Message
from postgres import clock
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from scheduling.models import Cron, ScheduledFunction
from tests import farm
from tests.accounts.integration import people
from tests.scheduling.integration import sample
from tests.webhook_samples import sample as sample_of
from tests.webhooks.inbox import support as inbox
from webhooks import operations as webhooks
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery, JobStart, Rule
from webhooks.operations import ingest

PROMPTS = ("a lighthouse in a storm", "seven wet dogs", "the moon as a lemon", "a train made of bread")
QUESTIONS = ("Why is the sky blue?", "And at dusk?")
ANSWER = "Air scatters blue light more than red, so blue reaches the eye from all sides. "
TRACEBACK = """Traceback (most recent call last):
  File "transcribe.py", line 31, in transcribe
    sound = decode(job.payload["url"])
  File "sound.py", line 12, in decode
    raise NoSound(f"{url}: 404")
sound.NoSound: https://talks.example/keynote.ogg: 404"""

Paint = Callable[[str], bytes]  # a prompt to the bytes of a PNG


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """What pages are about: whoever looks at them, and one of each thing."""

    boss: User
    member: User
    guest: User
    group: Group
    invitation: str
    link: str  # that logs the member in, once; whoever comes from here has tried too often for today
    flow: int  # with steps of which each stands otherwise
    jobs: dict[str, Job]  # by status; "future" and "tried" (two attempts failed, a third waits) are pending too
    share: str
    worker: Worker
    bulk: Bulk
    functions: dict[str, ScheduledFunction]  # by state
    cron: Cron
    delivery: Delivery
    ignored: Delivery
    rule: Rule
    endpoint: Endpoint
    message: Message
    alert_rule: int
    batch: Batch
    game: Game
    open_game: Game
    picture: Submission


def plain(prompt: str) -> bytes:
    """A small picture in a colour of its own."""
    hue = sum(prompt.encode()) % 256
    file = io.BytesIO()
    Image.new("HSV", (24, 24), (hue, 150, 190)).convert("RGB").save(file, "PNG")
    return file.getvalue()


def seed(*, boss: User | None = None, paint: Paint = plain) -> Farm:
    """Fill an empty farm. `boss` runs it, and is made if not given; `paint` makes the pictures."""
    jobs.sync()
    boss = boss or User.objects.create_superuser("ada", password=farm.PASSWORD)
    member = farm.user("grace")
    group = accounts.create_group("studio", by=boss)
    invitation = accounts.invitation(group, by=boss)
    assert invitation is not None
    accounts.join(invitation, by=member)
    painter = farm.worker("gpu-box", "image")
    pictures = _pictures(boss, painter, paint)
    deliveries = _deliveries(boss)
    played, opened = _games(boss, member)
    endpoint = _endpoint(boss)
    made = _jobs(boss, group)
    steps = [{"name": "split", "kind": "chat"}, {"name": "join", "kind": "chat", "after": ["split"]}]
    FlowTemplate.objects.create(name="translate", placeholders={"document": None, "language": "de"}, jobs=steps)
    rule = _starts(deliveries[0], made)
    _room(group, boss, member)
    ratelimits.limit("log-in", key="user:grace", count=9)
    ratelimits.limit("log-in/link", key="address:127.0.0.1", count=10)
    ratelimits.make("rented api", ratelimits.TokenBucket(rate=60, period=timedelta(minutes=1)))
    share = jobs.share(made["success"].pk, by=boss).token
    bulk = jobs.bulk.create(BulkAction.PRIORITY, by=boss, filters=Filters(kind="transcribe"), value="10")
    functions = _functions()
    jobs.roll_up()
    _usage(boss, member, group)
    return Farm(
        boss=boss, member=member, guest=people.guest(), group=group, invitation=invitation,
        link=accounts.one_time_link(member), jobs=made, share=share, worker=painter, bulk=bulk, functions=functions,
        cron=_cron(), delivery=deliveries[0], ignored=deliveries[1], rule=rule, endpoint=endpoint,
        message=_attempted(endpoint), game=played, open_game=opened,
        picture=pictures[0], alert_rule=_alerts(boss), batch=_batch(boss, made), flow=_flow(boss),
    )  # fmt: skip


def _pictures(by: User, painter: Worker, paint: Paint) -> list[Submission]:
    """Pictures of the game, painted and shown."""
    return [_painted(prompt, by, painter, paint) for prompt in PROMPTS[1:]]


def _painted(prompt: str, by: User, painter: Worker, paint: Paint) -> Submission:
    submission = game.start(prompt, by=by)
    claimed = farm.claim_one(painter)
    _hand_in(painter, claimed, "picture.png", paint(prompt))
    farm.succeed(painter, claimed, {"file": "picture.png", "model": "demonstrator"})
    ratelimits.reset("imagegame/picture", key=f"user:{by.pk}")
    submission.refresh_from_db()
    return submission


def _hand_in(by: Worker, claimed: jobs.ClaimedJob, name: str, data: bytes) -> None:
    jobs.put_file(by, claimed.id, claimed.lease, name=name, content=ContentFile(data, name=name))


def _deliveries(boss: User) -> list[Delivery]:
    """Webhooks that went well, one that nobody handles, and what was refused."""
    for source in (Source.GITHUB, Source.STRIPE):
        webhooks.add(source, name="the first", by=boss)
    push = sample_of("github/push.1.json")
    pushed = inbox.receive(event_type=push.type, body=push.body, delivery_id="0d9f2c1e")
    strange = inbox.receive({"zen": "Keep it logically awesome."}, event_type="strange", delivery_id="77aa01")
    ingest.count_refusals(
        [
            ingest.Refused(
                source=Source.GITHUB,
                reason="bad_signature",
                address="192.0.2.7",
                size=42,
                header_names=["host", "x-hub"],
            )
        ]
    )
    return [pushed, strange]


def _starts(delivery: Delivery, made: dict[str, Job]) -> Rule:
    """A rule whose delivery started a job, once more with a replay, stands behind another, and failed once."""
    fits = {"body.ref": {"prefix": "refs/"}}
    payload = {"url": "{{ body.repository.html_url }}", "language": "{{ body.repository.language? }}"}
    rule = Rule.objects.create(
        name="transcribe what is pushed", source="github", event="push", filter=fits, kind="transcribe", payload=payload
    )
    given = {"delivery": delivery, "rule": rule, "rule_key": rule.key, "rule_name": rule.name, "kind": rule.kind}
    JobStart.objects.create(**given, outcome="started", job_id=made["success"].pk)
    JobStart.objects.create(**given, outcome="skipped", job_id=made["pending"].pk, round=2)
    error = MissingValue(path="body.repository.url").message
    JobStart.objects.create(**given, outcome="failed", error=error, round=3)
    return rule


def _alerts(boss: User) -> int:
    """A rule that fires, with messages that were sent and that failed, and one that is muted; the first one's id."""
    rule = alerts.make("jobs_wait", _rule("Jobs wait too long", threshold=900.0), by=boss)
    muted = alerts.make("cluster_away", _rule("No cluster"), by=boss)
    alerts.mute(muted.pk, for_s=3600, by=boss)
    at = (clock.now() - timedelta(minutes=20)).isoformat()
    alerts.judge(readings={str(rule.pk): {"at": at, "above": {"transcribe": 1500.0}, "below": None}})
    sent, failed = Notification.objects.order_by("pk")
    alerts_sending.record_sent(notification=sent.pk)
    alerts_sending.record_failure(notification=failed.pk, error="SMTPServerDisconnected: no", attempt=7)
    return rule.pk


def _batch(boss: User, made: dict[str, Job]) -> Batch:
    """A batch that goes on, and its file. Its lines are jobs that are there for other pages, too."""
    in_a_day = Now() + timedelta(days=1)
    file = File.objects.create(
        owner=boss, name="reviews.jsonl", purpose="batch", size=2048, sha256="0" * 64, stored_as="reviews.jsonl",
        expires_at=in_a_day,
    )  # fmt: skip
    batch = Batch.objects.create(
        owner=boss, endpoint="chat/completions", status="in_progress", completion_window="24h", input_file=file,
        metadata={"month": "May"}, total=5, submitted=3, completed=1, failed=1, in_progress_at=Now(),
        next_step_at=in_a_day, expires_at=in_a_day, note="Quota of one owner, jobs waiting: 3 allowed, 3 used.",
    )  # fmt: skip
    jobs_of_lines = [made[status].pk for status in ("success", "failed", "pending")]
    names = [f"review-{number}" for number in range(3)]
    Slice.objects.create(batch=batch, read_from=0, job_ids=jobs_of_lines, custom_ids=names, completed=1, failed=1)
    return batch


def _rule(name: str, *, threshold: float = 0.0) -> dict[str, Any]:
    return {
        "name": name, "target": "", "threshold": threshold, "window_s": 900, "hold_s": 0, "keep_firing_s": 300,
        "repeat_s": 14400, "severity": "critical", "mail_to": "ops@example.org, night@example.org", "is_enabled": True,
    }  # fmt: skip


def _usage(boss: User, member: User, group: Group) -> None:
    """Three weeks of usage, and budgets that are used, used up, and fresh."""
    today = clock.now().date()
    for back in range(21):
        used = 40 + 97 * back % 300
        common = {"day": today - timedelta(days=back), "worker_id": None, "group_id": group.pk}
        Day.objects.create(
            **common, kind="openai", model="llama3.2", person=member, attempts=used, seconds=used * 4.2,
            tokens_in=used * 900, tokens_out=used * 300, cost=Decimal(used) / 50,
        )  # fmt: skip
        Day.objects.create(
            **common, kind="transcribe", model="", person=boss, attempts=9, seconds=used * 2.5, tokens_in=0,
            tokens_out=0, cost=0,
        )  # fmt: skip
    shares: tuple[tuple[dict[str, Any], str, int, float], ...] = (
        ({"person": member}, "tokens", 1_000_000, 0.42), ({"group": group}, "money", 50, 0.97),
        ({"person": boss}, "seconds", 36_000, 0),
    )  # fmt: skip
    for subject, unit, amount, share in shares:
        row = metering.make(subject, unit=unit, period="month", amount=Decimal(amount), by=boss)
        begin = clock.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        Window.objects.create(budget=row, starts_at=begin, used=Decimal(str(amount * share)))


def _endpoint(boss: User) -> Endpoint:
    """Who asked for the events of the jobs to come."""
    wanted = outbox.Wanted(name="billing", url="https://billing.example/hooks/farm", events=("job.*", "queue.*"))
    row, _ = outbox.create(wanted, by=boss, for_farm=True)
    outbox.create(outbox.Wanted(name="my phone", url="https://push.example/grace"), by=boss)
    return row


def _attempted(endpoint: Endpoint) -> Message:
    """The first of its messages failed once and was taken then; the last one nobody took."""
    messages = list(Message.objects.filter(endpoint=endpoint).order_by("pk"))
    first = messages[0]
    tried: dict[str, Any] = {"message": first, "started_at": Now(), "duration_ms": 84}
    Attempt.objects.create(number=1, outcome="failed", http_status=502, answer="<h1>Bad Gateway</h1>", **tried)
    Attempt.objects.create(number=2, outcome="delivered", http_status=204, **tried)
    ended: dict[str, Any] = {"next_attempt_at": None, "ended_at": Now()}
    Message.objects.filter(pk=first.pk).update(status="delivered", attempts=2, tries=2, **ended)
    note = "It did not answer within 15 s."
    Message.objects.filter(pk=messages[-1].pk).update(status="dead", attempts=10, note=note, **ended)
    first.refresh_from_db()
    return first


def _games(host: User, guest: User) -> tuple[Game, Game]:
    played = game.open_game("Animals with odd jobs", by=host, group=None)
    game.join(played.code, by=guest)
    return played, game.open_game("Weather", by=guest, group=None)


def _jobs(owner: User, group: Group) -> dict[str, Job]:
    """One job in each state, by its status; and one that is retried, and one whose time has not come."""
    farm.kind("transcribe", max_attempts=3, timeout_s=3600.0)
    runner = farm.worker("laptop", "transcribe", owner=owner)
    mine: dict[str, Any] = {"owner": owner, "group": group}
    given = {
        name: jobs.upload(filename, ContentFile(content), owner=owner).pk
        for name, filename, content in (
            ("audio", "opening-talk.ogg", b"OggS"),
            ("slide", "slide.png", plain("slide")),
            ("words", "names.txt", b"Ada Lovelace\nGrace Hopper\n"),
        )
    }
    made = {
        state: jobs.submit("transcribe", {"url": f"https://talks.example/{state}.ogg", "language": "en"},
                           files=given if state == "success" else None, **mine)
        for state in ("success", "failed", "timed_out", "tried", "in_progress", "canceled", "pending")
    }  # fmt: skip
    _succeed(runner, made["success"])
    _fail(runner, retryable=False)
    farm.time_out(farm.claim_one(runner))
    _fail(runner, retryable=True)
    _begin(runner)
    jobs.cancel(made["canceled"].pk, by=owner)
    later = farm.now() + timedelta(hours=3)
    made["future"] = jobs.submit("transcribe", {"url": "https://talks.example/late.ogg"}, run_at=later, **mine)
    for job in made.values():
        job.refresh_from_db()
    return made


def _flow(owner: User) -> int:
    """One that was split, of whose parts one succeeded, one failed, one runs after it was suspended, one is suspended,
    and one waits; and 60 pages that are alike."""
    farm.kind("translate", max_attempts=1)
    runner = farm.worker("desk", "translate")
    parts = [farm.new_job("translate", owner=owner, name=name, after=["split"]) for name in ("de", "fr", "it", "es")]
    pages = [farm.new_job("translate", owner=owner, after=["split"]) for _ in range(60)]
    split = farm.new_job("translate", owner=owner, name="split")
    join = farm.new_job("translate", owner=owner, name="join", after=["de", "fr", "it", "es"])
    jobs.submit_many([split, *parts, *pages, join])
    farm.succeed(runner, farm.claim_one(runner))
    farm.succeed(runner, farm.claim_one(runner))
    farm.fail(runner, farm.claim_one(runner), retryable=False)
    for _ in range(2):
        waiting = farm.claim_one(runner)
        wait = jobs.Wait(signal="approved")
        jobs.finish(runner, [jobs.Finished(job_id=waiting.id, lease=waiting.lease, outcome="suspended", wait=wait)])
    jobs.signal(waiting.id - 1, "approved", by=None)
    for _ in range(20):
        farm.succeed(runner, farm.claim_one(runner))
    farm.claim_one(runner)
    flow_id = farm.stored(waiting).flow_id
    assert flow_id is not None
    return flow_id


def _succeed(runner: Worker, job: Job) -> None:
    claimed = farm.claim_one(runner)
    assert claimed.id == job.pk
    for n, stage in enumerate(("Listening", "Writing it down", "Checking names")):
        jobs.heartbeat(runner, claimed.id, claimed.lease, progress=(n + 1) / 4, detail=stage)
        jobs.write_output(runner, claimed.id, claimed.lease, seq=n, text=f"{stage}: minute {n + 1} of 3 is done.\n")
    _hand_in(runner, claimed, "transcript.txt", b"Good morning, and welcome.")
    _hand_in(runner, claimed, "waveform.png", plain("waveform"))
    speakers = [{"name": "Ada", "share": 0.7}, {"name": "Grace", "share": 0.3}]
    farm.succeed(runner, claimed, {"words": 4021, "language": "en", "speakers": speakers})


def _fail(runner: Worker, *, retryable: bool) -> None:
    claimed = farm.claim_one(runner)
    farm.fail(runner, claimed, TRACEBACK, retryable=retryable)


def _begin(runner: Worker) -> None:
    claimed = farm.claim_one(runner)
    jobs.heartbeat(runner, claimed.id, claimed.lease, progress=0.62, detail="Writing it down, minute 31 of 50")
    jobs.write_output(
        runner, claimed.id, claimed.lease, seq=0, text="Good morning, and welcome to the second day.\n" * 60
    )


def _room(group: Group, asker: User, other: User) -> None:
    """A question that is answered, one that waits, and something said in between."""
    runner = farm.worker("attic", "chat")
    chat.instruct(group.pk, "Answer in two sentences.", by=asker)
    chat.post(group.pk, QUESTIONS[0], by=asker, key=f"user:{asker.pk}")
    claimed = farm.claim_one(runner)
    jobs.write_output(runner, claimed.id, claimed.lease, seq=0, text=ANSWER)
    farm.succeed(runner, claimed, {"text": ANSWER, "model": "demonstrator"})
    chat.post(group.pk, "Thanks!", by=other, key=f"user:{other.pk}", asks=False)
    chat.post(group.pk, QUESTIONS[1], by=other, key=f"user:{other.pk}")


def _functions() -> dict[str, ScheduledFunction]:
    """Functions that ran, that broke, and that wait."""
    ran = scheduling.run_after(0, sample.make_group_and_schedule, name="choir", child="band")
    broke = scheduling.run_after(0, sample.break_down)
    scheduling.run_due()
    waits = scheduling.run_after(timedelta(hours=1), sample.say, word="hello")
    canceled = scheduling.run_after(timedelta(hours=2), sample.say, word="never")
    scheduling.cancel(canceled)
    made = {"success": ran, "failed": broke, "pending": waits, "canceled": canceled}
    for row in made.values():
        row.refresh_from_db()
    return made


def _cron() -> Cron:
    """One of those that the apps declare; in tests, where none is, one like them."""
    scheduling.sync_crons()
    return Cron.objects.order_by("name").first() or Cron.objects.create(
        name="count jobs for the charts", schedule="every 10 s", function=sample.say.__name__, args={"word": "hi"},
        missed="skip", at_most=1, overlap="skip", next_at=farm.now() + timedelta(seconds=10),
    )  # fmt: skip
