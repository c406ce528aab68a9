"""Who can reach the embedded server: trust is safe only behind folders that nobody else can enter."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres.embedded import places
from tests.postgres.integration.farms import Farm, Person, make_farm, people

REFUSED = """
try:
    clock.now()
except errors.UnsafeFolder as error:
    say(error.reason)
"""
CONNECT_AND_WAIT = "clock.now(); say('connected'); wait()"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestFolders:
    def test_of_ours_are_closed_again_if_somebody_opened_them(self, everyones_farm: Farm) -> None:
        farm = everyones_farm
        farm.home.chmod(0o755)
        use = farm.use(CONNECT_AND_WAIT)
        use.read_line()
        socket = farm.home / ".s.PGSQL.5432"
        assert [mode(path) for path in (farm.home, farm.cluster, socket)] == [0o700, 0o700, 0o700]
        use.end()

    def test_that_are_a_link_are_refused(self, everyones_farm: Farm) -> None:
        farm = everyones_farm
        moved = farm.home.rename(farm.home.with_name("elsewhere"))
        farm.home.symlink_to(moved)
        output = farm.run(REFUSED)
        farm.home.unlink()
        moved.rename(farm.home)
        assert output == "it is not a folder"

    def test_that_cannot_be_made_are_named(self, fresh_farm: Farm) -> None:
        in_a_file = fresh_farm.data / "file"
        in_a_file.write_text("")
        fresh_farm.data = in_a_file / "var"
        output = fresh_farm.run("""
try:
    clock.now()
except errors.UnusableFolder as error:
    say(error.reason)
""")
        fresh_farm.data = in_a_file.parent
        assert output == "Not a directory"


class TestALongPath:
    """A socket's path must fit into about a hundred bytes. Root's always does."""

    @pytest.fixture
    def long_farm(self, settings_folder: Path) -> Iterator[Farm]:
        farm = make_farm(people()[-1], settings_folder, below="/".join(["a" * 40] * 3))
        yield farm
        farm.remove()
        shutil.rmtree(farm.data.parents[2], ignore_errors=True)

    def test_gets_its_socket_into_a_short_folder_of_our_own(self, long_farm: Farm) -> None:
        use = long_farm.use("clock.now(); say(connection.settings_dict['HOST']); wait()")
        folder = Path(use.read_line())
        assert len(os.fsencode(folder / ".s.PGSQL.5432")) <= places.SOCKET_PATH_MAX
        assert mode(folder) == 0o700
        use.end()
        shutil.rmtree(folder)

    def test_is_refused_if_somebody_else_made_that_folder(self, long_farm: Farm) -> None:
        folder = Path(long_farm.run("say(connection.settings_dict['HOST'])"))
        folder.symlink_to("/tmp")
        output = long_farm.run(REFUSED)
        folder.unlink()
        assert output == "it is not a folder"


class TestWhoTheServerIs:
    def test_is_never_root_and_cannot_change_its_programs(self, everyones_farm: Farm) -> None:
        farm = everyones_farm
        use = farm.use(CONNECT_AND_WAIT)
        use.read_line()
        process = Path("/proc", str(farm.postmaster()))
        program = (process / "exe").readlink()
        assert process.stat().st_uid == farm.home.stat().st_uid != 0
        assert program.stat().st_uid == 0 or farm.person.uid != 0
        assert not program.stat().st_mode & 0o022
        use.end()

    def test_listens_on_no_network(self, farm: Farm) -> None:
        use = farm.use(CONNECT_AND_WAIT)
        use.read_line()
        sockets = [os.readlink(link) for link in Path("/proc", str(farm.postmaster()), "fd").iterdir()]
        inodes = {link.removeprefix("socket:[").rstrip("]") for link in sockets if link.startswith("socket:")}
        on_networks = [
            line.split()[9]
            for table in ("tcp", "tcp6")
            if (listed := Path("/proc/net", table)).exists()
            for line in listed.read_text().splitlines()[1:]
        ]
        assert inodes
        assert inodes.isdisjoint(on_networks)
        use.end()

    def test_is_out_of_reach_of_others(self, everyones_farm: Farm) -> None:
        """Only root can act as two people; an ordinary user's tests try it as the only one they are."""
        use = everyones_farm.use("clock.now(); say(connection.settings_dict['HOST']); wait()")
        folder = use.read_line()
        visit = f"""
import psycopg
try:
    psycopg.connect(host={folder!r}, user="postgres", dbname="postgres").close()
    say("came in")
except psycopg.OperationalError as error:
    say("Permission denied" in str(error))
"""
        output = {person.uid: self._visitor(person, everyones_farm).run(visit) for person in people()}
        use.end()
        allowed = {0, everyones_farm.person.uid}
        assert output == {uid: "came in" if uid in allowed else "True" for uid in output}

    def _visitor(self, person: Person, farm: Farm) -> Farm:
        return Farm(person=person, data=farm.data, settings=farm.settings, started=farm.started)
