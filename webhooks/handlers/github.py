"""GitHub: repositories, pushes, pull requests, reviews, issues and deployments, and what else is worth a line.

A state is as new as the resource's own `updated_at`, which has whole seconds; within one second the action decides, as
closing comes after opening. Nothing of an event's envelope is trusted for it: it has no time.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from webhooks.domain import parts
from webhooks.domain.parts import ABSENT, ANY, COUNT, FLAG, ID, LINK, NUMBER, OBJECT, TEXT, Kind, Version, fields
from webhooks.handlers.activity import Line, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models import resources as models
from webhooks.queries.results import tombstone, upsert

_REPOSITORY = fields(
    text="full_name description default_branch language",
    flag="is_private=private is_archived=archived is_fork=fork",
    moment="created_at",
    link="link=html_url",
)
_ISSUE = fields(
    text="title state reason=state_reason author=user.login",
    number="number",
    moment="created_at closed_at",
    each_text="labels=labels.name assignees=assignees.login",
)
_PULL_REQUEST = fields(
    text="title state author=user.login head_ref=head.ref head_sha=head.sha base_ref=base.ref",
    number="number",
    flag="is_draft=draft",
    moment="created_at closed_at merged_at",
    each_text="labels=labels.name reviewers=requested_reviewers.login",
)
_PUSH = fields(
    text="before pusher=pusher.name",
    long="message=head_commit.message",
    count="commits",
    flag="is_creation=created is_deletion=deleted is_forced=forced",
    link="link=compare",
)
_REVIEW = fields(text="state author=user.login commit=commit_id")
_DEPLOYMENT = fields(text="environment task ref sha description author=creator.login", moment="created_at")
_STATUS = fields(text="state environment description author=creator.login", moment="created_at")

_RANKS = {"opened": 0, "created": 0, "submitted": 0, "closed": 2, "dismissed": 2, "reopened": 3}
# What happens often and means little, or comes as another event too.
_QUIET = frozenset(
    {"edited", "synchronize", "labeled", "unlabeled", "milestoned", "demilestoned", "locked", "unlocked", "pinned",
     "unpinned", "unassigned", "subscribed", "unsubscribed", "typed", "untyped", "enqueued", "dequeued"}
)  # fmt: skip
_VERBS = {
    "review_requested": "asked for a review of",
    "review_request_removed": "no longer asks for a review of",
    "ready_for_review": "marked as ready",
    "converted_to_draft": "made a draft of",
    "auto_merge_enabled": "lets merge by itself",
    "auto_merge_disabled": "no longer lets merge by itself",
}
_REVIEW_VERBS = {"approved": "approved", "changes_requested": "asked for changes to"}
_QUIET_STATES = frozenset({"", "queued", "pending", "in_progress", "waiting", "inactive"})
_GONE = frozenset({"deleted", "transferred"})  # a transferred issue goes on under another id
# One release comes three times: created and published come along with one of these.
_RELEASED = {"released": "released", "prereleased": "pre-released", "deleted": "deleted the release of"}

_COMMENTED = "created edited deleted"
_LISTED = "opened edited closed reopened assigned unassigned labeled unlabeled locked unlocked milestoned demilestoned"
_OF_ISSUES = f"{_LISTED} deleted transferred pinned unpinned typed untyped subscribed unsubscribed"
_OF_PULL_REQUESTS = (
    f"{_LISTED} synchronize review_requested review_request_removed ready_for_review converted_to_draft"
    " auto_merge_enabled auto_merge_disabled enqueued dequeued"
)
_OF_RELEASES = "created edited deleted prereleased published released unpublished"
_OF_REPOSITORIES = "created deleted archived unarchived edited renamed transferred publicized privatized"


def _types(family: str, actions: str) -> Iterable[str]:
    return (f"{family}.{action}" for action in actions.split())


class _Report:
    """An event whose repository was kept, which nearly every one carries; and who caused it."""

    def __init__(self, event: Event, needs: Mapping[str, Kind[Any]] | None = None, *, rank: int = 0) -> None:
        """`needs` is what nothing is written without. The repository's own events (`rank` 1) know it best."""
        self.event, self.body = event, event.read()
        for path, kind in (needs or {}).items():
            self.body.need(path, kind)
        repository = self.body.part("repository")
        number = repository.number("id")
        self.repository_id = None if number is None else str(number)
        self.where = repository.text("full_name") or self.repository_id or ""
        self.address = repository.get("html_url", LINK)
        self.updated_at, self.pushed_at = repository.moment("updated_at"), repository.moment("pushed_at")
        self.action, self.actor = self.body.text("action"), self.body.text("sender.login")
        if self.repository_id:
            version = event.version(self.updated_at, rank=rank)
            upsert(models.GithubRepository, self.repository_id, version, **repository.document(_REPOSITORY))

    @property
    def rank(self) -> int:
        return _RANKS.get(self.action, 1)

    @property
    def verb(self) -> str:
        return _VERBS.get(self.action) or self.action.replace("_", " ") or "changed"

    def link(self, *steps: object) -> str:
        """An address within the repository; "" if the body does not say that, or one of the steps is None."""
        return "" if None in steps else parts.under(self.address, *steps)

    def keep(self, table: type[models.Resource], path: str, version: Version, document: dict[str, Any]) -> str | None:
        """Keep the resource at a path, if there is one; its id."""
        number = self.body.number(f"{path}.id")
        if number is not None:
            upsert(table, str(number), version, **{"parent": self.repository_id or ABSENT, **document})
        return None if number is None else str(number)

    def emit(self, verb: str, target: str, **rest: Any) -> None:
        emit(self.event, Line(verb, target, actor=self.actor, **rest))

    def emit_of_repository(self, verb: str, target: str, *, at: datetime | None = None) -> None:
        where = f"{target} {self.where or 'an organization'}"
        self.emit(verb, where, at=at, about=(models.GithubRepository, self.repository_id), link=self.address or "")


