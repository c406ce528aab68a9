"""Settings of the farm. What differs from one machine to the next comes from the environment: jobfarm.environment.table
has the names, bounds and defaults, and docs/settings.md is written from there."""

import os
import secrets
import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import django
from django.templatetags.static import static
from django.urls import reverse_lazy

import jobfarm.environment.values
import live.configuration
import observing.logs
import postgres.configuration
from core.commands import CODE

BASE_DIR = CODE
_ENV = jobfarm.environment.load()  # before anything is served, or opened with a key that is a placeholder
JOBFARM_DATA: Path = _ENV["JOBFARM_DATA"]
PORT: int = _ENV["PORT"]  # of the web server
WEB_PROCESSES: int = _ENV["WEB_PROCESSES"]
JOBFARM_URL: str = _ENV["JOBFARM_URL"].rstrip("/")  # where people find this farm; empty: nobody says


def _own_secret() -> str:
    """The key that signs sessions: given, or made once and kept where only this user can read it."""
    path = JOBFARM_DATA / "secret_key"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(50))
        return path.read_text().strip()
    except OSError as error:
        sys.exit(f"The secret key of this farm is in {path}, which cannot be used: {error.strerror}. Set JOBFARM_DATA.")


DEBUG: bool = _ENV["DEBUG"]
SECRET_KEY = _ENV["SECRET_KEY"] or _own_secret()
ALLOWED_HOSTS = _ENV["ALLOWED_HOSTS"]
CSRF_TRUSTED_ORIGINS = _ENV["CSRF_TRUSTED_ORIGINS"]

# The examples, and apps of one's own from folders on PYTHONPATH (docs/your-own-app.md); and what the environment says
# of the variables that these declare.
JOBFARM_APPS: list[str] = _ENV["JOBFARM_APPS"]
OF_APPS = {variable.name: _ENV[variable.name] for variable in jobfarm.environment.table.of_apps(JOBFARM_APPS)}
# Single sign-on at other sites by allauth's own settings, and at the provider that the OIDC_ variables name.
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = dict(_ENV["SOCIALACCOUNT_PROVIDERS"])
_OPENID = SOCIALACCOUNT_PROVIDERS.setdefault("openid_connect", {})
_OPENID["provider_class"] = "accounts.views.single_sign_on.Provider"
INSTALLED_APPS = [
    "unfold", "jobfarm.lazy_admin.LazyAdminConfig",  # Django's administration
    "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.messages",
    "whitenoise.runserver_nostatic", "django.contrib.staticfiles", "channels", "django_htmx", "captcha", "ninja",
    "live", "django_q", "django.contrib.humanize", "allauth", "allauth.account", "allauth.usersessions", "allauth.mfa",
    "allauth.socialaccount", *(f"allauth.socialaccount.providers.{name}" for name in sorted(SOCIALACCOUNT_PROVIDERS)),
    # Django 6 has its own tasks, and asks for the app of PostgreSQL's types.
    "django_tasks" if django.VERSION < (6,) else "django.contrib.postgres",
    "scheduling", "ratelimits", "accounts", "outbox", "jobs", "webhooks", "metering", "alerts", "openai_api",
    *JOBFARM_APPS, "jobfarm",
]  # fmt: skip

MIDDLEWARE = [
    "jobs.http.for_other_sites", "jobfarm.middleware.api_form", "ratelimits.http.report",
    "django.middleware.security.SecurityMiddleware", "jobfarm.middleware.content_security_policy",
    "jobfarm.middleware.StaticFiles",  # which any name may ask for, as a copy in front does
    "django.middleware.common.CommonMiddleware", "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "jobfarm.middleware.of_programs",  # whose calls go no further
    "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware", "allauth.account.middleware.AccountMiddleware",
    "jobfarm.middleware.explain_not_allowed",
]  # fmt: skip

ROOT_URLCONF = "jobfarm.urls"
ASGI_APPLICATION = "jobfarm.asgi.application"

_PROCESSORS = [
    "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages", "jobfarm.navigation.navigation",
]  # fmt: skip
_EVERYWHERE = [  # in templates, which need not load them
    "django.templatetags.static", "django.templatetags.l10n", "live.templatetags.words", "live.templatetags.live",
    "live.templatetags.trees", "jobfarm.markup",
]  # fmt: skip
TEMPLATES: list[dict[str, Any]] = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [BASE_DIR / "templates"], "APP_DIRS": True,
    "OPTIONS": {"context_processors": _PROCESSORS, "builtins": _EVERYWHERE},
}]  # fmt: skip

