"""Where the embedded server keeps its files. Nothing here is created or read: settings may call it."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

DATABASE = "jobfarm"
ROLE = "jobfarm"  # may create databases (tests do), and is no superuser
SUPERUSER = "postgres"
PORT = 5432  # only a part of the socket's name: nothing listens on the network

# As root: below here, because the server runs as a user of its own, who may not be able to enter the folder
# of the farm.
ROOT_FOLDER = Path("/var/lib/jobfarm")
# sun_path holds 108 bytes on Linux and 104 elsewhere, with the closing zero.
SOCKET_PATH_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The folders of one server. `home` and `socket_folder` are 0700: they are the only lock on the door."""

    home: Path
    socket_folder: Path

    @property
    def cluster(self) -> Path:
        return self.home / "cluster"

    @property
    def start_lock(self) -> Path:
        """Held alone by who starts the server. Beside `home`, which as root is not ours but the server's user's."""
        return self.home.with_name(f"{self.home.name}.start.lock")

    @property
    def users_lock(self) -> Path:
        """Shared by all processes that use the server."""
        return self.home.with_name(f"{self.home.name}.users.lock")


def location(data: Path) -> Location:
    """Where the server for `data` (JOBFARM_DATA) lives: as root below /var/lib/jobfarm, else in `data` itself."""
    data = data.resolve()
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    if os.geteuid() == 0:
        home = ROOT_FOLDER / name
        return Location(home=home, socket_folder=home)
    home = data / "postgres"
    socket = home / f".s.PGSQL.{PORT}"
    if len(os.fsencode(socket)) <= SOCKET_PATH_MAX:
        return Location(home=home, socket_folder=home)
    # Not $TMPDIR: all processes of this user must find the same folder.
    return Location(home=home, socket_folder=Path(f"/tmp/jobfarm-{os.geteuid()}-{name}"))  # noqa: S108 - owner is checked
