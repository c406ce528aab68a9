"""The database backend of django-tasks: two workers that look every 50 ms."""

import peer_django

peer_django.set_up("django_tasks", "django_tasks_db", TASKS={"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}})

from django.core.management import call_command  # noqa: E402 (Django has to be set up first)
from django_tasks import task  # noqa: E402
from job_counter import JobCounter  # noqa: E402
from verbs import main as run  # noqa: E402

counter = JobCounter()


@task()
def noop(sent=None):
    """What is run."""
    counter.job(sent)


noop.func.__module__ = "django_tasks_jobs"


def one(sent_at):
    import django_tasks_jobs  # noqa: PLC0415 (the worker finds it by this name)

    django_tasks_jobs.noop.enqueue(sent_at)


if __name__ == "__main__":
    run(
        prepare=lambda: call_command("migrate", verbosity=0),
        bulk=lambda count: [one(None) for _ in range(count)],
        one=one,
        work=lambda: call_command("db_worker", interval=0.05, startup_delay=False, verbosity=0),
    )
