"""Jira: issues and their comments.

A state is as new as the event's `timestamp` in milliseconds, then as its changelog's id, which only rises. A comment's
event carries its issue in part, or nothing but its id: what it does not say stays as it is.
"""

import re
from typing import Any

from webhooks.domain import parts
from webhooks.domain.parts import ABSENT, NUMBER, OBJECT, OBJECTS, TEXT, Kind, Part, Version, fields
from webhooks.errors import BadPayload
from webhooks.handlers.activity import Line, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models.resources import JiraComment, JiraIssue
from webhooks.queries.results import tombstone, upsert


def _name(person: Any) -> str:
    """A person by their name; where Jira is self-hosted there may be a short one alone."""
    person = OBJECT.read(person)
    return TEXT.read(person.get("displayName") or person.get("name") or "")


_PERSON = Kind(_name, null="")
_ISSUE = fields(
    text="key project=fields.project.key kind=fields.issuetype.name status=fields.status.name"
    " category=fields.status.statusCategory.key priority=fields.priority.name resolution=fields.resolution.name"
    " summary=fields.summary",
    texts="labels=fields.labels",
    moment="created_at=fields.created",
) | {"assignee": ("fields.assignee", _PERSON), "reporter": ("fields.reporter", _PERSON)}
_COMMENT = fields(long="body", moment="created_at=created") | {
    "author": ("author", _PERSON),
    "editor": ("updateAuthor", _PERSON),
}
_COMMENTED = frozenset({"issue_commented", "issue_comment_edited", "issue_comment_deleted"})
_CREATED, _UPDATED, _DELETED = "jira:issue_created", "jira:issue_updated", "jira:issue_deleted"
_RANKS = {_CREATED: 0, "comment_created": 0}
_COMMENT_VERBS = {
    "comment_created": "commented on",
    "comment_updated": "changed a comment on",
    "comment_deleted": "deleted a comment on",
}
_ISSUE_OF_COMMENT = re.compile(r"/issue/(\d{1,19})/comment/")


@handles("jira", _CREATED, _UPDATED, _DELETED)
def issue(event: Event) -> None:
    """An issue was created, changed or deleted. What only says that it was commented on comes as a comment too."""
    body = event.read()
    body.need("issue.id", NUMBER)
    address = _address(body, "issue", "user", "issue.fields.assignee", "issue.fields.reporter")
    version = _version(event, body, number=body.number("changelog.id") or 0)
    issue_id = _keep_issue(body.part("issue"), version, address)
    if event.type == _DELETED:
        tombstone(JiraIssue, issue_id, at=version.at)
    if body.text("issue_event_type_name") not in _COMMENTED:
        verb, outcome = _change(event, body)
        emit(event, _line(body, verb, address, actor=body.get("user", _PERSON) or "", outcome=outcome))


@handles("jira", *_COMMENT_VERBS)
def comment(event: Event) -> None:
    """Somebody commented on an issue, changed a comment or deleted one. Where Jira is self-hosted only the comment's
    address says which issue it is on."""
    body = event.read()
    number = body.need("comment.id", NUMBER)
    address = _address(body, "comment", "issue", "comment.author", "comment.updateAuthor")
    site, version, part = parts.host(address), _version(event, body), body.part("comment")
    match = _ISSUE_OF_COMMENT.search(part.text("self"))
    issue_number = body.number("issue.id") if body.part("issue") else int(match[1]) if match else None
    if body.number("issue.id") is not None:
        _keep_issue(body.part("issue"), version, address)
    parent = ABSENT if issue_number is None else f"{site}/{issue_number}"
    upsert(JiraComment, f"{site}/{number}", version, parent=parent, **part.document(_COMMENT))
    if event.type == "comment_deleted":
        tombstone(JiraComment, f"{site}/{number}", at=version.at)
    actor = part.get("updateAuthor", _PERSON) or part.get("author", _PERSON) or ""
    actor = "" if event.type == "comment_deleted" else actor
    emit(event, _line(body, _COMMENT_VERBS[event.type], address, actor=actor, number=issue_number))


def _version(event: Event, body: Part, number: int = 0) -> Version:
    return event.version(body.moment("timestamp"), number=number, rank=_RANKS.get(event.type, 1))


def _keep_issue(issue: Part, version: Version, address: str) -> str:
    issue_id = f"{parts.host(address)}/{issue.number('id')}"
    link = _link(issue, address) if issue.text("key") else ABSENT
    upsert(JiraIssue, issue_id, version, site=parts.host(address), link=link, **issue.document(_ISSUE))
    return issue_id


def _address(body: Part, *places: str) -> str:
    """An address of the site, which is part of every id: that of the resource, or of what stands beside it in the body.
    Raises BadPayload if there is none."""
    addresses = (body.text(f"{place}.self") for place in places)
    if (address := next(filter(parts.host, addresses), "")) == "":
        raise BadPayload(field=f"{places[0]}.self", reason="field required, as nothing else says of which site it is")
    return address


def _link(issue: Part, address: str) -> str:
    return parts.under(parts.site(address), "browse", issue.text("key")) if issue.text("key") else ""


def _line(
    body: Part, verb: str, address: str, *, actor: str, outcome: str = "", number: int | None = None
) -> Line:  # fmt: skip
    issue = body.part("issue")
    number = issue.number("id") if number is None else number
    key = issue.text("key") or f"issue {number or '?'}"
    return Line(
        verb,
        ": ".join(filter(None, (key, issue.text("fields.summary")))) + outcome,
        actor=actor,
        at=body.moment("timestamp"),
        about=(JiraIssue, None if number is None else f"{parts.host(address)}/{number}"),
        link=_link(issue, address),
    )


def _change(event: Event, body: Part) -> tuple[str, str]:
    """What was done and with which outcome, from the changelog: an old server names no type of event."""
    if event.type != _UPDATED:
        return ("created" if event.type == _CREATED else "deleted"), ""
    items = body.get("changelog.items", _CHANGES) or {}
    if "status" in items:
        return "moved", f" to {items['status']}"
    if "assignee" in items:
        return ("assigned", f" to {items['assignee']}") if items["assignee"] else ("unassigned", "")
    return (f"changed {', '.join(sorted(items))} of" if items else "changed"), ""


def _changes(items: Any) -> dict[str, str]:
    return {TEXT.read(item.get("field")): TEXT.read(item.get("toString") or "") for item in OBJECTS.read(items)}


_CHANGES = Kind(_changes)
