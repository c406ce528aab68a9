"""Stock django-q2 on its ORM broker for `benchmarks.scheduled`: one cluster of two workers, functions with one UPDATE.

BENCH_SAVE_LIMIT: how many results it keeps; 0 keeps all, -1 none.
"""

import os

import peer_django

peer_django.set_up(
    "django_q",
    Q_CLUSTER={
        "name": "bench", "orm": "default", "workers": 2, "bulk": 50, "queue_limit": 200, "poll": 0.05, "timeout": 60,
        "retry": 120, "save_limit": int(os.environ.get("BENCH_SAVE_LIMIT", "0")), "log_level": "ERROR",
    },
)  # fmt: skip

import updates  # noqa: E402 (Django has to be set up first)
from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django_q.tasks import async_task  # noqa: E402
from verbs import main as run  # noqa: E402


def prepare():
    call_command("migrate", verbosity=0)
    updates.make_table()


def bulk(count):
    """So many tasks that are there when this commits."""
    with transaction.atomic():
        for n in range(1, count + 1):
            one(n)


def one(n):
    async_task("updates.update", n)


if __name__ == "__main__":
    run(prepare=prepare, bulk=bulk, one=one, work=lambda: call_command("qcluster"))
