"""Jira: `timestamp` in milliseconds; an issue as its REST interface gives it; users of two shapes.

Needed is the id of what is kept, and an address anywhere that says of which site it is.
"""

import re

from pydantic import Field

from webhooks.domain.payloads.base import Long, Many, Maybe, Millis, Moment, NumberOrDigits, Payload, Short

_ISSUE_OF_COMMENT = re.compile(r"/issue/(\d{1,19})/comment/")


class Named(Payload):
    """A status, priority, type or resolution."""

    name: Short


class Status(Named):
    """Where an issue stands; the category is the same in all projects (new, indeterminate, done)."""

    class Category(Payload):
        """The category of a status."""

        key: Maybe = ""

    statusCategory: Category | None = None  # noqa: N815 (the sender's names)


class Project(Payload):
    """What an issue belongs to."""

    key: Short


class User(Payload):
    """A person: by account id in the cloud, by name where Jira is self-hosted."""

    self: Maybe = ""
    displayName: Maybe = ""  # noqa: N815
    name: Maybe = ""

    @property
    def label(self) -> str:
        return self.displayName or self.name


class Fields(Payload):
    """The fields of an issue that we keep."""

    summary: Short = ""
    status: Status | None = None
    project: Project | None = None
    issuetype: Named | None = None
    priority: Named | None = None
    resolution: Named | None = None
    assignee: User | None = None
    reporter: User | None = None
    labels: Many[Short] = []
    created: Moment | None = None


class Issue(Payload):
    """An issue. That of a comment has some of its fields alone, or none."""

    id: NumberOrDigits
    key: Short = ""
    self: str = ""
    fields_: Fields = Field(default=Fields(), alias="fields")

    @property
    def label(self) -> str:
        return ": ".join(part for part in (self.key or f"issue {self.id}", self.fields_.summary) if part)


class Change(Payload):
    """One field that changed."""

    field: Short
    toString: Maybe = ""  # noqa: N815


class Changelog(Payload):
    """What an event changed. The ids of a site only rise."""

    id: NumberOrDigits = 0
    items: Many[Change] = []


class IssueEvent(Payload):
    """jira:issue_created, jira:issue_updated, jira:issue_deleted"""

    timestamp: Millis | None = None
    issue_event_type_name: Maybe = ""
    user: User | None = None
    issue: Issue
    changelog: Changelog | None = None


class Comment(Payload):
    """A comment. Where Jira is self-hosted only its address says which issue it is on."""

    id: NumberOrDigits
    self: str = ""
    body: Long = ""
    author: User | None = None
    updateAuthor: User | None = None  # noqa: N815
    created: Moment | None = None

    @property
    def issue_id(self) -> int | None:
        match = _ISSUE_OF_COMMENT.search(self.self)
        return int(match[1]) if match else None


class CommentEvent(Payload):
    """comment_created, comment_updated, comment_deleted"""

    timestamp: Millis | None = None
    comment: Comment
    issue: Issue | None = None
