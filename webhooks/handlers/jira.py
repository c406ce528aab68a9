"""Jira: issues and their comments.

A state is as new as the event's `timestamp` in milliseconds, then as its changelog's id, which only rises. A comment's
event carries its issue in part, or nothing but its id: what it does not say stays as it is.
"""

from datetime import datetime
from typing import Any

from webhooks.domain import links
from webhooks.domain.payloads import jira
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.errors import BadPayload
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models import JiraComment, JiraIssue
from webhooks.queries.upserts import tombstone, upsert

_COMMENTED = frozenset({"issue_commented", "issue_comment_edited", "issue_comment_deleted"})
_CREATED, _UPDATED, _DELETED = "jira:issue_created", "jira:issue_updated", "jira:issue_deleted"
_RANKS = {_CREATED: 0, "comment_created": 0}


@handles("jira", _CREATED, _UPDATED, _DELETED)
def issue(event: Event) -> None:
    """An issue was created, changed or deleted. What only says that it was commented on comes as a comment too."""
    payload = event.read(jira.IssueEvent)
    address = _address(payload.issue.self, payload.user, *_people(payload.issue), field="issue.self")
    number = payload.changelog.id if payload.changelog else 0
    version = event.version(payload.timestamp, number=number, rank=_RANKS.get(event.type, 1))
    issue_id = _upsert_issue(payload.issue, version, address)
    if event.type == _DELETED:
        tombstone(JiraIssue, issue_id, at=payload.timestamp or event.occurred_at)
    if payload.issue_event_type_name not in _COMMENTED:
        actor = payload.user.label if payload.user else ""
        verb, outcome = _change(event, payload)
        emit(event, _about(payload.issue, verb, address, actor=actor, at=payload.timestamp, outcome=outcome))


@handles("jira", "comment_created", "comment_updated", "comment_deleted")
def comment(event: Event) -> None:
    """Somebody commented on an issue, changed a comment or deleted one."""
    payload = event.read(jira.CommentEvent)
    comment = payload.comment
    rank = _RANKS.get(event.type, 1)
    others = (payload.issue.self if payload.issue else "", comment.author, comment.updateAuthor)
    address = _address(comment.self, *others, field="comment.self")
    if payload.issue:
        _upsert_issue(payload.issue, event.version(payload.timestamp, rank=rank), address)
    number = payload.issue.id if payload.issue else comment.issue_id
    comment_id = f"{links.host(address)}/{comment.id}"
    upsert(
        JiraComment,
        comment_id,
        event.version(payload.timestamp, rank=rank),
        parent=f"{links.host(address)}/{number}" if number else ABSENT,
        author=comment.sent("author", _label(comment.author)),
        editor=comment.sent("updateAuthor", _label(comment.updateAuthor)),
        **comment.columns("body", created_at="created"),
    )
    if event.type == "comment_deleted":
        tombstone(JiraComment, comment_id, at=payload.timestamp or event.occurred_at)
    emit(event, _about_comment(event, payload, address, number))


def _upsert_issue(payload: jira.Issue, version: Version, address: str) -> str:
    issue_id = f"{links.host(address)}/{payload.id}"
    upsert(
        JiraIssue,
        issue_id,
        version,
        site=links.host(address),
        key=payload.key or ABSENT,
        link=links.under(links.site(address), "browse", payload.key) if payload.key else ABSENT,
        **_columns(payload.fields_),
    )
    return issue_id


def _columns(fields: jira.Fields) -> dict[str, Any]:
    status, category = fields.status, fields.status.statusCategory if fields.status else None
    return {
        "project": fields.project.key if fields.project else ABSENT,
        "kind": fields.issuetype.name if fields.issuetype else ABSENT,
        "status": status.name if status else ABSENT,
        "category": category.sent("key") if category else ABSENT,
        "priority": fields.sent("priority", fields.priority.name if fields.priority else ""),
        "resolution": fields.sent("resolution", fields.resolution.name if fields.resolution else ""),
        "assignee": fields.sent("assignee", _label(fields.assignee)),
        "reporter": fields.sent("reporter", _label(fields.reporter)),
        **fields.columns("summary", "labels", created_at="created"),
    }


def _address(first: str, *others: jira.User | str | None, field: str) -> str:
    """An address of the site, which is part of every id: that of the resource, or of what stands beside it in the body.
    Raises BadPayload if there is none."""
    for other in (first, *others):
        address = other.self if isinstance(other, jira.User) else other
        if address and links.host(address):
            return address
    raise BadPayload(field=field, reason="field required, as nothing else says of which site it is")


def _people(payload: jira.Issue) -> tuple[jira.User | None, ...]:
    return payload.fields_.assignee, payload.fields_.reporter


def _label(user: jira.User | None) -> str:
    return user.label if user else ""


def _about(
    payload: jira.Issue, verb: str, address: str, *, actor: str, at: datetime | None, outcome: str = ""
) -> ActivityEntry:
    return ActivityEntry(
        actor=actor,
        verb=verb,
        object=f"{payload.label}{outcome}",
        at=at,
        kind="jiraissue",
        resource=f"{links.host(address)}/{payload.id}",
        link=links.under(links.site(address), "browse", payload.key) if payload.key else "",
    )


def _about_comment(event: Event, payload: jira.CommentEvent, address: str, number: int | None) -> ActivityEntry:
    verb = {"comment_created": "commented on", "comment_updated": "changed a comment on"}.get(
        event.type, "deleted a comment on"
    )
    comment = payload.comment
    author = (comment.updateAuthor or comment.author) if event.type != "comment_deleted" else None
    actor = author.label if author else ""
    if payload.issue:
        return _about(payload.issue, verb, address, actor=actor, at=payload.timestamp)
    resource = f"{links.host(address)}/{number}" if number else ""
    return ActivityEntry(
        actor=actor,
        verb=verb,
        object=f"issue {number or '?'}",
        at=payload.timestamp,
        kind="jiraissue",
        resource=resource,
    )


def _change(event: Event, payload: jira.IssueEvent) -> tuple[str, str]:
    """What was done and with which outcome, from the changelog: an old server names no type of event."""
    if event.type != _UPDATED:
        return ("created" if event.type == _CREATED else "deleted"), ""
    changes = {change.field: change.toString for change in payload.changelog.items} if payload.changelog else {}
    if "status" in changes:
        return "moved", f" to {changes['status']}"
    if "assignee" in changes:
        return ("assigned", f" to {changes['assignee']}") if changes["assignee"] else ("unassigned", "")
    return (f"changed {', '.join(sorted(changes))} of" if changes else "changed"), ""
