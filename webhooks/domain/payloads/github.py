"""GitHub: the thing under its own name, beside the repository it is in and the sender who caused the event.

Needed is the id of what is kept; of a push, which has none, what it moved.
"""

from typing import Any

from webhooks.domain.payloads.base import Id, Many, Maybe, Moment, MomentOrSeconds, Number, Payload, Short


class Account(Payload):
    """A user or an organization."""

    login: Short


class Named(Payload):
    """A label, or another thing of which only the name is used."""

    name: Short


class Repository(Payload):
    """A repository, as every event in it carries it. A push gives two of its times in seconds."""

    id: Number
    full_name: Short = ""
    html_url: str = ""
    private: bool = False
    description: Maybe = ""
    default_branch: Maybe = ""
    language: Maybe = ""
    archived: bool = False
    fork: bool = False
    created_at: MomentOrSeconds | None = None
    pushed_at: MomentOrSeconds | None = None
    updated_at: MomentOrSeconds | None = None

    @property
    def name(self) -> str:
        return self.full_name or str(self.id)


class Envelope(Payload):
    """What every event in a repository has."""

    action: Maybe = ""
    repository: Repository | None = None
    sender: Account | None = None

    @property
    def actor(self) -> str:
        """Who caused it; "" for GitHub itself."""
        return self.sender.login if self.sender else ""

    @property
    def where(self) -> str:
        """The repository's name; "" if there is none."""
        return self.repository.name if self.repository else ""

    @property
    def address(self) -> str:
        """The repository's address; "" if the body does not say it."""
        return self.repository.html_url if self.repository else ""


class RepositoryEvent(Envelope):
    """repository.*"""

    repository: Repository


class Issue(Payload):
    """An issue. A comment on a pull request also carries one, which then has `pull_request`."""

    id: Number
    number: Number | None = None
    title: Short = ""
    state: Short = ""
    state_reason: Maybe = ""
    user: Account | None = None
    labels: Many[Named] = []
    assignees: Many[Account] = []
    created_at: Moment | None = None
    updated_at: Moment | None = None
    closed_at: Moment | None = None
    pull_request: Any = None


class IssueEvent(Envelope):
    """issues.*"""

    issue: Issue


class Comment(Payload):
    """A comment on an issue, or on a line of a pull request."""

    created_at: Moment | None = None


class IssueCommentEvent(IssueEvent):
    """issue_comment.*"""

    comment: Comment = Comment()


class Head(Payload):
    """The newest commit of a pull request."""

    ref: Short = ""
    sha: Short = ""


class Base(Payload):
    """The branch a pull request goes to."""

    ref: Short = ""


class PullRequest(Payload):
    """A pull request. Inside of events about reviews and comments it lacks some fields."""

    id: Number
    number: Number | None = None
    title: Short = ""
    state: Short = ""
    draft: bool = False
    user: Account | None = None
    labels: Many[Named] = []
    requested_reviewers: Many[Account] = []
    head: Head = Head()
    base: Base = Base()
    created_at: Moment | None = None
    updated_at: Moment | None = None
    closed_at: Moment | None = None
    merged_at: Moment | None = None


class PullRequestEvent(Envelope):
    """pull_request.*"""

    pull_request: PullRequest


class PullRequestCommentEvent(PullRequestEvent):
    """pull_request_review_comment.*"""

    comment: Comment = Comment()


class Review(Payload):
    """What somebody says of a pull request as a whole."""

    id: Number
    state: Short = ""
    user: Account | None = None
    commit_id: Maybe = ""
    submitted_at: Moment | None = None


class ReviewEvent(Envelope):
    """pull_request_review.*"""

    review: Review
    pull_request: PullRequest | None = None


class Commit(Payload):
    """The newest commit of a push."""

    message: str = ""


class PushEvent(Envelope):
    """push: a branch or tag moved. It has no id of its own."""

    repository: Repository
    ref: Short
    before: Id = ""
    after: Id
    created: bool = False
    deleted: bool = False
    forced: bool = False
    compare: str = ""
    commits: list[Any] = []
    head_commit: Commit | None = None
    pusher: Named | None = None


class Deployment(Payload):
    """A version that is to run somewhere."""

    id: Number
    sha: Short = ""
    ref: Short = ""
    task: Short = ""
    environment: Short = ""
    description: Maybe = ""
    creator: Account | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class DeploymentStatus(Payload):
    """How a deployment goes."""

    id: Number
    state: Short = ""
    environment: Maybe = ""
    description: Maybe = ""
    creator: Account | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class DeploymentEvent(Envelope):
    """deployment.*"""

    deployment: Deployment


class DeploymentStatusEvent(Envelope):
    """deployment_status.*"""

    deployment_status: DeploymentStatus
    deployment: Deployment | None = None


class Release(Payload):
    """A version that is offered."""

    tag_name: Short = ""
    name: Maybe = ""
    published_at: Moment | None = None


class ReleaseEvent(Envelope):
    """release.*"""

    release: Release


class RefEvent(Envelope):
    """create and delete: of a branch or tag."""

    ref: Short
    ref_type: Short = ""


class Fork(Payload):
    """A copy of a repository."""

    full_name: Short = ""
    html_url: str = ""
    created_at: Moment | None = None


class ForkEvent(Envelope):
    """fork"""

    forkee: Fork = Fork()


class MemberEvent(Envelope):
    """member.*"""

    member: Account | None = None


class Hook(Payload):
    """A webhook of GitHub's: one that leads here."""

    updated_at: MomentOrSeconds | None = None


class PingEvent(Payload):
    """ping: the first event of every hook; that of an organization has no repository."""

    hook_id: Number | None = None
    hook: Hook = Hook()
    repository: Repository | None = None
    sender: Account | None = None


class WorkflowRun(Payload):
    """One run of a workflow."""

    id: Number | None = None
    name: Maybe = ""
    head_branch: Maybe = ""
    conclusion: Maybe = ""
    updated_at: Moment | None = None


class WorkflowRunEvent(Envelope):
    """workflow_run.*"""

    workflow_run: WorkflowRun
