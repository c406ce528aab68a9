"""`manage.py jobs`, with a verb: jobs from the command line, as the system."""

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from jobs import operations, queries
from jobs.domain import labels
from jobs.domain.states import ENDED, Status
from jobs.errors import JobsError, NotFound
from jobs.models import Job, with_status
from jobs.queries import inputs, reads
from postgres import connections
from ratelimits.errors import RateLimitsError

POLL_EVERY_S = 0.5  # of `tail`


class Command(BaseCommand):
    help = "List, show, cancel, retry and follow jobs, run them now, change their priority."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listing = verbs.add_parser("list", help="the newest jobs")
        listing.add_argument("--status", choices=[status.value for status in Status])
        listing.add_argument("--queue")
        listing.add_argument("--limit", type=int, default=20)
        for verb, meaning in (
            ("show", "everything about one"),
            ("cancel", "cancel them"),
            ("retry", "submit again"),
            ("retry_from", "the same, with all that came after it in its flow"),
            ("run_now", "make those due that are due later"),
        ):
            verbs.add_parser(verb, help=meaning).add_argument("job", type=int, nargs="+")
        priority = verbs.add_parser("priority", help="change the priority of pending jobs")
        priority.add_argument("job", type=int, nargs="+")
        priority.add_argument("--to", type=int, required=True, help="from -100 to 100, higher goes first")
        verbs.add_parser("tail", help="follow its output until it ends").add_argument("job", type=int)

    def handle(self, *, verb: str, **options: Any) -> None:
        """Do it; a job that is refused keeps none behind it from that, and is named at the end."""
        refusals = list[str]()
        for job_id in options["job"] if isinstance(options.get("job"), list) else [0]:
            try:
                self._do(verb, job_id, options)
            except (JobsError, RateLimitsError) as error:
                refusals.append(f"#{job_id}: {error.message}" if job_id else error.message)
        if refusals:
            raise CommandError("\n".join(refusals))

    def _do(self, verb: str, job_id: int, options: dict[str, Any]) -> None:
        if verb in {"list", "tail"}:
            getattr(self, f"_{verb}")(options)
        elif verb == "show":
            self._show(job_id)
        else:
            self._change(verb, job_id, options.get("to", 0))

    def _list(self, options: dict[str, Any]) -> None:
        if options["limit"] < 1:
            raise CommandError("--limit takes a number from 1 on.")
        jobs = Job.objects.filter(with_status(options["status"])) if options["status"] else Job.objects.all()
        jobs = jobs.filter(queue=options["queue"]) if options["queue"] else jobs
        for job in jobs.order_by("-pk")[: options["limit"]]:
            self.stdout.write(_row(job))

    def _show(self, job_id: int) -> None:
        job = reads.operable(job_id, by=None)
        self.stdout.write(_row(job))
        self.stdout.write(f"  payload  {json.dumps(job.payload)}")
        for file in inputs.of_job(job_id):
            self.stdout.write(f"  input    {file.name}: {file.filename}, {file.size} bytes")
        if job.requirement is not None:
            self.stdout.write(f"  requires {labels.in_words(job.requirement.requires) or '-'}")
            self.stdout.write(f"  prefers  {labels.in_words(job.requirement.prefers) or '-'}")
        self.stdout.write(f"  result   {json.dumps(job.result)}")
        for attempt in queries.reads.attempts(job_id):
            self.stdout.write(f"  attempt  {attempt.number} on {attempt.worker_name}: {attempt.outcome}")
            self.stdout.write("           " + attempt.error.replace("\n", "\n           "))
        if job.status == Status.PENDING:
            for reason in queries.reads.why_not_running(job_id):
                self.stdout.write(f"  waits    {reason.to_operators or reason.sentence}")
                self.stdout.write(f"           {'; '.join(remedy.label for remedy in reason.remedies)}")

    def _change(self, verb: str, job_id: int, priority: int) -> None:
        match verb:
            case "cancel":
                canceled = operations.cancel(job_id, by=None)
                came_to = f"{canceled.verdict} ({canceled.status})"
            case "retry":
                came_to = f"retried as #{operations.retry(job_id, by=None).pk}"
            case "retry_from":
                flow_id = reads.operable(job_id, by=None).flow_id
                if flow_id is None:
                    raise NotFound("It is of no flow.")
                again = operations.flows.retry(flow_id, by=None, from_job=job_id)
                came_to = f"retried as {', '.join(f'#{one}' for one in again)}"
            case "run_now":
                operations.run_now(job_id, by=None)
                came_to = "due now"
            case _:
                came_to = f"priority {operations.change_priority(job_id, priority, by=None).priority}"
        self.stdout.write(f"#{job_id}: {came_to}")

    def _tail(self, options: dict[str, Any]) -> None:
        job_id, attempt, after = options["job"], 0, -1
        while True:
            with connections.released():
                job = reads.operable(job_id, by=None)
                if job.fence != attempt:
                    attempt, after = job.fence, -1
                chunks = queries.reads.output(job_id, attempt=attempt, after=after)
            for chunk in chunks:
                self.stdout.write(chunk.text, ending="")
                after = chunk.seq
            self.stdout.flush()
            if Status(job.status) in ENDED and not chunks:
                self.stdout.write(f"\n#{job_id}: {job.status}")
                return
            time.sleep(POLL_EVERY_S)


def _row(job: Job) -> str:
    share = "" if job.progress is None else f"{job.progress:4.0%}"
    where = f"{job.kind:<12} {job.queue:<12} {job.worker_name or '-':<16}"
    return f"#{job.pk:<8} {job.status:<11} {share:>4} {where} {job.detail or ''}"
