"""Every page there is, for a farm that was seeded (`tests.browser.seeds`): one table for the walk and the pictures."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse

from core.administration import registered
from tests.browser.seeds import Farm


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A page: its name (that of its pictures), where it is, who looks ("boss", "member", "guest", or ""), and
    the status it answers with.

    Some are what comes of a button that is pressed there, by somebody who has lost the cookie that is named; and some
    of a farm whose bulk deeds fail with that SQLSTATE.
    """

    name: str
    path: str
    by: str = "boss"
    status: int = 200
    press: str = ""
    forgets: str = ""
    fails: str = ""


def of_the_site(seeded: Farm) -> list[Address]:
    """All pages but the administration's."""
    return [*_of_jobs(seeded), *_of_operators(seeded), *_of_examples(seeded), *_of_people(seeded), *_of_faults(seeded)]


def of_the_administration(seeded: Farm) -> list[Address]:
    """Its first page, every list, the page of the newest row of each, and one of each kind that is not like those.

    Every table needs a row.
    """
    tables = sorted(registered(), key=lambda table: str(table._meta.label))  # its only list
    return [
        Address(name="admin", path="/admin/"),
        Address(name="admin-limit-add", path="/admin/ratelimits/limit/add/"),
        *(address for table in tables for address in _of_table(table)),
        *_of_actions(seeded),
    ]


def _of_jobs(seeded: Farm) -> list[Address]:
    each = [Address(name=f"job-{how}", path=f"/jobs/{job.pk}/") for how, job in seeded.jobs.items()]
    done = seeded.jobs["success"].pk
    return [
        Address(name="front", path="/", by=""),
        Address(name="overview", path="/"),
        Address(name="overview-member", path="/?period=day", by="member"),
        Address(name="jobs", path="/jobs/"),
        Address(name="jobs-none", path="/jobs/?text=nothing+like+it", by="member"),
        Address(name="jobs-sorted", path="/jobs/?sort=run&status=failed"),
        Address(name="jobs-failures", path="/jobs/failures/"),
        Address(name="jobs-submit", path="/jobs/new/"),
        Address(name="jobs-submit-other", path=f"/jobs/new/?kind=other&like={done}", by="member"),
        *each,
        Address(name="job-attempts", path=f"/jobs/{seeded.jobs['tried'].pk}/attempts/"),
        Address(name="job-shared", path=f"/jobs/shared/{seeded.share}/", by=""),
        Address(name="job-file-link", path=f"/jobs/{done}/files/transcript.txt/link"),
        Address(name="flow", path=f"/flows/{seeded.flow}/"),
        Address(name="bulks", path="/jobs/bulk/"),
        Address(name="bulk", path=f"/jobs/bulk/{seeded.bulk.pk}/"),
        Address(name="queues", path="/queues/"),
        Address(name="queue", path="/queues/transcribe/"),
        Address(name="timeline", path="/timeline/?minutes=60"),
        Address(name="workers", path="/workers/"),
        Address(name="connect", path="/workers/connect/?queue=chat"),
        Address(name="connect-guest", path="/workers/connect/", by="guest"),
        Address(name="worker", path=f"/workers/{seeded.worker.pk}/"),
    ]


def _of_operators(seeded: Farm) -> list[Address]:
    each = [Address(name=f"function-{how}", path=f"/functions/{row.pk}/") for how, row in seeded.functions.items()]
    return [
        Address(name="functions", path="/functions/"),
        *each,
        Address(name="crons", path="/crons/"),
        Address(name="new-cron", path="/new-cron/"),
        Address(name="cron", path=f"/crons/{seeded.cron.name}/"),
        Address(name="alerts", path="/alerts/"),
        Address(name="alert-rule", path=f"/alerts/rules/{seeded.alert_rule}/"),
        Address(name="alert-new", path="/alerts/rules/new/"),
        Address(name="alert-new-form", path="/alerts/rules/new/?condition=failure_share"),
        Address(name="usage", path="/usage/"),
        Address(name="usage-by-day", path="/usage/?by=day&measure=tokens&kind=transcribe&days=90"),
        Address(name="usage-member", path="/usage/", by="member"),
        Address(name="limits", path="/limits/"),
        Address(name="limit", path="/limits/one/?name=log-in&key=user:grace"),
        Address(name="outbox", path="/outbox/"),
        Address(name="outbox-member", path="/outbox/", by="member"),
        Address(name="outbox-new", path="/outbox/new/"),
        Address(name="outbox-endpoint", path=f"/outbox/{seeded.endpoint.pk}/"),
        Address(name="outbox-endpoint-dead", path=f"/outbox/{seeded.endpoint.pk}/?status=dead"),
        Address(name="outbox-edit", path=f"/outbox/{seeded.endpoint.pk}/edit/"),
        Address(name="outbox-replay-ask", path=f"/outbox/{seeded.endpoint.pk}/replay/?status=dead"),
        Address(name="outbox-message", path=f"/outbox/messages/{seeded.message.pk}/"),
        Address(name="batches", path="/batches/"),
        Address(name="batches-none", path="/batches/", by="member"),
        Address(name="batch", path=f"/batches/{seeded.batch.pk}/"),
        Address(name="inbox", path="/inbox/"),
        Address(name="delivery", path=f"/inbox/{seeded.delivery.pk}/"),
        Address(name="delivery-ignored", path=f"/inbox/{seeded.ignored.pk}/"),
        Address(name="replays", path="/inbox/replays/"),
        Address(name="replay-ask", path="/inbox/replays/new/?source=github"),
        Address(name="sources", path="/inbox/sources/"),
        Address(name="source", path="/inbox/sources/github/"),
        Address(name="source-tokens", path="/inbox/sources/sandbox_hooks/"),
        Address(name="source-send", path="/inbox/sources/github/send/"),
        Address(name="activity", path="/activity/"),
    ]


