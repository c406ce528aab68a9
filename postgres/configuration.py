"""The DATABASES entry of the farm, from DATABASE_URL or for the embedded server; and in which order several hosts of
that URL are tried."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from postgres import embedded
from postgres.errors import InvalidDatabaseUrl

POOL_MAX = 20
THREADS = 4  # of postgres.connections.run, in a process
POOL_TIMEOUT_S = 10.0  # how long a thread waits for a free connection before PoolTimeout
CONNECT_TIMEOUT_S = 5  # a host that is not there is an error soon
CONNECT_TIMEOUT_OF_SEVERAL_S = 3  # for each of several hosts: the one behind it may have taken its place
# libpq's parameters for a server that is gone silently, or a network that drops everything: whoever waits for its
# answer gets an error after 25 s, and not after the system's two hours (idle) or quarter of one (unacknowledged).
KEEPALIVE: Mapping[str, int] = {
    "keepalives_idle": 10,  # seconds
    "keepalives_interval": 5,  # seconds
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
# The claim is planned once per connection and then run from the plan: planning was 1.3 of its 2.2 ms.
STARTUP_OPTIONS = "-c jit=off -c plan_cache_mode=force_generic_plan"
PREPARE_THRESHOLD = 5  # psycopg's own default; Django's is None, which turns preparation off altogether


def database(
    url: str | None, *, data: Path, pool_max: int = POOL_MAX, prepares: bool = True, startup_options: bool = True,
    direct_url: str = "", socket_folder: str = "",
) -> dict[str, Any]:  # fmt: skip
    """The entry of DATABASES: the server of `url`, or without one the embedded server whose files lie under `data`.

    `pool_max` is the most connections of one process. A pooler may know no prepared statements, or refuse `options`
    when connecting; `direct_url` goes past it. `socket_folder`: of an embedded server that another process keeps
    running. Opens and creates nothing. Raises InvalidDatabaseUrl for a URL that PostgreSQL would not understand,
    without repeating it: it may hold a password."""
    server = _from_url(url) if url else _embedded(data, socket_folder=socket_folder)
    options: dict[str, Any] = {
        # No connection is kept open for nobody; one that was not used for 10 minutes is closed (psycopg's max_idle).
        "pool": {"min_size": 0, "max_size": pool_max, "timeout": POOL_TIMEOUT_S},
        "connect_timeout": CONNECT_TIMEOUT_S,
        **KEEPALIVE,
        "prepare_threshold": PREPARE_THRESHOLD if prepares else None,
        **({"options": STARTUP_OPTIONS} if startup_options else {}),
        **server.pop("OPTIONS", {}),
    }
    if extra := options.pop("extra_options", None):
        options["options"] = f"{options.get('options', '')} {extra}".strip()
    return {
        "ENGINE": "postgres.backend",
        **server,
        "OPTIONS": options,
        "CONN_MAX_AGE": 0,  # what a pool asks for: a connection goes back to it after each request
        "CONN_HEALTH_CHECKS": True,
        # A cursor that outlives its transaction cannot pass a pooler in transaction mode.
        "DISABLE_SERVER_SIDE_CURSORS": bool(direct_url) or not prepares,
    }


def bounded(database: dict[str, Any], *, idle_s: float, lock_s: float | None = None) -> None:
    """Let sessions that this process opens from now on idle in a transaction, and wait for a lock, for at most so
    many seconds: a process that is stopped keeps what it has locked, and each who waits for that takes a thread and a
    session from others. What `database`, an entry of DATABASES, says of them itself counts; behind a pooler that
    refuses startup options nothing is done."""
    if options := database["OPTIONS"].get("options"):
        bounds = {"idle_in_transaction_session_timeout": idle_s}
        if lock_s is not None:
            database["LOCK_S"] = bounds["lock_timeout"] = lock_s
        database["OPTIONS"]["options"] = f"{' '.join(f'-c {k}={v * 1000:.0f}' for k, v in bounds.items())} {options}"


def parse(url: str, *, variable: str = "DATABASE_URL") -> dict[str, Any]:
    """The parameters of libpq that `url` stands for (host, port, dbname, user, password, sslmode, ...).

    libpq's own parser reads it, so percent signs, several hosts, IPv6 and sockets mean what its manual says
    (34.1.1.2). Of several hosts the one that takes writes is used, unless the URL says otherwise.

    Raises InvalidDatabaseUrl, naming `variable`."""
    if not url.startswith(("postgres://", "postgresql://")):
        raise InvalidDatabaseUrl(variable=variable, reason="it does not begin with postgresql:// or postgres://")
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        raise InvalidDatabaseUrl(variable=variable, reason="PostgreSQL cannot read it") from None
    if "@" in str(parameters.get("host", "")):
        raise InvalidDatabaseUrl(variable=variable, reason="there is an unencoded @ in it (write %40)")
    if not parameters.get("dbname"):
        raise InvalidDatabaseUrl(variable=variable, reason="it names no database")
    if not str(parameters.get("connect_timeout", "0")).isdecimal():
        raise InvalidDatabaseUrl(variable=variable, reason="its connect_timeout is no number of seconds")
    if "," in str(parameters.get("host", "")):  # a farm writes: the first that answers may be a standby
        parameters.setdefault("target_session_attrs", "read-write")
        parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT_OF_SEVERAL_S))
    return parameters


# libpq tries several hosts in the order of the URL. After a failover a frozen host that stands first would cost each
# new connection its whole connect_timeout, and one that came back as a second primary would be chosen: so the one that
# took writes when this process last connected comes first (docs/adr/0072). By the hosts as the URL has them.
_last_host: dict[str, tuple[str, str]] = {}
_PORT = "5432"  # libpq's, where none is named
_frozen_hosts: set[tuple[str, str]] = set()


def hosts_ordered(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The same parameters, with the host first that was remembered for them, and those last that were frozen when
    somebody last looked. Those with `hostaddr` stay as they are."""
    last, pairs = _last_host.get(str(parameters.get("host"))), _pairs(parameters)
    if not {last, *_frozen_hosts}.intersection(pairs) or len(pairs) == 1 or parameters.get("hostaddr"):
        return dict(parameters)
    pairs.sort(key=lambda pair: (pair in _frozen_hosts, pair != last))
    hosts, ports = zip(*pairs, strict=True)
    return {**parameters, "host": ",".join(hosts), "port": ",".join(ports)}


