"""Errors: the docstring is the message, the facts are attributes."""

import pickle
from pathlib import Path

from postgres import errors
from postgres.errors import PostgresError, WrongMajorVersion, causes
from tests.looped import looped


def every_error(base: type[PostgresError]) -> list[type[PostgresError]]:
    return [base, *(deeper for below in base.__subclasses__() for deeper in every_error(below))]


class TestAnError:
    def test_carries_its_message_and_its_facts(self) -> None:
        error = WrongMajorVersion(cluster=Path("/data"), actual="17", expected=18)
        assert str(error).startswith(
            "The data in /data was written by PostgreSQL 17, and this farm brings PostgreSQL 18"
        )
        assert (error.cluster, error.actual, error.expected) == (Path("/data"), "17", 18)

    def test_passes_between_processes(self) -> None:
        error = WrongMajorVersion(cluster=Path("/data"), actual="17", expected=18)
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (WrongMajorVersion, str(error), vars(error))

    @looped("kind", every_error(PostgresError), ids=lambda kind: kind.__name__)
    def test_has_one_sentence_or_more(self, kind: type[PostgresError]) -> None:
        assert kind.__doc__
        assert kind.__doc__.strip().endswith((".", "{output}"))


class TestCauses:
    def test_go_from_an_error_to_what_it_was_raised_from(self) -> None:
        first, second = ValueError(), KeyError()
        second.__cause__ = first
        assert list(causes(second)) == [second, first]
        assert errors.causes is causes
