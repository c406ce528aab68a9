"""The mutation that `benchmarks.scheduled` has the cluster run; its processes import it by its name."""

from django.db import connection

from benchmarks.contenders import updates
from scheduling.operations import mutation


@mutation
def update(*, n: int) -> None:
    """Change row `n`."""
    updates.update(n)


@mutation
def wait() -> None:
    """Run until the session is ended."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(3600) /* bench_wait */")
