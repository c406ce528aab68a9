"""Confluence: pages, blog posts and comments.

A state is as new as its event's `timestamp` in milliseconds, then as the content's version, then by what happened:
going into the trash comes after a change. Self-hosted, an event has ids alone.
"""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import confluence
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.handlers.dating import dated
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell
from webhooks.models import ConfluenceComment, ConfluencePage
from webhooks.queries.keeping import bury, keep

_RANKS = {"created": 0, "updated": 1, "moved": 2, "restored": 3, "trashed": 4, "removed": 5}
_VERBS = {"removed": "deleted for good", "trashed": "put into the trash"}


@handles("confluence", *(f"page_{action}" for action in _RANKS))
def page(event: Event) -> None:
    """Something happened to a page."""
    told = event.read(confluence.PageEvent)
    _content(event, told, told.page, ConfluencePage.Kind.PAGE)


@handles("confluence", *(f"blog_{action}" for action in _RANKS))
def blog(event: Event) -> None:
    """Something happened to a blog post."""
    told = event.read(confluence.BlogEvent)
    _content(event, told, told.blog, ConfluencePage.Kind.BLOG)


@handles("confluence", "comment_created", "comment_updated", "comment_removed")
def comment(event: Event) -> None:
    """Something happened to a comment."""
    told = event.read(confluence.CommentEvent)
    given, parent = told.comment, told.comment.parent
    comment_id = _id(given, beside=parent)
    keep(
        ConfluenceComment,
        comment_id,
        _version(event, told, given),
        page_id=_id(parent, beside=given) if parent else ABSENT,
        author=given.sent("creatorAccountId"),
        editor=told.actor or ABSENT,
        version=given.sent("version"),
        link=given.sent("self", links.https(given.self)),
        created_at=given.sent("creationDate"),
    )
    if _action(event) == "removed":
        bury(ConfluenceComment, comment_id, at=told.timestamp or event.occurred_at)
    tell(event, _about_comment(event, told))


def _content(
    event: Event, told: confluence.Envelope, given: confluence.Content, kind: ConfluencePage.Kind
) -> None:
    action = _action(event)
    trashed = action in {"trashed", "removed"}
    page_id = _id(given)
    keep(
        ConfluencePage,
        page_id,
        _version(event, told, given),
        site=given.sent("self", links.host(given.self)),
        kind=kind,
        status=ConfluencePage.Status.TRASHED if trashed else ConfluencePage.Status.CURRENT,
        title=given.sent("title"),
        space=given.sent("spaceKey"),
        version=given.sent("version"),
        author=given.sent("creatorAccountId"),
        editor=told.actor or ABSENT,
        link=given.sent("self", links.https(given.self)),
        created_at=given.sent("creationDate"),
    )
    if action == "removed":
        bury(ConfluencePage, page_id, at=told.timestamp or event.occurred_at)
    verb = _VERBS.get(action, action)
    tell(event, _about(given, kind.label, verb, actor=told.actor, at=told.timestamp))


def _about(
    given: confluence.Content,
    what: str,
    verb: str,
    *,
    actor: str,
    at: datetime | None,
    beside: confluence.Content | None = None,
) -> Line:
    return Line(
        actor=actor,
        verb=verb,
        object=f"{what} {given.title or given.id}",
        at=at,
        kind="confluencepage",
        thing=_id(given, beside=beside),
        link=links.https(given.self),
    )


def _about_comment(event: Event, told: confluence.CommentEvent) -> Line:
    verb = {"created": "commented on", "updated": "changed a comment on"}.get(
        _action(event), "deleted a comment on"
    )
    parent = told.comment.parent
    if parent:
        return _about(parent, "page", verb, actor=told.actor, at=told.timestamp, beside=told.comment)
    return Line(
        actor=told.actor,
        verb=verb,
        object="a page",
        at=told.timestamp,
        kind="confluencecomment",
        thing=_id(told.comment),
    )


def _version(event: Event, told: confluence.Envelope, given: confluence.Content) -> Version:
    return dated(event, told.timestamp, number=given.version, rank=_RANKS[_action(event)])


def _id(given: confluence.Content, *, beside: confluence.Content | None = None) -> str:
    """In the cloud the site is part of it, as one secret may serve several; self-hosted the site is not told. What
    stands beside it in the body is of the same site."""
    site = links.host(given.self) or (links.host(beside.self) if beside else "")
    return f"{site}/{given.id}" if site else str(given.id)


def _action(event: Event) -> str:
    return event.type.rpartition("_")[2]
