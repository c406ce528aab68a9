"""The list of guards is about the tree as it is."""

import subprocess
import sys
from collections import Counter

import pytest
from django.db import connection

from tests.mutants.__main__ import ROOT
from tests.mutants.guards import listed


@pytest.mark.parametrize("file", sorted({guard.file for guard in listed()}))
def test_each_guard_stands_in_its_file_once_and_has_tests_that_are_there(file: str) -> None:
    guards = [guard for guard in listed() if guard.file == file]
    whole = (ROOT / file).read_text()
    assert [guard.text for guard in guards if whole.count(guard.text) != 1] == []
    assert [test for guard in guards for test in guard.tests.split() if not (ROOT / test).exists()] == []


def test_there_are_many_and_none_twice() -> None:
    counts = Counter(str(guard) for guard in listed())
    assert ([one for one, count in counts.items() if count > 1], len(counts) >= 150) == ([], True)


def test_the_command_that_takes_them_out_begins_without_django() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.mutants", "--help"], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.django_db
def test_each_guard_of_a_migration_stands_in_a_function_that_no_later_one_replaces() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        bodies = {body for (body,) in cursor.fetchall()}
    guards = [guard for guard in listed() if "/migrations/" in guard.file]
    parts = {guard: (ROOT / guard.file).read_text().split("$$") for guard in guards}
    assert [str(guard) for guard, of in parts.items() if not any(guard.text in part for part in bodies & set(of))] == []
