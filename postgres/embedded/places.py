"""Where the embedded server keeps its files, and how those are kept safe: folders that only their owner can enter,
locks between processes, and the system user that PostgreSQL runs as when root runs the farm: it refuses to run as root.

`location` creates and reads nothing: settings may call it."""

import fcntl
import hashlib
import os
import pwd
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from postgres.errors import NoAccount, UnsafeFolder

DATABASE = "jobfarm"
ROLE = "jobfarm"  # may create databases (tests do), and is no superuser
SUPERUSER = "postgres"
PORT = 5432  # only a part of the socket's name: nothing listens on the network

# As root: below here, because the server runs as a user of its own, who may not be able to enter the folder
# of the farm.
ROOT_FOLDER = Path("/var/lib/jobfarm")
# sun_path holds 108 bytes on Linux and 104 elsewhere, with the closing zero.
SOCKET_PATH_MAX = 100
_GROUP_OR_OTHERS_MAY_WRITE = 0o022
_open_here: set[int] = set()
_ACCOUNT = "jobfarm"
_MAKERS = (
    "useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin",
    "adduser -S -D -H -h /nonexistent -s /sbin/nologin",  # busybox
)
# Where no user can be made (a read-only /etc): these exist nearly everywhere and own nothing that matters.
_FALLBACKS = ("postgres", "nobody")


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


def private(folder: Path, *, uid: int, gid: int) -> None:
    """Make `folder` (its parent exists) with mode 0700 for that user, or make sure that it is so. Raises UnsafeFolder
    if it is somebody else's, a link or no folder."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if os.geteuid() == 0 == status.st_uid and stat.S_ISDIR(status.st_mode):  # made just now, or by one who was killed
        os.chown(folder, uid, gid, follow_symlinks=False)
        status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeFolder(folder=folder, reason="it is not a folder")
    if status.st_uid != uid:
        raise UnsafeFolder(folder=folder, reason=f"it belongs to user {status.st_uid}, not to user {uid}")
    if stat.S_IMODE(status.st_mode) != 0o700:
        folder.chmod(0o700)


def roots_own(folder: Path) -> None:
    """Make `folder`, which everybody may pass but only root may change, or make sure that it is so. Raises
    UnsafeFolder."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & _GROUP_OR_OTHERS_MAY_WRITE:
        raise UnsafeFolder(folder=folder, reason="others than root can change it")


class Lock:
    def __init__(self, path: Path, operation: int) -> None:
        self._descriptor = _open(path)
        _open_here.add(self._descriptor)
        try:
            fcntl.flock(self._descriptor, operation)
        except BaseException:
            self.release()
            raise

    @classmethod
    def exclusive(cls, path: Path) -> Self:
        """The lock that nobody else holds; waits for it."""
        return cls(path, fcntl.LOCK_EX)

    @classmethod
    def exclusive_now(cls, path: Path) -> Self:
        """The lock that nobody else holds. Raises BlockingIOError if somebody does."""
        return cls(path, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @classmethod
    def shared(cls, path: Path) -> Self:
        """A share of it; waits for whoever holds it alone."""
        return cls(path, fcntl.LOCK_SH)

    def make_exclusive(self) -> bool:
        """Turn a share into the whole, if nobody else has a share. If somebody has, this one is lost
        (flock(2)), so only who is leaving calls this. Of several who do so at once, one gets it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        _open_here.discard(self._descriptor)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise UnsafeFolder(folder=path.parent, reason=f"another user made {path.name} in it")
    return descriptor


def _close_inherited() -> None:
    while _open_here:
        os.close(_open_here.pop())


os.register_at_fork(after_in_child=_close_inherited)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    uid: int
    gid: int

    @property
    def credentials(self) -> dict[str, Any]:
        """What `subprocess` needs to run something as this user; nothing if we are it."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def account_for(home: Path) -> Account:
    """Who runs the server in `home`: we ourselves, or a user of its own if we are root. Raises NoAccount."""
    if os.geteuid() == 0:
        return account_for_root(home)
    return Account(uid=os.geteuid(), gid=os.getegid())


def account_for_root(home: Path) -> Account:
    """Whoever owns `home` already, else the user "jobfarm", which is made if it is missing. Raises NoAccount."""
    if home.exists() and home.lstat().st_uid != 0:
        return Account(uid=home.lstat().st_uid, gid=home.lstat().st_gid)
    with Lock.exclusive(home.with_name("account.lock")):  # two useradd at once do not both succeed
        account = _known(_ACCOUNT) or _made() or next(filter(None, map(_known, _FALLBACKS)), None)
    if account is None:
        raise NoAccount(name=_ACCOUNT)
    return account


def _known(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(uid=entry.pw_uid, gid=entry.pw_gid) if entry.pw_uid != 0 else None


def _made() -> Account | None:
    for command in _MAKERS:
        try:
            subprocess.run([*command.split(), _ACCOUNT], capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if account := _known(_ACCOUNT):
            return account
    return None
