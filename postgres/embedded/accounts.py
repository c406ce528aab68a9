"""The system user that PostgreSQL runs as when the farm is run by root: PostgreSQL refuses to run as root itself."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from postgres.embedded.locks import Lock
from postgres.errors import NoAccount

NAME = "jobfarm"
_MAKERS = (
    (
        "useradd",
        "--system",
        "--user-group",
        "--no-create-home",
        "--home-dir",
        "/nonexistent",
        "--shell",
        "/usr/sbin/nologin",
    ),
    ("adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin"),  # busybox
)
# Where no user can be made (a read-only /etc): these exist nearly everywhere and own nothing that matters.
_FALLBACKS = ("postgres", "nobody")


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
        account = _known(NAME) or _made() or next(filter(None, map(_known, _FALLBACKS)), None)
    if account is None:
        raise NoAccount(name=NAME)
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
            subprocess.run([*command, NAME], capture_output=True, check=False)
        except FileNotFoundError:
            continue
        if account := _known(NAME):
            return account
    return None
