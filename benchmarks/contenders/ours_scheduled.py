"""jobfarm's scheduler: mutations, and one cluster of two workers for them."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")

import django

django.setup()

from django.core.management import call_command  # noqa: E402 (Django has to be set up first)
from django.db import transaction  # noqa: E402

from benchmarks.contenders import mutations, updates, verbs  # noqa: E402
from scheduling import operations as scheduling  # noqa: E402


def prepare() -> None:
    """Migrate, and make the table."""
    if "BENCH_TEMPLATE" not in os.environ:  # a copy has been migrated
        call_command("migrate", verbosity=0)
    updates.make_table()


def bulk(count: int) -> None:
    """So many mutations that are due when this commits."""
    with transaction.atomic():
        for n in range(1, count + 1):
            one(n)


def one(n: float | None) -> None:
    """One mutation, due now."""
    scheduling.run_after(0, mutations.update, n=n)


def work() -> None:
    """Become the cluster, as an operator starts it."""
    command = [sys.executable, "manage.py", "cluster", "--mutations", "--workers", "2"]
    os.execv(sys.executable, command)  # noqa: S606  # there is no shell


if __name__ == "__main__":
    verbs.main(prepare=prepare, bulk=bulk, one=one, work=work)
