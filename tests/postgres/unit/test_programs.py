"""Which of this machine's programs dump a server."""

import pytest

from postgres import programs
from postgres.errors import ProgramTooOld


def test_a_server_newer_than_every_program_here_is_named_with_what_to_install() -> None:
    with pytest.raises(ProgramTooOld, match=r"PostgreSQL 99 .* postgresql-client-99") as refused:
        programs._dumper(99)
    assert refused.value.newest >= 18


def test_a_server_is_dumped_by_the_programs_of_its_own_version() -> None:
    assert "15" in str(programs._dumper(15))