def _of_examples(seeded: Farm) -> list[Address]:
    return [
        Address(name="chat", path="/chat/"),
        Address(name="chat-room", path=f"/chat/{seeded.group.pk}/", by="member"),
        Address(name="game", path="/game/"),
        Address(name="game-table", path=f"/game/{seeded.game.code}/"),
        Address(name="game-door", path=f"/game/{seeded.open_game.code}/"),
        Address(name="game-gallery", path="/game/gallery/"),
    ]


def _of_people(seeded: Farm) -> list[Address]:
    return [
        Address(name="account", path="/accounts/", by="member"),
        Address(name="second-factors", path="/accounts/2fa/", by="member"),
        Address(name="email", path="/accounts/email/", by="member"),
        Address(name="email-proof", path="/accounts/email/nothing/", by=""),
        Address(name="password-again", path="/accounts/confirm/", by="member"),
        Address(name="sessions", path="/accounts/sessions/", by="member"),
        Address(name="password", path="/accounts/password/", by="member"),
        Address(name="totp", path="/accounts/2fa/totp/activate/", by="member"),
        Address(name="security-key", path="/accounts/2fa/webauthn/add/", by="member"),
        Address(name="other-sites", path="/accounts/sso/", by="member"),
        Address(name="groups", path="/accounts/groups/"),
        Address(name="groups-member", path="/accounts/groups/", by="member"),
        Address(name="group", path=f"/accounts/groups/{seeded.group.pk}/"),
        Address(name="join", path=f"/accounts/join/{seeded.invitation}/", by="member"),
        Address(name="join-stranger", path=f"/accounts/join/{seeded.invitation}/", by=""),
        Address(name="login", path="/accounts/login/", by=""),
        Address(name="login-admin", path="/admin/login/?next=/admin/", by=""),
        Address(name="sign-up", path="/accounts/sign-up/", by=""),
        Address(name="guest", path="/accounts/guest/", by=""),
        Address(name="link", path=seeded.link, by=""),
        Address(name="link-spent", path="/accounts/link/nothing/", by="", status=410),
    ]


def _of_faults(seeded: Farm) -> list[Address]:
    too_many = "&".join(["period=day"] * (settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1))
    link = seeded.link
    return [
        Address(name="error-400", path=f"/?{too_many}", by="member", status=400),
        Address(name="error-404", path="/nowhere/", status=404),
        Address(name="error-404-stranger", path="/nowhere/", by="", status=404),
        Address(name="error-403", path="/limits/", by="member", status=403),
        Address(name="error-403-form", path=link, by="", press="Log in", forgets="csrftoken", status=403),
        Address(name="for-members", path="/jobs/new/", by="guest", status=403),
        Address(name="error-405", path=f"/jobs/{seeded.jobs['pending'].pk}/cancel/", status=405),
        Address(name="link-ran-out", path="/files/nothing", by="", status=410),
        Address(name="error-429", path=link, by="", press="Log in", status=429),
        Address(name="error-500", path="/jobs/bulk/", fails="XX000", status=500),  # an error within PostgreSQL
        Address(name="error-503", path="/jobs/bulk/", fails="53100", status=503),  # its disk is full
    ]


def _of_table(table: type[Model]) -> list[Address]:
    label = f"{table._meta.app_label}-{table._meta.model_name}"
    listed = reverse(f"admin:{label.replace('-', '_')}_changelist")
    newest = quote(table._default_manager.order_by("-pk").values_list("pk", flat=True)[0])
    return [
        Address(name=f"admin-{label}", path=listed),
        Address(name=f"admin-{label}-one", path=f"{listed}{newest}/change/"),
    ]


def _of_actions(seeded: Farm) -> list[Address]:
    worker = seeded.worker.pk
    return [
        Address(name="admin-add-user", path="/admin/auth/user/add/"),
        Address(name="admin-add-kind", path="/admin/jobs/kind/add/"),
        Address(name="admin-start-flow", path="/admin/jobs/flowtemplate/translate/start/"),
        Address(name="admin-add-rule", path="/admin/webhooks/rule/add/"),
        Address(name="admin-try-rule", path=f"/admin/webhooks/rule/{seeded.rule.pk}/try/"),
        Address(name="admin-password", path=f"/admin/auth/user/{seeded.member.pk}/password/"),
        Address(name="admin-delete", path=f"/admin/jobs/worker/{worker}/delete/"),
        Address(name="admin-history", path=f"/admin/jobs/worker/{worker}/history/"),
        Address(name="admin-filtered", path="/admin/jobs/job/?status=failed&created_at_day=2020-01-01"),
        Address(name="admin-404", path="/admin/nowhere/", status=404),
        Address(name="admin-403", path="/admin/login/", by="member", status=403),
    ]