DATABASES = {"default": postgres.configuration.database(
    _ENV["DATABASE_URL"], data=JOBFARM_DATA, pool_max=_ENV["JOBFARM_DB_POOL"], prepares=_ENV["JOBFARM_PREPARE"],
    startup_options=_ENV["JOBFARM_DB_STARTUP_OPTIONS"], direct_url=_ENV["DATABASE_DIRECT_URL"],
    socket_folder=_ENV["JOBFARM_EMBEDDED_SOCKET"],
)}  # fmt: skip
DATABASE_THREADS: int = _ENV["JOBFARM_DB_THREADS"]
_IS_TEST = "pytest" in sys.modules or "JOBFARM_TEST_DATABASE" in os.environ
if _test_database := os.environ.get("JOBFARM_TEST_DATABASE"):  # a server that a test starts (tests/servers.py)
    DATABASES["default"]["NAME"] = _test_database
if _ENV["DATABASE_URL"] and not _IS_TEST:
    DATABASES["default"]["MARK_IN"] = JOBFARM_DATA  # no embedded one is used there (postgres.embedded)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CHANNEL_LAYERS = live.configuration.channel_layers(_ENV["REDIS_URL"])

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = reverse_lazy("account_login")
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = reverse_lazy("account_login")

SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_COOKIES: bool = _ENV["SECURE_COOKIES"]  # on behind TLS; off for http://127.0.0.1
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
# Once all of a name is served over TLS: browsers then refuse anything else for so many seconds (docs/security.md).
SECURE_HSTS_SECONDS = _ENV["SECURE_HSTS_SECONDS"]
SECURE_HSTS_INCLUDE_SUBDOMAINS = _ENV["SECURE_HSTS_INCLUDE_SUBDOMAINS"]
SECURE_HSTS_PRELOAD = _ENV["SECURE_HSTS_PRELOAD"]
SECURE_SSL_REDIRECT = _ENV["SECURE_SSL_REDIRECT"]
SECURE_REDIRECT_EXEMPT = [r"^health/", r"^metrics$"]  # load balancers and Prometheus come by plain HTTP
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en-gb"
USE_I18N = USE_TZ = True
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = ["jobfarm.formats"]

STATIC_URL = "static/"
STATIC_ROOT = JOBFARM_DATA / "static"
WHITENOISE_USE_FINDERS = True  # no collectstatic needed: files are found where they lie
WHITENOISE_AUTOREFRESH = DEBUG
MEDIA_ROOT = JOBFARM_DATA / "files"
# Where result files lie, and where browsers fetch them from, when it is not here.
_FILES, FILES_ORIGIN = jobfarm.environment.values.files_storage(_ENV["FILES_URL"])
STORAGES = {"default": _FILES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}

# Lines for people, or one JSON object a line (docs/operations.md names its fields).
LOGGING = observing.logs.configuration(
    form=_ENV["JOBFARM_LOG"], level=_ENV["LOG_LEVEL"], filters={"outages": "postgres.reachability.Outages"}
)
# What Prometheus shows to read /metrics; without it there is no such page.
METRICS_TOKEN = _ENV["JOBFARM_METRICS_TOKEN"]

# Messages of alerts (docs/alerts.md) and of the outbox. Without a host none is sent by mail.
HAS_MAIL_SERVER = bool(_ENV["EMAIL_HOST"])
_MAIL_S = 20  # for each answer of the server
if django.VERSION < (6, 1):
    EMAIL_HOST: str = _ENV["EMAIL_HOST"]
    EMAIL_PORT: int = _ENV["EMAIL_PORT"]
    EMAIL_HOST_USER: str = _ENV["EMAIL_HOST_USER"]
    EMAIL_HOST_PASSWORD: str = _ENV["EMAIL_HOST_PASSWORD"]
    EMAIL_USE_TLS: bool = _ENV["EMAIL_USE_TLS"]
    EMAIL_USE_SSL: bool = _ENV["EMAIL_USE_SSL"]
    EMAIL_TIMEOUT = _MAIL_S
else:  # which has this in place of those, and warns of them
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.smtp.EmailBackend", "OPTIONS": {
        "host": _ENV["EMAIL_HOST"], "port": _ENV["EMAIL_PORT"], "username": _ENV["EMAIL_HOST_USER"],
        "password": _ENV["EMAIL_HOST_PASSWORD"], "use_tls": _ENV["EMAIL_USE_TLS"], "use_ssl": _ENV["EMAIL_USE_SSL"],
        "timeout": _MAIL_S,
    }}}  # fmt: skip
