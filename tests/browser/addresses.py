"""Every page there is, for a farm that was seeded (`tests.browser.seeds`): one table for the walk and the pictures."""

from dataclasses import dataclass

from tests.browser.seeds import Farm

# Lists of the administration that stand for the others: each is made in another way.
ADMIN_LISTS = (
    "jobs/job", "jobs/worker", "scheduling/scheduledfunction", "ratelimits/bucket", "webhooks/delivery",
    "webhooks/secret", "chat/message", "auth/user",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A page: its name (that of its pictures), where it is, who looks ("boss", "member", "guest", or ""), and
    the status it answers with."""

    name: str
    path: str
    by: str = "boss"
    status: int = 200

    @property
    def is_admin(self) -> bool:
        """Whether it has the administration's looks."""
        return self.path.startswith("/admin/")


def addresses(seeded: Farm) -> list[Address]:
    """All of them."""
    return [
        *_of_jobs(seeded), *_of_operators(seeded), *_of_examples(seeded), *_of_people(seeded), *_of_faults(seeded),
        *_of_the_administration(seeded),
    ]  # fmt: skip


def _of_jobs(seeded: Farm) -> list[Address]:
    each = [Address(name=f"job-{how}", path=f"/jobs/{job.pk}/") for how, job in seeded.jobs.items()]
    done = seeded.jobs["success"].pk
    return [
        Address(name="overview", path="/"),
        Address(name="overview-member", path="/?period=day", by="member"),
        Address(name="jobs", path="/jobs/"),
        Address(name="jobs-none", path="/jobs/?text=nothing+like+it", by="member"),
        Address(name="jobs-submit", path="/jobs/new/"),
        *each,
        Address(name="job-shared", path=f"/jobs/shared/{seeded.share}/", by=""),
        Address(name="job-file-link", path=f"/jobs/{done}/files/transcript.txt/link"),
        Address(name="bulks", path="/jobs/bulk/"),
        Address(name="bulk", path=f"/jobs/bulk/{seeded.bulk.pk}/"),
        Address(name="queues", path="/queues/"),
        Address(name="queue", path="/queues/transcribe/"),
        Address(name="workers", path="/workers/"),
        Address(name="worker", path=f"/workers/{seeded.worker.pk}/"),
    ]


def _of_operators(seeded: Farm) -> list[Address]:
    each = [
        Address(name=f"function-{how}", path=f"/functions/{row.pk}/") for how, row in seeded.functions.items()
    ]
    return [
        Address(name="functions", path="/functions/"),
        *each,
        Address(name="crons", path="/crons/"),
        Address(name="cron", path=f"/crons/{seeded.cron.name}/"),
        Address(name="limits", path="/limits/"),
        Address(name="limit", path="/limits/one/?name=log-in&key=user:grace"),
        Address(name="inbox", path="/inbox/"),
        Address(name="delivery", path=f"/inbox/{seeded.delivery.pk}/"),
        Address(name="delivery-ignored", path=f"/inbox/{seeded.ignored.pk}/"),
        Address(name="replays", path="/inbox/replays/"),
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
        Address(name="groups", path="/accounts/groups/"),
        Address(name="groups-member", path="/accounts/groups/", by="member"),
        Address(name="group", path=f"/accounts/groups/{seeded.group.pk}/"),
        Address(name="join", path=f"/accounts/join/{seeded.invitation}/", by="member"),
        Address(name="join-stranger", path=f"/accounts/join/{seeded.invitation}/", by=""),
        Address(name="login", path="/accounts/login/", by=""),
        Address(name="login-admin", path="/admin/login/?next=/admin/", by=""),
        Address(name="sign-up", path="/accounts/sign-up/", by=""),
        Address(name="guest", path="/accounts/guest/", by=""),
        Address(name="link-spent", path="/accounts/link/nothing/", by="", status=410),
    ]


def _of_faults(seeded: Farm) -> list[Address]:
    return [
        Address(name="error-404", path="/nowhere/", status=404),
        Address(name="error-404-stranger", path="/nowhere/", by="", status=404),
        Address(name="error-403", path="/limits/", by="member", status=403),
        Address(name="for-members", path="/jobs/new/", by="guest", status=403),
        Address(name="error-405", path=f"/jobs/{seeded.jobs['pending'].pk}/cancel/", status=405),
        Address(name="link-ran-out", path="/files/nothing", by="", status=410),
    ]


def _of_the_administration(seeded: Farm) -> list[Address]:
    lists = [
        Address(name=f"admin-{where.replace('/', '-')}", path=f"/admin/{where}/") for where in ADMIN_LISTS
    ]
    return [
        Address(name="admin", path="/admin/"),
        *lists,
        Address(name="admin-job", path=f"/admin/jobs/job/{seeded.jobs['failed'].pk}/change/"),
        Address(name="admin-delivery", path=f"/admin/webhooks/delivery/{seeded.delivery.pk}/change/"),
    ]
