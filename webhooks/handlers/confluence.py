"""Confluence: pages, blog posts and comments.

A state is as new as its event's `timestamp` in milliseconds, then as the content's version, then by what happened:
going into the trash comes after a change. Self-hosted, an event has ids alone.
"""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import confluence
from webhooks.domain.payloads.base import read
from webhooks.domain.staleness import Version
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell
from webhooks.models import ConfluenceComment, ConfluencePage
from webhooks.queries.keeping import bury, keep

_RANKS = {"created": 0, "updated": 1, "moved": 2, "restored": 3, "trashed": 4, "removed": 5}
_VERBS = {"removed": "deleted for good", "trashed": "put into the trash"}


@handles("confluence", *(f"page_{action}" for action in _RANKS))
def page(event: Event) -> None:
    """Something happened to a page."""
    told = read(confluence.PageEvent, event.body)
    _content(event, told, told.page, ConfluencePage.Kind.PAGE)


@handles("confluence", *(f"blog_{action}" for action in _RANKS))
def blog(event: Event) -> None:
    """Something happened to a blog post."""
    told = read(confluence.BlogEvent, event.body)
    _content(event, told, told.blog, ConfluencePage.Kind.BLOG)


@handles("confluence", "comment_created", "comment_updated", "comment_removed")
def comment(event: Event) -> None:
    """Something happened to a comment."""
    told = read(confluence.CommentEvent, event.body)
    given = told.comment
    comment_id = _id(given)
    keep(
        ConfluenceComment,
        comment_id,
        _version(event, told, given),
        page_id=_id(given.parent) if given.parent else None,
        author=given.creatorAccountId,
        editor=told.actor,
        version=given.version,
        link=links.https(given.self),
        created_at=given.creationDate,
    )
    if _action(event) == "removed":
        bury(ConfluenceComment, comment_id, at=told.timestamp)
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
        site=links.host(given.self),
        kind=kind,
        status=ConfluencePage.Status.TRASHED if trashed else ConfluencePage.Status.CURRENT,
        title=given.title,
        space=given.spaceKey,
        version=given.version,
        author=given.creatorAccountId,
        editor=told.actor,
        link=links.https(given.self),
        created_at=given.creationDate,
    )
    if action == "removed":
        bury(ConfluencePage, page_id, at=told.timestamp)
    verb = _VERBS.get(action, action)
    tell(event, _about(given, kind.label, verb, actor=told.actor, at=told.timestamp))


def _about(given: confluence.Content, what: str, verb: str, *, actor: str, at: datetime) -> Line:
    return Line(
        actor=actor,
        verb=verb,
        object=f"{what} {given.title or given.id}",
        at=at,
        kind="confluencepage",
        thing=_id(given),
        link=links.https(given.self),
    )


def _about_comment(event: Event, told: confluence.CommentEvent) -> Line:
    verb = {"created": "commented on", "updated": "changed a comment on"}.get(
        _action(event), "deleted a comment on"
    )
    parent = told.comment.parent
    if parent:
        return _about(parent, "page", verb, actor=told.actor, at=told.timestamp)
    return Line(
        actor=told.actor,
        verb=verb,
        object="a page",
        at=told.timestamp,
        kind="confluencecomment",
        thing=_id(told.comment),
    )


def _version(event: Event, told: confluence.Envelope, given: confluence.Content) -> Version:
    return Version(at=told.timestamp, number=given.version, rank=_RANKS[_action(event)])


def _id(given: confluence.Content) -> str:
    """In the cloud the site is part of it, as one secret may serve several; self-hosted the site is not told."""
    site = links.host(given.self)
    return f"{site}/{given.id}" if site else str(given.id)


def _action(event: Event) -> str:
    return event.type.rpartition("_")[2]
