"""Backups are named by the database's clock, which may have been ahead."""

from pathlib import Path

import pytest
from django.core.management import call_command


@pytest.mark.django_db(transaction=True)
def test_the_one_just_made_is_kept_where_an_earlier_clock_was_ahead(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    call_command("backup", str(folder), keep=1, without_files=True)
    [first] = folder.iterdir()
    first.rename(folder / "20990101T000000Z")
    call_command("backup", str(folder), keep=1, without_files=True)
    [kept] = folder.iterdir()
    assert kept.name < "2099"
