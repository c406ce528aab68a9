"""Confluence: pages, blog posts and comments.

A state is as new as its event's `timestamp` in milliseconds, then as the content's version, then by what happened:
going into the trash comes after a change. Self-hosted, an event has ids alone.
"""

from datetime import datetime

from webhooks.domain import links
from webhooks.domain.payloads import confluence
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models import ConfluenceComment, ConfluencePage
from webhooks.queries.upserts import tombstone, upsert

_RANKS = {"created": 0, "updated": 1, "moved": 2, "restored": 3, "trashed": 4, "removed": 5}
_LABELS = {"page": "page", "blog": "blog post"}
_VERBS = {"removed": "deleted for good", "trashed": "put into the trash"}


@handles("confluence", *(f"page_{action}" for action in _RANKS))
def page(event: Event) -> None:
    """Something happened to a page."""
    payload = event.read(confluence.PageEvent)
    _content(event, payload, payload.page, "page")


@handles("confluence", *(f"blog_{action}" for action in _RANKS))
def blog(event: Event) -> None:
    """Something happened to a blog post."""
    payload = event.read(confluence.BlogEvent)
    _content(event, payload, payload.blog, "blog")


@handles("confluence", "comment_created", "comment_updated", "comment_removed")
def comment(event: Event) -> None:
    """Something happened to a comment."""
    payload = event.read(confluence.CommentEvent)
    comment, parent = payload.comment, payload.comment.parent
    comment_id = _id(comment, beside=parent)
    upsert(
        ConfluenceComment,
        comment_id,
        _version(event, payload, comment),
        parent=_id(parent, beside=comment) if parent else ABSENT,
        editor=payload.actor or ABSENT,
        link=comment.sent("self", links.https(comment.self)),
        **comment.columns("version", author="creatorAccountId", created_at="creationDate"),
    )
    if _action(event) == "removed":
        tombstone(ConfluenceComment, comment_id, at=payload.timestamp or event.occurred_at)
    emit(event, _about_comment(event, payload))


def _content(event: Event, payload: confluence.Envelope, content: confluence.Content, kind: str) -> None:
    action = _action(event)
    trashed = action in {"trashed", "removed"}
    page_id = _id(content)
    upsert(
        ConfluencePage,
        page_id,
        _version(event, payload, content),
        site=content.sent("self", links.host(content.self)),
        kind=kind,
        status="trashed" if trashed else "current",
        editor=payload.actor or ABSENT,
        link=content.sent("self", links.https(content.self)),
        **content.columns("title", "version", space="spaceKey", author="creatorAccountId", created_at="creationDate"),
    )
    if action == "removed":
        tombstone(ConfluencePage, page_id, at=payload.timestamp or event.occurred_at)
    verb = _VERBS.get(action, action)
    emit(event, _about(content, _LABELS[kind], verb, actor=payload.actor, at=payload.timestamp))


def _about(
    content: confluence.Content,
    label: str,
    verb: str,
    *,
    actor: str,
    at: datetime | None,
    beside: confluence.Content | None = None,
) -> ActivityEntry:
    return ActivityEntry(
        actor=actor,
        verb=verb,
        object=f"{label} {content.title or content.id}",
        at=at,
        kind="confluencepage",
        resource=_id(content, beside=beside),
        link=links.https(content.self),
    )


def _about_comment(event: Event, payload: confluence.CommentEvent) -> ActivityEntry:
    verb = {"created": "commented on", "updated": "changed a comment on"}.get(_action(event), "deleted a comment on")
    parent = payload.comment.parent
    if parent:
        return _about(parent, "page", verb, actor=payload.actor, at=payload.timestamp, beside=payload.comment)
    return ActivityEntry(
        actor=payload.actor,
        verb=verb,
        object="a page",
        at=payload.timestamp,
        kind="confluencecomment",
        resource=_id(payload.comment),
    )


def _version(event: Event, payload: confluence.Envelope, content: confluence.Content) -> Version:
    return event.version(payload.timestamp, number=content.version, rank=_RANKS[_action(event)])


def _id(content: confluence.Content, *, beside: confluence.Content | None = None) -> str:
    """In the cloud the site is part of it, as one secret may serve several; self-hosted the site is not told. What
    stands beside it in the body is of the same site."""
    site = links.host(content.self) or (links.host(beside.self) if beside else "")
    return f"{site}/{content.id}" if site else str(content.id)


def _action(event: Event) -> str:
    return event.type.rpartition("_")[2]
