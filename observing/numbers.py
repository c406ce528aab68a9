"""What one process counts of its own doing, for Prometheus. What the whole farm has in common is read from the
database instead (jobfarm.metrics).

Labels have few values each, all of them ours: queues, names of limits, sources. Nothing that a stranger chooses.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

# When a series began is another series; nothing here asks.
disable_created_metrics()  # type: ignore[no-untyped-call]

CLAIMED = Counter("jobfarm_jobs_claimed", "Jobs that this process handed to workers.", ["queue"])
DENIED = Counter("jobfarm_limit_denials", "Times that a rate limit denied in this process.", ["limit"])
WEBHOOKS = Counter("jobfarm_webhook_requests", "Webhook requests answered by this process.", ["source", "status"])
REQUESTS = Counter("jobfarm_http_requests", "Requests answered by this process.", ["part", "status"])
REQUEST_SECONDS = Histogram(
    "jobfarm_http_request_seconds",
    "How long requests took that do not wait for something to happen.",
    ["part"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
PAGE_SOCKETS_REFUSED = Counter(
    "jobfarm_page_sockets_refused", "Page sockets that this process refused or closed for a limit.", ["reason"]
)
PAGE_WATCHES_REFUSED = Counter("jobfarm_page_watches_refused", "Watches refused before any database read.", ["reason"])
PAGE_MESSAGES_DELAYED = Counter(
    "jobfarm_page_messages_delayed", "Parts of messages that waited because their socket asks too fast."
)
OPEN = Gauge("jobfarm_open_connections", "What this process holds open now.", ["kind"])

# Of janitors alone: apart from the others, so that no web process shows them.
JANITOR = CollectorRegistry()
SWEPT = Counter(
    "jobfarm_janitor_jobs",
    "Jobs that this janitor took back, timed out while they waited, or opened to their workers again.",
    ["result"],
    registry=JANITOR,
)
SWEEP_SECONDS = Histogram(
    "jobfarm_janitor_sweep_seconds",
    "How long its sweeps took.",
    buckets=(0.005, 0.025, 0.1, 0.5, 2.5, 10),
    registry=JANITOR,
)
JANITOR_ERRORS = Counter("jobfarm_janitor_errors", "Times that it lost the database and tried again.", registry=JANITOR)
OUTBOX_ATTEMPTS = Counter(
    "jobfarm_outbox_attempts",
    "Attempts of this janitor to send a message, by what they came to.",
    ["outcome"],
    registry=JANITOR,
)
for _outcome in ("delivered", "failed", "gone"):
    OUTBOX_ATTEMPTS.labels(_outcome)
for _result in ("taken_back", "expired"):
    SWEPT.labels(_result)  # from the beginning, so that a first one is an increase
