"""The files in which PostgreSQL notes its process, and whether to believe them.

After a crash the number in them may belong to any other process, or to a dead one that nobody has reaped (in
a container without an init, for ever). PostgreSQL then refuses to start if it may signal that process, and
`pg_ctl stop` would do so."""

from pathlib import Path

from postgres.embedded.places import PORT, Location
from postgres.embedded.watch import exists

_PROC = Path("/proc")


def pid(cluster: Path, *, uid: int) -> int | None:
    number = _noted(cluster / "postmaster.pid")
    return number if number is not None and _serves(number, cluster, uid) else None


def drop_stale_notes(location: Location, *, uid: int) -> None:
    """Remove the notes whose process lives but serves another purpose, and those that cannot be read. A note whose
    process is gone stays: PostgreSQL sees that itself, and looks for that server's orphans first."""
    for note in (location.cluster / "postmaster.pid", location.socket_folder / f".s.PGSQL.{PORT}.lock"):
        number = _noted(note)
        if number is None or (exists(number) and not _serves(number, location.cluster, uid)):
            note.unlink(missing_ok=True)


def _noted(note: Path) -> int | None:
    try:
        first, *_ = note.read_text().splitlines()
        return int(first)
    except (FileNotFoundError, ValueError):
        return None


def _serves(number: int, cluster: Path, uid: int) -> bool:
    """By its owner and its command line, which everybody may read; its working directory would say it too,
    but in a container root may not look at that of another user's process."""
    if not _PROC.is_dir():
        return exists(number)
    process = _PROC / str(number)
    try:
        command = (process / "cmdline").read_bytes().split(b"\0")  # empty for one that waits to be reaped
        return process.stat().st_uid == uid and bytes(cluster) in command
    except (FileNotFoundError, ProcessLookupError):
        return False
