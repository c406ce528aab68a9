"""Many entries in one test: an id for each document, declaration or vector costs more than what is asked of it."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any

from _pytest.mark.structures import ParameterSet
from django.db import transaction

Test = Callable[..., None]
Ids = Callable[[Any], object] | Iterable[object] | None


def looped(
    names: str | Sequence[str], entries: Iterable[Any], *, ids: Ids = None, rolled_back: bool = False
) -> Callable[[Test], Test]:
    """`pytest.mark.parametrize` in one test. Each entry is tried, whatever became of those before it, and the failure
    names those that fail. With `rolled_back` each finds the database as it was before the first."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named = list(_named(arguments, entries, ids))
    assert named, "nothing would be asked"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def all_of_them(*args: Any, **fixtures: Any) -> None:
            failed: list[Exception] = []
            for name, values in named:
                try:
                    with _undone() if rolled_back else nullcontext():
                        test(*args, **fixtures, **values)
                except Exception as error:
                    error.add_note(f"with {name}")
                    failed.append(error)
            if len(failed) > 1:
                raise ExceptionGroup(f"{len(failed)} of {len(named)} entries", failed)
            if failed:
                raise failed[0]

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in arguments]
        all_of_them.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]  # read by pytest
        return all_of_them

    return decorate


def _named(arguments: list[str], entries: Iterable[Any], ids: Ids) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each entry by its argument, with its name: as pytest would call it, or as it is written."""
    listed = None if ids is None or callable(ids) else iter(ids)
    for number, entry in zip(count(), entries, strict=False):
        given = entry.id if isinstance(entry, ParameterSet) else None
        values = entry.values if isinstance(entry, ParameterSet) else entry
        values = tuple(values) if len(arguments) > 1 or isinstance(entry, ParameterSet) else (values,)
        written = ", ".join(map(str, map(ids, values)) if callable(ids) else map(repr, values))
        name = given or (str(next(listed)) if listed else written)
        yield f"entry {number}, {name}", dict(zip(arguments, values, strict=True))


@contextmanager
def _undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