class _Listed:
    """An issue or a pull request: to GitHub every pull request is an issue, too, but of another id."""

    def __init__(self, report: _Report, path: str) -> None:
        self.report, self.path = report, path
        self.part = report.body.part(path)
        self.is_issue = path == "issue" and self.part.get("pull_request", ANY) is None
        self.number = self.part.number("number")
        self.link = report.link("issues" if self.is_issue else "pull", self.number)
        self.id: str | None = None

    def keep(self, *, rank: int = 1) -> None:
        if self.path == "issue" and not self.is_issue:
            return
        table, of_table = (models.GithubIssue, _ISSUE) if self.is_issue else (models.GithubPullRequest, _PULL_REQUEST)
        link = {"link": self.link} if self.report.address is not None and self.number is not None else {}
        version = self.report.event.version(self.part.moment("updated_at"), rank=rank)
        self.id = self.report.keep(table, self.path, version, self.part.document(of_table) | link)

    def emit(self, verb: str, *, at: datetime | None) -> None:
        """The line of what somebody did to it: `octo/repo#7: Title`, without what the event does not say."""
        place = self.report.where + (f"#{self.number}" if self.number is not None else "")
        name = ": ".join(part for part in (place, self.part.text("title")) if part) or "of GitHub"
        label, table = ("issue", models.GithubIssue) if self.is_issue else ("pull request", models.GithubPullRequest)
        self.report.emit(verb, f"{label} {name}", at=at, about=(table, self.id), link=self.link)


@handles("github", *_types("repository", _OF_REPOSITORIES))
def repository(event: Event) -> None:
    report = _Report(event, {"repository.id": NUMBER}, rank=1)
    if report.action == "deleted":
        tombstone(models.GithubRepository, str(report.repository_id), at=report.updated_at or event.occurred_at)
    if report.action not in _QUIET:
        report.emit_of_repository(report.verb, "repository")


@handles("github", "push")
def push(event: Event) -> None:
    """A branch or tag moved. A push has no id of its own."""
    report = _Report(event, {"repository.id": NUMBER, "ref": TEXT, "after": ID})
    body, pushed_at = report.body, report.pushed_at or parts.EPOCH
    moved = {"ref": body.text("ref"), "before": body.text("before"), "after": body.text("after")}
    push_id = f"{report.repository_id}/{parts.digest({**moved, 'at': pushed_at})}"
    document = {**body.document(_PUSH), **moved, "parent": report.repository_id}
    upsert(models.GithubPush, push_id, Version(at=pushed_at), **document)
    if count := body.get("commits", COUNT):
        ref = moved["ref"].removeprefix("refs/heads/").removeprefix("refs/tags/")
        report.actor = body.text("pusher.name")
        report.emit(
            "force-pushed" if body.get("forced", FLAG) else "pushed",
            f"{count} {'commit' if count == 1 else 'commits'} to {report.where} {ref}",
            at=report.pushed_at,
            about=(models.GithubPush, push_id),
            link=body.get("compare", LINK) or "",
        )


@handles("github", *_types("issues", _OF_ISSUES))
def issue(event: Event) -> None:
    report = _Report(event, {"issue.id": NUMBER})
    listed = _Listed(report, "issue")
    listed.keep(rank=report.rank)
    at = listed.part.moment("updated_at")
    if report.action in _GONE and listed.id:
        tombstone(models.GithubIssue, listed.id, at=at or event.occurred_at)
    if report.action not in _QUIET:
        listed.emit(report.verb, at=at)


@handles("github", *_types("pull_request", _OF_PULL_REQUESTS))
def pull_request(event: Event) -> None:
    report = _Report(event, {"pull_request.id": NUMBER})
    listed = _Listed(report, "pull_request")
    listed.keep(rank=report.rank)
    if report.action not in _QUIET:
        is_merged = report.action == "closed" and listed.part.moment("merged_at") is not None
        listed.emit("merged" if is_merged else report.verb, at=listed.part.moment("updated_at"))


