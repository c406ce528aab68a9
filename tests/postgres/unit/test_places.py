"""Where an embedded server lives: arithmetic on paths."""

import os
from pathlib import Path

import pytest

from postgres.embedded import places
from postgres.embedded.server import exists


class TestLocation:
    def test_of_an_ordinary_user_is_in_the_data_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        found = places.location(Path("/srv/farm/var"))
        assert found == places.Location(
            home=Path("/srv/farm/var/postgres"), socket_folder=Path("/srv/farm/var/postgres")
        )
        assert found.cluster == Path("/srv/farm/var/postgres/cluster")
        assert found.users_lock == Path("/srv/farm/var/postgres.users.lock")
        assert found.start_lock == Path("/srv/farm/var/postgres.start.lock")

    def test_of_root_is_where_another_user_can_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        one, other = places.location(Path("/srv/farm/var")), places.location(Path("/srv/other/var"))
        assert one.home.parent == Path("/var/lib/jobfarm")
        assert one.socket_folder == one.home != other.home

    def test_is_the_same_for_every_spelling_of_a_folder(self) -> None:
        assert places.location(Path("/srv/farm/../farm/var")) == places.location(Path("/srv/farm/var"))

    @pytest.mark.parametrize("length", [10, 60, 61, 62, 63, 64, 200])
    def test_keeps_the_sockets_path_short(self, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        found = places.location(Path("/srv", "a" * length))
        path = found.socket_folder / ".s.PGSQL.5432"
        assert len(os.fsencode(path)) <= 100
        assert (found.socket_folder == found.home) == (len(os.fsencode(found.home / path.name)) <= 100)

    def test_counts_bytes_and_not_letters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        assert places.location(Path("/srv", "ü" * 50)).socket_folder.parent == Path("/tmp")


def test_a_process_exists_until_it_was_waited_for() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert exists(child)
    os.waitpid(child, 0)
    assert not exists(child)
