"""Stock django-q2 on its ORM broker: one cluster of two workers."""

import os

import peer_django

peer_django.set_up(
    "django_q",
    Q_CLUSTER={
        "name": "bench", "orm": "default", "workers": 2, "bulk": 50, "queue_limit": 200, "poll": 0.05, "timeout": 60,
        "retry": 120, "save_limit": -1, "log_level": "ERROR",
        "recycle": 1_000_000,  # a worker that is replaced, by default after 500 tasks, takes its count along
    },
)  # fmt: skip

from django.core.management import call_command  # noqa: E402 (Django has to be set up first)
from django_q.tasks import async_task  # noqa: E402
from job_counter import JobCounter  # noqa: E402
from verbs import main as run  # noqa: E402

counter = JobCounter()


def noop(sent=None):
    """What is run."""
    counter.job(sent)


def one(sent_at):
    async_task("django_q_jobs.noop", sent_at)


def work():
    if os.environ.get("BENCH_WORKER", "0") == "0":  # one cluster has both
        call_command("qcluster")


if __name__ == "__main__":
    run(
        prepare=lambda: call_command("migrate", verbosity=0),
        bulk=lambda count: [one(None) for _ in range(count)],
        one=one,
        work=work,
    )
