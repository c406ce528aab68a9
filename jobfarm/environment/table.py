"""Every variable that the server reads: its name, what it may be, its default, and what docs/settings.md says of it.

`make docs` writes that page's tables from here. A default of None is worked out elsewhere, as `shown` says.
"""

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import observing.logs
from core.commands import CODE, IS_CHECKOUT
from jobfarm.environment import values
from jobfarm.environment.values import Reader, flag, number, positive, text, whole
from live.configuration import sockets
from postgres.configuration import POOL_MAX, THREADS

# Root's own folders are closed to the account that the web process runs as; some accounts have none.
_OF_ALL: Final = Path("/var/lib/jobfarm-files")


def data_folder() -> Path:
    """Return `var` in a checkout, else a folder of whoever starts the farm, by the XDG Base Directory Specification."""
    if IS_CHECKOUT:
        return CODE / "var"
    # "All paths set in these environment variables must be absolute": others are ignored.
    bases = (os.environ.get("XDG_DATA_HOME", ""), os.path.expanduser("~/.local/share"))
    base = next(filter(os.path.isabs, bases), "")
    return Path(base, "jobfarm") if base and os.geteuid() != 0 else _OF_ALL


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `is_secret`: it may be given as a file, in NAME_FILE, and is never repeated in a sentence."""

    name: str
    read: Reader
    default: Any
    meaning: str
    unit: str = ""
    shown: str = ""
    is_secret: bool = False


_quota: Final = whole(0)

SECTIONS: Final[Mapping[str, tuple[Variable, ...]]] = {
    "Where things are": (
        Variable("DATABASE_URL", values.database, "",
            "`postgresql://user:password@host:5432/name`, in place of the embedded server (tested on 18; 15 or "
            "newer); of several hosts (`db1:5432,db2:5432`) the one that takes writes", is_secret=True),
        Variable("DATABASE_DIRECT_URL", values.database, "",
            "past a pooler in transaction mode, for LISTEN, migrations and backups", is_secret=True),
        Variable("REDIS_URL", values.redis, "",
            "`redis://host:6379/0`: live messages go through Redis in place of NOTIFY", is_secret=True),
        Variable("FILES_URL", values.bucket, "",
            "`s3://bucket/prefix?region=...&endpoint=https://...`: result and input files in S3 or what speaks like "
            "it, in place of the disk ([operations.md](operations.md#files-of-jobs))", is_secret=True),
        Variable("AWS_ACCESS_KEY_ID", text, "",
            "the key for that, else a profile or the machine's role", is_secret=True),
        Variable("AWS_SECRET_ACCESS_KEY", text, "", "its secret", is_secret=True),
        Variable("JOBFARM_DATA", values.folder, data_folder(),
            "the folder of the embedded database, files of jobs and the secret key. As root the database lies in "
            "`/var/lib/jobfarm/`, under a name made from this path",
            shown="`var/` in a checkout; else `~/.local/share/jobfarm`, as root `/var/lib/jobfarm-files`"),
        Variable("PORT", whole(0, 65535), 8000, "of the web server", shown="8000"),
        Variable("WEB_PROCESSES", whole(1, 64), min(max((os.cpu_count() or 1) - 1, 1), 4),
            "how many processes `manage.py farm` has serve that port", shown="the cores but one, at most 4"),
        Variable("JOBFARM_APPS", values.apps, [],
            "apps that are added to the farm, with commas between: [the examples](examples.md), and yours, from "
            "folders on `PYTHONPATH` ([your-own-app.md](your-own-app.md))",
            shown="none; under `make run` and in `start` the examples"),
    ),
    "A name and TLS": (
        Variable("SECRET_KEY", text, "",
            "signs sessions and seals secrets; every process of a farm has the same ([security.md](security.md))",
            shown="made once, in `JOBFARM_DATA`", is_secret=True),
        Variable("ALLOWED_HOSTS", values.hosts, ["127.0.0.1", "localhost", "[::1]"],
            "by these names the site is asked for"),
        Variable("CSRF_TRUSTED_ORIGINS", values.origins, [],
            "such as `https://farm.example.org`: where forms are sent from"),
        Variable("JOBFARM_URL", values.address, "",
            "such as `https://farm.example.org`: where people find this farm: links in messages, `ce-source` of "
            "events, test deliveries", shown="unknown; for events and deliveries `http://127.0.0.1:PORT`"),
        Variable("SECURE_COOKIES", flag, False, "behind TLS: cookies are sent over it alone"),
        Variable("SECURE_HSTS_SECONDS", whole(0), 0, "so long browsers refuse anything but TLS", "s"),
        Variable("SECURE_HSTS_INCLUDE_SUBDOMAINS", flag, False, "for names below this one too"),
        Variable("SECURE_HSTS_PRELOAD", flag, False, "browsers may know it before the first visit"),
        Variable("SECURE_SSL_REDIRECT", flag, False,
            "plain HTTP is sent to HTTPS, but for health checks and `/metrics`"),
        Variable("DEBUG", flag, False, "error pages show settings: for development alone"),
    ),
    "Jobs": (
        Variable("JOBFARM_LEASE_S", positive, 60.0, "how long a silent worker keeps its job", "s"),
        Variable("JOBFARM_HEARTBEAT_S", positive, 20.0, "how often a worker reports", "s"),
        Variable("JOBFARM_UNCONFIRMED_LEASES", whole(2), 5,
            "from so many leases in a row that no call named, each counts as a lost attempt of its job"),
        Variable("JOBFARM_RETENTION_DAYS", whole(0), 30, "how long ended jobs are kept", "days"),
        Variable("JOBFARM_CONTENT_GRACE_S", whole(60), 300,
            "how long after its end what a job was given and gave can be read, where it is not kept", "s"),
        Variable("JOBFARM_SUBMIT_PER_MINUTE", positive, 600.0,
            "jobs that come in with one API token, on average; a person may have twice that"),
        Variable("JOBFARM_SUBMIT_BURST", positive, 2000.0, "and at once"),
        Variable("JOBFARM_MEMBER_PRIORITY", whole(-100, 100), 0,
            "the highest priority that members may choose beside what a kind says "
            "([accounts.md](accounts.md#priorities-and-queues))"),
        Variable("JOBFARM_MEMBER_QUEUES", values.words, [], "and the queues; `*` is all"),
        Variable("JOBFARM_HEAD_START_S", number, 2.0,
            "how long a job waits for a live worker that has what it prefers; 0: not at all "
            "([labels.md](labels.md))", "s"),
        Variable("JOBFARM_HALF_SENT_PER_ADDRESS", whole(1), 100,
            "requests of one address that may be half sent at a time"),
        Variable("JOBFARM_SIGN_UP", flag, True, "people make accounts by themselves ([accounts.md](accounts.md))"),
        Variable("JOBFARM_GUESTS", flag, True, "a captcha lets visitors in"),
        Variable("JOBFARM_PUBLIC_NUMBERS", flag, False,
            "the front page shows everybody numbers of the farm and a live picture "
            "([accounts.md](accounts.md#ways-in))",
            shown="0, and 1 under `make run`"),
    ),
    "People": (
        Variable("MFA_REQUIRED", values.one_of("none", "staff", "all"), "none",
            "who comes in with a second factor alone, and is led to one at the log-in "
            "([accounts.md](accounts.md#second-factors))"),
        Variable("OIDC_ISSUER", values.address, "",
            "such as `https://login.example.org/realms/team`: people log in at this OpenID provider "
            "([accounts.md](accounts.md#single-sign-on))"),
        Variable("OIDC_CLIENT_ID", text, "", "as which the farm is known there"),
        Variable("OIDC_CLIENT_SECRET", text, "", "and its secret", is_secret=True),
        Variable("OIDC_NAME", text, "single sign-on", "what the log-in page calls it"),
        Variable("OIDC_USERINFO", flag, True, "0 for a provider that says all in its ID token"),
        Variable("OIDC_GROUPS_CLAIM", text, "groups", "the claim that names somebody's groups there"),
        Variable("OIDC_GROUP_MAP", values.pairs, [],
            "`ml-team:operators,heads:staff`: a group there, and the group here that follows it; `staff` and "
            "`superuser` are no groups, but what they say"),
        Variable("REMOTE_USER_HEADER", text, "",
            "such as `X-Forwarded-User`: the header in which an authenticating proxy names who is there "
            "([accounts.md](accounts.md#behind-an-authenticating-proxy))"),
        Variable("REMOTE_EMAIL_HEADER", text, "", "and their address, of who is new"),
        Variable("REMOTE_GROUPS_HEADER", text, "", "and their groups, with commas between, for `OIDC_GROUP_MAP`"),
        Variable("REMOTE_USER_LOGOUT_URL", text, "/", "where the log-out leads: the proxy's own"),
        Variable("JOBFARM_AUDIT_DAYS", whole(1), 400,
            "how long lines of the [audit log](accounts.md#audit-log) are kept", "days"),
        Variable("SSO_ONLY", flag, False, "no passwords, no sign-up; guests and one-time links stay"),
        Variable("SOCIALACCOUNT_PROVIDERS", values.mapping, {},
            "other providers, GitHub and Google among them, as JSON in the form of [django-allauth]"
            "(https://docs.allauth.org/en/latest/socialaccount/provider_configuration.html)", is_secret=True),
    ),
    "Quotas": (
        Variable("JOBFARM_OUTPUT_BYTES_PER_ATTEMPT", _quota, 50_000_000,
            "output of one attempt ([operations.md](operations.md#quotas))", "bytes"),
        Variable("JOBFARM_OUTPUT_BYTES_PER_JOB", _quota, 200_000_000, "output of all attempts of a job", "bytes"),
        Variable("JOBFARM_OUTPUT_PIECES_PER_ATTEMPT", _quota, 500_000, "pieces of it"),
        Variable("JOBFARM_FILES_PER_ATTEMPT", _quota, 200, "files of one attempt"),
        Variable("JOBFARM_FILES_PER_JOB", _quota, 1000, "files of all attempts of a job"),
        Variable("JOBFARM_FILE_BYTES_PER_ATTEMPT", _quota, 500_000_000, "in these files", "bytes"),
        Variable("JOBFARM_FILE_BYTES_PER_JOB", _quota, 2_000_000_000, "in these files", "bytes"),
        Variable("JOBFARM_WAITING_JOBS_PER_OWNER", _quota, 100_000,
            "waiting jobs of one owner; here and below 0 is no quota"),
        Variable("JOBFARM_WAITING_JOBS_IN_ALL", _quota, 10_000_000, "waiting jobs"),
        Variable("JOBFARM_WORKERS_PER_OWNER", _quota, 100,
            "workers of one member whose keys are good, or were made within a day"),
        Variable("JOBFARM_QUEUES_PER_OWNER", _quota, 50, "queues that come into being with one member's workers"),
        Variable("JOBFARM_REQUIREMENTS_PER_OWNER", _quota, 100,
            "different sets of conditions on labels that waiting and running jobs of one owner have "
            "([labels.md](labels.md#bounds))"),
        Variable("JOBFARM_REQUIREMENTS_IN_ALL", _quota, 1000, "such sets of all jobs; each costs every claim"),
        Variable("JOBFARM_OUTPUT_BYTES_PER_OWNER", _quota, 5_000_000_000, "output of one owner's jobs", "bytes"),
        Variable("JOBFARM_OUTPUT_BYTES_IN_ALL", _quota, 100_000_000_000, "output of all jobs", "bytes"),
        Variable("JOBFARM_FILES_PER_OWNER", _quota, 100_000,
            "files of one owner's jobs, and those that the owner uploaded"),
        Variable("JOBFARM_FILES_IN_ALL", _quota, 10_000_000, "files of all jobs"),
        Variable("JOBFARM_FILE_BYTES_PER_OWNER", _quota, 20_000_000_000, "in these files", "bytes"),
        Variable("JOBFARM_FILE_BYTES_IN_ALL", _quota, 500_000_000_000, "in these files", "bytes"),
    ),
    "OpenAI's API": (
        Variable("JOBFARM_BATCHES_PER_OWNER", whole(1), 50,
            "batches of one person that have yet to end ([front-door.md](front-door.md#batches))"),
        Variable("JOBFARM_OPENAI_FILE_BYTES", whole(1), 200_000_000, "one file of `/v1/files`", "bytes"),
        Variable("JOBFARM_OPENAI_FILE_DAYS", positive, 30.0, "how long files and ended batches are kept", "days"),
        Variable("JOBFARM_OPENAI_CACHE_S", positive, 86400.0, "an answer is given again by `X-Cache` for so long", "s"),
        Variable("JOBFARM_OPENAI_KEEP_CONTENT", flag, True,
            "prompts and answers stay as long as their job ([security.md](security.md#what-is-not-kept))"),
        Variable("JOBFARM_OPENAI_REDACT", text, "",
            "a pattern of RE2, such as `[\\w.]+@[\\w.]+`: what matches it in calls and answers is redacted"),
        Variable("JOBFARM_OPENAI_RETRY_GRACE", positive, 10.0,
            "so long a call goes on whose client gave up waiting and may repeat it; OpenAI's wait 8 s at most", "s"),
        Variable("JOBFARM_OPENAI_RESTART_GRACE", number, 120.0,
            "so long calls of a model wait whose last worker ended, or lost its model server", "s"),
    ),
    "Scheduler": (
        Variable("SCHEDULING_WORKERS", whole(1), 2, "processes of each cluster"),
        Variable("SCHEDULING_GRACE_S", number, 30.0, "how long actions may go on after SIGTERM", "s"),
        Variable("SCHEDULING_HOPELESS_S", number, 10.0,
            "how long after its timeout an action that ignores it is killed", "s"),
        Variable("SCHEDULING_RETENTION_DAYS", number, 7.0, "how long ended functions are kept", "days"),
        Variable("SCHEDULING_MOST_COLLISIONS", whole(1), 100, "runs of a mutation that collided, until it is failed"),
        Variable("SCHEDULING_MOST_DEATHS", whole(1), 3, "deaths of the process that ran it, until it is failed"),
        Variable("SCHEDULING_GUARDS", flag, None,
            "what leaves a mutation, and what actions write past mutations, is an error "
            "([scheduling.md](scheduling.md#what-the-guards-see))", shown="0, and 1 under `make run` and with `DEBUG`"),
    ),
    "Webhooks": (
        Variable("WEBHOOKS_PER_MINUTE", positive, 3000.0,
            "requests from one address to one source ([webhooks.md](webhooks.md#what-bad-input-gets))"),
        Variable("WEBHOOKS_ANSWER_WITHIN_S", positive, 8.0, "after so long a sender is answered 503", "s"),
        Variable("WEBHOOKS_ATTEMPTS", whole(1), 5, "attempts before a delivery is dead"),
        Variable("WEBHOOKS_FIRST_RETRY_S", number, 60.0,
            "the wait after the first; each next one is four times as long", "s"),
        Variable("WEBHOOKS_ATLASSIAN_OLDEST_S", positive, 86400.0,
            "how old an event of Jira or Confluence may be", "s"),
        Variable("WEBHOOKS_RETENTION_DAYS", number, 90.0,
            "how long what came by webhooks and ended well is kept", "days"),
        Variable("WEBHOOKS_SANDBOX_RETENTION_DAYS", number, 14.0, "the same for what sandboxes print", "days"),
        Variable("LLM_SERVERS", values.addresses, [], "OpenAI-compatible servers whose models are listed every night"),
        Variable("LLM_API_KEY", text, "", "the key for all of them", is_secret=True),
    ),
    "Usage and budgets": (
        Variable("METERING_CURRENCY", text, "USD",
            "what prices and budgets of money are in: a word, nothing is converted"),
        Variable("METERING_KINDS", values.words, [],
            "kinds whose results have OpenAI's `usage` and whose payloads have `model` ([usage.md](usage.md))"),
        Variable("METERING_RETENTION_DAYS", whole(1), 400, "how long days of usage are kept", "days"),
    ),
    "Outbox": (
        Variable("OUTBOX_ALLOWED_NETWORKS", values.networks, [],
            "such as `10.1.0.0/16`: private networks that events may be sent to "
            "([outbox.md](outbox.md#no-way-in))", shown="none"),
        Variable("OUTBOX_CALLBACK_HOSTS", values.words, [],
            "hosts that `callback_url` of a submit may name; `.example.org` is all below it, `*` all; empty: none"),
        Variable("OUTBOX_TIMEOUT_S", positive, 15.0, "after so long an attempt has failed", "s"),
        Variable("OUTBOX_RESULT_BYTES", whole(0), 100_000, "a larger result is left out of its event", "bytes"),
        Variable("OUTBOX_IN_FLIGHT", whole(1), 200,
            "requests of one sender at a time; a quarter of them to all endpoints of one owner"),
        Variable("OUTBOX_IN_FLIGHT_PER_ENDPOINT", whole(1), 10, "and of them to one endpoint"),
        Variable("OUTBOX_PAUSE_AFTER_HOURS", positive, 72.0,
            "an endpoint of which every attempt failed for so long is paused", "hours"),
        Variable("OUTBOX_RETENTION_DAYS", number, 30.0, "how long messages that have ended are kept", "days"),
    ),
    "Mail": (
        Variable("EMAIL_HOST", text, "",
            "the server that takes messages of alerts ([alerts.md](alerts.md)); without it none is sent by mail"),
        Variable("EMAIL_PORT", whole(1, 65535), 25, "its port: often 587 with TLS, 465 with SSL"),
        Variable("EMAIL_HOST_USER", text, "", "who logs in there; without one nobody does"),
        Variable("EMAIL_HOST_PASSWORD", text, "", "with this password", is_secret=True),
        Variable("EMAIL_USE_TLS", flag, False, "STARTTLS before the login and the mail"),
        Variable("EMAIL_USE_SSL", flag, False, "TLS from the first byte; not together with `EMAIL_USE_TLS`"),
        Variable("DEFAULT_FROM_EMAIL", text, "jobfarm@localhost", "who messages come from"),
    ),
    "Processes and connections": (
        Variable("JOBFARM_DB_POOL", whole(1), POOL_MAX, "connections of a process to the database"),
        Variable("JOBFARM_DB_THREADS", whole(1), THREADS,
            "threads of a process that ask the database for sockets and webhooks"),
        Variable("JOBFARM_PREPARE", flag, True, "prepared statements; 0 for poolers without them"),
        Variable("JOBFARM_DB_STARTUP_OPTIONS", flag, True,
            "`options` when connecting; 0 for poolers that refuse them, then set `jit = off` and `plan_cache_mode "
            "= force_generic_plan` for the role"),
        Variable("JOBFARM_EMBEDDED_SOCKET", text, "",
            "set by `manage.py farm` itself for a process without root's rights"),
        Variable("JOBFARM_PAGE_SOCKETS", whole(1), sockets(),
            "sockets of pages that one process takes; others get 403 and come back",
            shown="5,000, at most half of `ulimit -Hn`"),
        Variable("JOBFARM_PAGE_SOCKETS_PER_ADDRESS", whole(1), 500, "and of them from one address"),
        Variable("JOBFARM_PAGE_SOCKETS_PER_PERSON", whole(1), 200, "and of them of one person, from wherever"),
        Variable("JOBFARM_EVENT_STREAMS_PER_PERSON", whole(1), max(1, min(1000, sockets() // 2)),
            "event streams of the API that one person has open at one process; one more is refused with 429",
            shown="1,000, at most a quarter of `ulimit -Hn`"),
        Variable("JOBFARM_PAGE_BURST", whole(1), 300,
            "what a page may ask for at once: a message weighs 10, each kilobyte and each part of the page 1"),
        Variable("JOBFARM_PAGE_PER_SECOND", whole(1), 10,
            "and a second after that; what exceeds it waits, and twice the burst closes the socket with 4429"),
    ),
    "Logs and numbers": (
        Variable("JOBFARM_LOG", values.one_of(*observing.logs.FORMS), "text",
            "log lines for people, or as JSON ([operations.md](operations.md#logs))"),
        Variable("LOG_LEVEL", values.one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "WARNING",
            "from which level on"),
        Variable("JOBFARM_METRICS_TOKEN", text, "",
            "what Prometheus shows to read `/metrics`, which is closed without it", is_secret=True),
    ),
}  # fmt: skip
VARIABLES: Final = tuple(variable for section in SECTIONS.values() for variable in section)


def of_apps(apps: Iterable[str]) -> tuple[Variable, ...]:
    """The variables that these apps declare: `VARIABLES` of their `environment.py`, each a name, what reads it (a
    function of `values`, by its name), a default, a meaning and perhaps a unit."""
    declared = []
    for app in apps:
        if values.is_importable(module := f"{app}.environment"):
            declared += importlib.import_module(module).VARIABLES
    return tuple(Variable(name, getattr(values, read), *rest) for name, read, *rest in declared)