DEFAULT_FROM_EMAIL: str = _ENV["DEFAULT_FROM_EMAIL"]

# What django-allauth does for people (docs/adr/0120): the rules that are this farm's are its adapter's.
ACCOUNT_ADAPTER = "accounts.views.logins.Adapter"
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "optional" if HAS_MAIL_SERVER else "none"
ACCOUNT_EMAIL_NOTIFICATIONS = HAS_MAIL_SERVER
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""
ACCOUNT_PREVENT_ENUMERATION = "strict"  # two people may name one address; who reads its mail proves whose it is
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True  # for addresses and accounts of providers: each is a way in
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
ACCOUNT_AUTHENTICATED_LOGIN_REDIRECTS = False  # guests may log in; our views send the others on
# For two of allauth's accounts.limits has stricter ones; `login_failed` is then about codes of second factors alone.
ACCOUNT_RATE_LIMITS = {
    "login": None, "signup": None, "login_failed": "10/m/ip,10/h/key", "reset_password": "20/h/ip,5/h/key",
}  # fmt: skip
SOCIALACCOUNT_ADAPTER = "accounts.views.single_sign_on.Adapter"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True  # of verified addresses
REMOTE_USER_HEADER: str = _ENV["REMOTE_USER_HEADER"]
REMOTE_EMAIL_HEADER: str = _ENV["REMOTE_EMAIL_HEADER"]
REMOTE_GROUPS_HEADER: str = _ENV["REMOTE_GROUPS_HEADER"]
REMOTE_USER_LOGOUT_URL: str = _ENV["REMOTE_USER_LOGOUT_URL"]
if REMOTE_USER_HEADER:
    MIDDLEWARE.append("accounts.views.single_sign_on.follow_proxy")
OIDC_ISSUER: str = _ENV["OIDC_ISSUER"].rstrip("/")
OIDC_CLIENT_ID: str = _ENV["OIDC_CLIENT_ID"]
OIDC_GROUPS_CLAIM: str = _ENV["OIDC_GROUPS_CLAIM"]
OIDC_GROUP_MAP: list[tuple[str, str]] = _ENV["OIDC_GROUP_MAP"]
# From the log-in on, whatever is done in it; and a quarter of an hour until its open pages end: who was switched off is
# out within an hour.
OIDC_SESSION = timedelta(minutes=45)
SSO_ONLY: bool = _ENV["SSO_ONLY"]
AUDIT_DAYS: int = _ENV["JOBFARM_AUDIT_DAYS"]
if OIDC_ISSUER:
    _OPENID.setdefault("APPS", []).append({
        "provider_id": "sso", "name": _ENV["OIDC_NAME"], "client_id": OIDC_CLIENT_ID,
        "secret": _ENV["OIDC_CLIENT_SECRET"],
        "settings": {"server_url": OIDC_ISSUER, "fetch_userinfo": _ENV["OIDC_USERINFO"]},
    })  # fmt: skip
MFA_REQUIRED: str = _ENV["MFA_REQUIRED"]
MFA_ADAPTER = "accounts.views.logins.SecondFactors"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = not SSO_ONLY
MFA_ALLOW_UNVERIFIED_EMAIL = True  # an address opens nothing here but a new password
MFA_TOTP_ISSUER = "jobfarm"
MFA_TOTP_TOLERANCE = 1  # steps of 30 s: clocks of phones
# What all web processes know of codes that were used, and of how often one tried.
CACHES = {"default": {
    "BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "jobfarm_cache",
    "OPTIONS": {"MAX_ENTRIES": 10_000}, "KEY_FUNCTION": "accounts.domain.cache_key",
}}  # fmt: skip

# The picture that guests read. Its letters are chosen in accounts.domain.
CAPTCHA_FONT_SIZE = 36
CAPTCHA_LETTER_ROTATION = (-25, 25)
CAPTCHA_NOISE_FUNCTIONS = ("accounts.views.guests.lines",)
CAPTCHA_FILTER_FUNCTIONS = ("accounts.views.guests.bend", "captcha.helpers.post_smooth")
CAPTCHA_TIMEOUT = 10  # minutes in which it must be read

# The farm's own blue (jobfarm/values.css) in the steps that the administration's sheet asks for.
PRIMARY = {
    "50": "#f3f4fd", "100": "#eceefb", "200": "#d5d9f6", "300": "#b6c0ff", "400": "#9dabff", "500": "#8a98f5",
    "600": "#3d4fc4", "700": "#3141a8", "800": "#283586", "900": "#20253e", "950": "#10142e",
}  # fmt: skip