@handles("github", *_types("pull_request_review", "submitted edited dismissed"))
def review(event: Event) -> None:
    report = _Report(event, {"review.id": NUMBER})
    listed = _Listed(report, "pull_request")
    listed.keep()
    part = report.body.part("review")
    at = part.moment("submitted_at") or listed.part.moment("created_at")
    document = part.document(_REVIEW)
    if "state" in document:
        document["state"] = document["state"].lower()  # GitHub sends both cases
    if listed.id:
        document["parent"] = listed.id
    if listed.link:
        document["link"] = f"{listed.link}#pullrequestreview-{part.number('id')}"
    report.keep(models.GithubReview, "review", event.version(at, rank=report.rank), {"parent": ABSENT, **document})
    if report.action not in _QUIET:
        verb = _REVIEW_VERBS.get(document.get("state", ""), "reviewed")
        listed.emit(verb if report.action == "submitted" else "dismissed a review of", at=at)


@handles("github", *_types("issue_comment", _COMMENTED), *_types("pull_request_review_comment", _COMMENTED))
def comment(event: Event) -> None:
    path = "issue" if event.type.startswith("issue") else "pull_request"
    report = _Report(event, {f"{path}.id": NUMBER})
    listed = _Listed(report, path)
    listed.keep()
    if report.action == "created":
        listed.emit("commented on", at=report.body.moment("comment.created_at"))


@handles("github", "deployment.created", "deployment", "deployment_status.created", "deployment_status")
def deployment(event: Event) -> None:
    """A version is to run somewhere, got on, or ended there. Older servers send no action."""
    family = event.type.partition(".")[0]
    report = _Report(event, {f"{family}.id": NUMBER})
    part, status = report.body.part("deployment"), report.body.part("deployment_status")
    version = event.version(part.moment("updated_at"))
    deployment_id = report.keep(models.GithubDeployment, "deployment", version, part.document(_DEPLOYMENT))
    if family == "deployment":
        verb, at = "started", part.moment("created_at")
    else:
        parent = {"parent": deployment_id or ABSENT}
        version = event.version(status.moment("updated_at"))
        report.keep(models.GithubDeploymentStatus, family, version, status.document(_STATUS) | parent)
        verb, at = f"ended with {status.text('state')}", status.moment("created_at")
        if status.text("state") in _QUIET_STATES:
            return
    environment = part.text("environment")
    words = (report.where and f"of {report.where}", part.text("ref"), environment and f"to {environment}")
    target = " ".join(("deployment", *filter(None, words)))
    link = report.link("deployments", environment or None)
    report.emit(verb, target, at=at, about=(models.GithubDeployment, deployment_id), link=link)


@handles("github", "ping")
def ping(event: Event) -> None:
    """A hook was made. That of an organization has no repository."""
    report = _Report(event)
    number = report.body.number("hook_id")
    target = f"the webhook{'' if number is None else f' {number}'} of {report.where or 'an organization'}"
    report.emit("connected", target, at=report.body.moment("hook.updated_at"))


@handles("github", *_types("release", _OF_RELEASES))
def release(event: Event) -> None:
    report = _Report(event, {"release": OBJECT})
    part = report.body.part("release")
    if report.action in _RELEASED:
        name = part.text("name") or part.text("tag_name")
        at = part.moment("published_at") if report.action != "deleted" else None
        link = report.link("releases", "tag", part.text("tag_name") or None)
        report.emit(_RELEASED[report.action], f"{report.where} {name}".strip() or "a release", at=at, link=link)


@handles("github", "create", "delete")
def ref(event: Event) -> None:
    report = _Report(event, {"ref": TEXT})
    target = f"{report.body.text('ref_type')} {report.body.text('ref')} of".lstrip()
    report.emit_of_repository(f"{event.type}d", target, at=report.pushed_at)


@handles("github", "fork")
def fork(event: Event) -> None:
    report = _Report(event)
    copy = report.body.part("forkee")
    target = f"repository {report.where} to {copy.text('full_name') or 'another'}"
    report.emit("forked", target, at=copy.moment("created_at"), link=copy.get("html_url", LINK) or "")


@handles("github", "watch.started")
def watch(event: Event) -> None:
    _Report(event).emit_of_repository("starred", "repository")


@handles("github", *_types("member", "added edited removed"))
def member(event: Event) -> None:
    report = _Report(event)
    report.emit_of_repository(report.verb, f"{report.body.text('member.login')} as a collaborator of".strip())


@handles("github", "workflow_run.completed")
def workflow_run(event: Event) -> None:
    """A workflow ended. Those of its steps and jobs are ignored (`registry.IGNORED`)."""
    report = _Report(event, {"workflow_run": OBJECT})
    run = report.body.part("workflow_run")
    report.emit(
        f"ran ({run.text('conclusion') or 'no conclusion'})",
        f"workflow {run.text('name')} of {report.where} {run.text('head_branch')}".rstrip(),
        at=run.moment("updated_at"),
        link=report.link("actions", "runs", run.number("id")),
    )
