"""Jira: issues and their comments.

A state is as new as the event's `timestamp` in milliseconds, then as its changelog's id, which only rises. A comment's
event carries its issue in part; that part fills a void and replaces no whole issue.
"""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import jira
from webhooks.domain.payloads.base import read
from webhooks.domain.staleness import Version
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell
from webhooks.models import JiraComment, JiraIssue
from webhooks.queries.keeping import bury, keep

_COMMENTED = frozenset({"issue_commented", "issue_comment_edited", "issue_comment_deleted"})
_CREATED, _UPDATED, _DELETED = "jira:issue_created", "jira:issue_updated", "jira:issue_deleted"
_RANKS = {_CREATED: 0, "comment_created": 0}


@handles("jira", _CREATED, _UPDATED, _DELETED)
def issue(event: Event) -> None:
    """An issue was created, changed or deleted. What only says that it was commented on comes as a comment too."""
    told = read(jira.IssueEvent, event.body)
    version = Version(
        at=told.timestamp,
        number=told.changelog.id if told.changelog else 0,
        rank=_RANKS.get(event.type, 1),
        is_whole=told.issue.is_whole,
    )
    issue_id = _keep_issue(told.issue, version)
    if event.type == _DELETED:
        bury(JiraIssue, issue_id, at=told.timestamp)
    if told.issue_event_type_name not in _COMMENTED:
        actor = told.user.label if told.user else ""
        verb, outcome = _deed(event, told)
        tell(event, _about(told.issue, verb, actor=actor, at=told.timestamp, outcome=outcome))


@handles("jira", "comment_created", "comment_updated", "comment_deleted")
def comment(event: Event) -> None:
    """Somebody commented on an issue, changed a comment or deleted one."""
    told = read(jira.CommentEvent, event.body)
    given = told.comment
    site = links.host(given.self)
    rank = _RANKS.get(event.type, 1)
    if told.issue:
        _keep_issue(told.issue, Version(at=told.timestamp, rank=rank, is_whole=told.issue.is_whole))
    number = told.issue.id if told.issue else given.issue_id
    comment_id = f"{site}/{given.id}"
    keep(
        JiraComment,
        comment_id,
        Version(at=told.timestamp, rank=rank),
        issue_id=f"{site}/{number}" if number else None,
        author=given.author.label if given.author else "",
        editor=given.updateAuthor.label if given.updateAuthor else "",
        body=given.body,
        created_at=given.created,
    )
    if event.type == "comment_deleted":
        bury(JiraComment, comment_id, at=told.timestamp)
    tell(event, _about_comment(event, told, site, number))


def _keep_issue(told: jira.Issue, version: Version) -> str:
    fields = told.fields_
    issue_id = f"{links.host(told.self)}/{told.id}"
    keep(
        JiraIssue,
        issue_id,
        version,
        site=links.host(told.self),
        key=told.key,
        project=fields.project.key,
        summary=fields.summary,
        kind=fields.issuetype.name,
        status=fields.status.name,
        category=fields.status.statusCategory.key if fields.status.statusCategory else "",
        priority=fields.priority.name if fields.priority else "",
        resolution=fields.resolution.name if fields.resolution else "",
        assignee=fields.assignee.label if fields.assignee else "",
        reporter=fields.reporter.label if fields.reporter else "",
        labels=fields.labels,
        link=links.under(links.site(told.self), "browse", told.key),
        created_at=fields.created,
    )
    return issue_id


def _about(told: jira.Issue, verb: str, *, actor: str, at: datetime, outcome: str = "") -> Line:
    return Line(
        actor=actor,
        verb=verb,
        object=f"{told.key}: {told.fields_.summary}{outcome}",
        at=at,
        kind="jiraissue",
        thing=f"{links.host(told.self)}/{told.id}",
        link=links.under(links.site(told.self), "browse", told.key),
    )


def _about_comment(event: Event, told: jira.CommentEvent, site: str, number: int | None) -> Line:
    verb = {"comment_created": "commented on", "comment_updated": "changed a comment on"}.get(
        event.type, "deleted a comment on"
    )
    given = told.comment
    author = (given.updateAuthor or given.author) if event.type != "comment_deleted" else None
    actor = author.label if author else ""
    if told.issue:
        return _about(told.issue, verb, actor=actor, at=told.timestamp)
    thing = f"{site}/{number}" if number else ""
    return Line(
        actor=actor,
        verb=verb,
        object=f"issue {number or '?'}",
        at=told.timestamp,
        kind="jiraissue",
        thing=thing,
    )


def _deed(event: Event, told: jira.IssueEvent) -> tuple[str, str]:
    """What was done and with which outcome, from the changelog: an old server names no type of event."""
    if event.type != _UPDATED:
        return ("created" if event.type == _CREATED else "deleted"), ""
    changes = {change.field: change.toString for change in told.changelog.items} if told.changelog else {}
    if "status" in changes:
        return "moved", f" to {changes['status']}"
    if "assignee" in changes:
        return ("assigned", f" to {changes['assignee']}") if changes["assignee"] else ("unassigned", "")
    return (f"changed {', '.join(sorted(changes))} of" if changes else "changed"), ""