def _static(path: str, _request: Any) -> str:
    return static(path)


UNFOLD = {
    **dict.fromkeys(("SITE_TITLE", "SITE_HEADER"), "jobfarm"), "SITE_SUBHEADER": "Administration", "SITE_URL": "/",
    "SITE_ICON": partial(_static, "jobfarm/favicon.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": partial(_static, "jobfarm/favicon.svg")}],
    "SHOW_HISTORY": True, "SHOW_VIEW_ON_SITE": True, "SHOW_BACK_BUTTON": True,
    "STYLES": [partial(_static, path) for path in ("jobfarm/values.css", "jobs/charts.css", "live/admin.css")],
    "SCRIPTS": [partial(_static, path) for path in ("jobfarm/app.js", "live/live.js", "live/admin.js")],
    "COLORS": {"primary": PRIMARY},
    "DASHBOARD_CALLBACK": "jobfarm.administration.dashboard",
    "SIDEBAR": {"show_search": True, "navigation": "jobfarm.administration.sidebar"},
}  # fmt: skip


def _group(prefix: str, **constants: Any) -> dict[str, Any]:
    """What the environment says of the variables that begin so, without the prefix; and what it cannot change."""
    variables = {name.removeprefix(prefix): value for name, value in _ENV.items() if name.startswith(prefix)}
    return {**variables, **constants}


# How the farm treats jobs; docs/settings.md has what is not here. Durations in seconds, unless a name says otherwise.
JOBFARM = _group(
    "JOBFARM_",
    JANITOR_S=3.0,  # the longest the janitor sleeps: of the 5 s in which a silent worker is noticed, 2 s are left
    EXCLUSION_S=30.0,  # how long a worker that failed a job leaves it to the others
    WORKER_ALIVE_S=90.0,  # a worker last seen within this counts as live: a lease and half
    PAYLOAD_BYTES=1_000_000,
    FILE_BYTES=50_000_000,
    BODY_BYTES=10_000_000,  # of any other request: ten payloads in one call
)
DATA_UPLOAD_MAX_MEMORY_SIZE = JOBFARM["BODY_BYTES"]
# Templates that other apps add to the page of one's own account: accounts knows none of them.
ACCOUNT_CARDS = ("jobs/parts/account_card.html", "outbox/parts/account_card.html", "openai_api/parts/account_card.html")

# Pages' sockets (docs/adr/0004).
LIVE: dict[str, int] = _group("JOBFARM_PAGE_", STREAMS_PER_PERSON=_ENV["JOBFARM_EVENT_STREAMS_PER_PERSON"])

OPENAI = _group("JOBFARM_OPENAI_", BATCHES_PER_OWNER=_ENV["JOBFARM_BATCHES_PER_OWNER"])
# A function that a worker had in its hands and that was not started is given to one again after LEASE_S.
SCHEDULING = _group("SCHEDULING_", LEASE_S=5.0)
SCHEDULING["CRONS"] = not _IS_TEST  # in tests only those fire that a test declares
# Outside connections in a mutation, and writes of an action past its mutations, are errors while one develops.
_GUARDS: bool | None = _ENV["SCHEDULING_GUARDS"]
SCHEDULING_GUARDS = DEBUG or _IS_TEST if _GUARDS is None else _GUARDS
TASKS = {"default": {"BACKEND": "scheduling.backend.SchedulingBackend", "QUEUES": []}}
# django-q2 is the pool of processes; its own tasks and schedules (async_task) are run by the cluster for actions.
Q_CLUSTER: dict[str, Any] = {
    "name": "jobfarm", "label": "django-q2", "broker_class": "scheduling.cluster.django_q2.Broker",
    "workers": SCHEDULING["WORKERS"],
    "recycle": 5000,  # tasks until a worker is replaced by a fresh one; a batch of mutations is one task
    "timeout": 300, "retry": 360, "ack_failures": True, "catch_up": False, "log_level": "WARNING",
    "ALT_CLUSTERS": {"mutations": {"scheduler": False}},
}  # fmt: skip

WEBHOOKS = _group("WEBHOOKS_")
METERING = _group("METERING_")
OUTBOX = _group("OUTBOX_", ENDPOINTS_PER_OWNER=20, SOURCE=JOBFARM_URL or f"http://127.0.0.1:{PORT}")  # ce-source
# OpenAI-compatible servers whose models are listed every night: addresses that /models is added to, comma between.
# A key for all of them, if they need one, is LLM_API_KEY.
LLM_SERVERS = _ENV["LLM_SERVERS"]
LLM_API_KEY = _ENV["LLM_API_KEY"]
