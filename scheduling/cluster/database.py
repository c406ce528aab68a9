"""How the processes of a cluster connect: one connection each, kept for good."""

from contextlib import suppress

from django.db import DatabaseError, InterfaceError, connection, connections

from scheduling.domain.states import Kind

# Small tables are read as a whole, and that locks the whole table against the neighbours' writes: ten counters, 1,029
# collisions in 6,000 mutations, with this 45 (trials). A plan without any index is still found.
_READ_BY_INDEX = "-c enable_seqscan=off"
_DISK_LATER = "-c synchronous_commit=off"
# A plan that was made while the queue was empty, and is kept, must not read the whole of it when it is full.
_BY_INDEX = "-c enable_seqscan=off -c enable_bitmapscan=off"


def keep_connections(kind: Kind) -> None:
    """Prepare this process, and those it forks, before the first connection.

    Between two tasks django-q2 closes what is old: with CONN_MAX_AGE = 0 that is a new connection for each task (140
    a second in place of 660).
    """
    for wrapper in connections.all():
        options = dict(wrapper.settings_dict["OPTIONS"])
        options["pool"] = False
        if kind is Kind.MUTATION and "options" in options:
            options["options"] = f"{options['options']} {_READ_BY_INDEX}"
        wrapper.settings_dict.update({"OPTIONS": options, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True})


def dispatch_quickly() -> None:
    """Prepare a cluster's pusher, in its process: its commits do not wait for the disk.

    A crash of the server may take back firings of the last moments, and nothing that came of them: whoever starts or
    ends one of those functions waits for the disk, and writes what lies before it along.
    """
    for wrapper in connections.all():
        options = dict(wrapper.settings_dict["OPTIONS"])
        if "options" in options:
            options["options"] = f"{options['options']} {_DISK_LATER} {_BY_INDEX}"
        wrapper.settings_dict["OPTIONS"] = options


def connect() -> None:
    """Open this process's connection now, so that its first function does not wait for that. It may fail, and is
    then opened when it is needed."""
    with suppress(DatabaseError, InterfaceError):
        connection.ensure_connection()
