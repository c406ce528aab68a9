"""A data folder in which a farm has been started before: its cluster is made and migrated, and nothing else is in it.

To make one takes four seconds of a processor, to copy one a fifth of a second. It is kept below the folder of the
tests, named after all that migrations are made of; a run that finds none of that name makes it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from postgres.embedded import places
from postgres.embedded.places import Account, account_for
from tests import template

ROOT = template.ROOT
# The system writes what it was given; only a machine that loses power would lose it.
_WITHOUT_WAITING = "\nfsync = off\nfull_page_writes = off\n"


def into(data: Path) -> None:
    """Make a farm that starts in this folder find its database made and migrated. The folder is made if need be."""
    home = places.location(data).home
    data.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        places.roots_own(places.ROOT_FOLDER)
    account = account_for(home)
    places.private(home, uid=account.uid, gid=account.gid)
    with _kept() as cluster:
        shutil.copytree(cluster, home / "cluster")
    _give(home / "cluster", account)


@contextmanager
def _kept() -> Iterator[Path]:
    """The cluster that is copied, for as long as it is: another version of the tests would remove it."""
    folder = settings.JOBFARM_DATA / "prepared"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = folder / template.name()
        if not cluster.exists():
            _make(folder, cluster)
        yield cluster


def _make(folder: Path, cluster: Path) -> None:
    for older in folder.iterdir():
        if older.is_dir():
            shutil.rmtree(older)
    data = folder / "making"
    _migrate(data)
    made = places.location(data)
    with (made.cluster / "postgresql.conf").open("a") as configuration:
        configuration.write(_WITHOUT_WAITING)
    shutil.copytree(made.cluster, folder / "copying")
    (folder / "copying").rename(cluster)
    for path in (made.home, made.start_lock, made.users_lock, data):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _migrate(data: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JOBFARM_TEST_DATABASE"}
    environment |= {"JOBFARM_DATA": str(data), "SECRET_KEY": "", "DATABASE_URL": ""}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=environment, check=True)


def _give(folder: Path, account: Account) -> None:
    if os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, account.uid, account.gid)
