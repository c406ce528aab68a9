"""docs/front-door.md says of each field what the worker does with it."""

from jobfarm_worker.handlers import messages_request as messages
from scripts import dialect_docs


def test_is_what_the_generator_writes() -> None:
    assert dialect_docs.PAGE.read_text() == dialect_docs.page(), "make docs"


def test_each_field_is_in_one_place() -> None:
    names = [*messages.PASSED, *messages.MAPPED, *messages.LEFT_OUT]
    assert len(names) == len({*names})
