"""Tasks of Django's interface for tests to enqueue."""

from typing import Any

from django.contrib.auth.models import Group

from scheduling.django_tasks import TaskContext, task


@task()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@task(priority=10, queue_name="special")
def special() -> str:
    """A task with a priority and a queue."""
    return "special"


@task()
async def aadd(a: int, b: int) -> int:
    """Add two numbers, asynchronously."""
    return a + b


@task()
def fail(message: str) -> None:
    """Raise."""
    raise ValueError(message)


@task()
def leave() -> None:
    """Raise what would end a process."""
    raise SystemExit(1)


@task()
def return_anything() -> object:
    """Return what is not JSON."""
    return object()


@task(takes_context=True)
def report(context: TaskContext, word: str) -> list[Any]:
    """Return what the context says."""
    result = context.task_result
    return [word, result.id, result.status, context.attempt]


@task()
def write(name: str) -> None:
    """Write past any mutation, which a task may."""
    Group.objects.create(name=name)


@task(mutation=True)
def write_and_break(name: str) -> None:
    """Write in a mutation, and raise."""
    Group.objects.create(name=name)
    raise ValueError("after the write")


@task(mutation=True)
def write_as_a_mutation(name: str) -> str:
    """Write in a mutation."""
    return str(Group.objects.create(name=name).name)