def each_host(parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    addresses = str(parameters.get("hostaddr") or "").split(",")
    if len(addresses) > 1 or not parameters.get("host"):
        return [dict(parameters)]
    return [{**parameters, "host": host, "port": port} for host, port in _pairs(parameters)]


def remember_host(hosts: str, *, host: str, port: int | str) -> None:
    """Of these hosts, as the URL has them, this one took a connection that writes."""
    _last_host[hosts] = (host, str(port))
    _frozen_hosts.discard(_last_host[hosts])


def avoid_host(*, host: str, port: int | str) -> None:
    """It is frozen: until it takes a connection again, others are tried before it."""
    _frozen_hosts.add((host, str(port)))


def _pairs(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    hosts = str(parameters.get("host") or "").split(",")
    ports = [port or _PORT for port in str(parameters.get("port") or "").split(",")]
    return list(zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False))


def _from_url(url: str) -> dict[str, Any]:
    server = entry(parse(url))
    options = server["OPTIONS"]
    if "options" in options:
        options["extra_options"] = options.pop("options")
    if "connect_timeout" in options:
        options["connect_timeout"] = int(options["connect_timeout"])
    return server


def entry(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry of DATABASES says of the server that these parameters of libpq lead to."""
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    server = {key: str(parameters.get(name) or "") for key, name in names.items()}
    others = {name: value for name, value in parameters.items() if name not in names.values() and value is not None}
    return {**server, "OPTIONS": others}


def _embedded(data: Path, *, socket_folder: str) -> dict[str, Any]:
    server = {
        "NAME": embedded.DATABASE,
        "USER": embedded.ROLE,
        "PASSWORD": "",
        "HOST": socket_folder or str(embedded.location(data).socket_folder),
        "PORT": str(embedded.PORT),
    }
    return server if socket_folder else server | {"EMBEDDED": str(data)}
