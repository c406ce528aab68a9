"""Confluence: pages, blog posts and comments.

A state is as new as its event's `timestamp` in milliseconds, then as the content's version, then by what happened:
going into the trash comes after a change. Self-hosted, an event has ids alone; in the cloud it has the content.
"""

from webhooks.domain.parts import ABSENT, NUMBER, Part, Version, fields, host, https
from webhooks.handlers.activity import Line, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models.resources import ConfluenceComment, ConfluencePage
from webhooks.queries.results import tombstone, upsert

_PAGE = fields(
    text="title space=spaceKey author=creatorAccountId", number="version", moment="created_at=creationDate",
    link="link=self",
)  # fmt: skip
_COMMENT = fields(text="author=creatorAccountId", number="version", moment="created_at=creationDate", link="link=self")
_RANKS = {"created": 0, "updated": 1, "moved": 2, "restored": 3, "trashed": 4, "removed": 5}
_LABELS = {"page": "page", "blog": "blog post"}
_VERBS = {"removed": "deleted for good", "trashed": "put into the trash"}
_COMMENT_VERBS = {"created": "commented on", "updated": "changed a comment on", "removed": "deleted a comment on"}


@handles("confluence", *(f"{kind}_{action}" for kind in _LABELS for action in _RANKS))
def content(event: Event) -> None:
    body = event.read()
    kind, _, action = event.type.partition("_")
    body.need(f"{kind}.id", NUMBER)
    part, version = body.part(kind), _version(event, body, kind, action)
    document = part.document(_PAGE)
    upsert(
        ConfluencePage,
        _id(part),
        version,
        site=host(part.text("self")) if "link" in document else ABSENT,
        kind=kind,
        status="trashed" if action in {"trashed", "removed"} else "current",
        editor=_actor(body) or ABSENT,
        **document,
    )
    if action == "removed":
        tombstone(ConfluencePage, _id(part), at=version.at)
    emit(event, _line(body, _VERBS.get(action, action), _LABELS[kind], part))


@handles("confluence", *(f"comment_{action}" for action in _COMMENT_VERBS))
def comment(event: Event) -> None:
    """Something happened to a comment. Self-hosted, it does not say what it is on."""
    body = event.read()
    action = event.type.partition("_")[2]
    body.need("comment.id", NUMBER)
    part, version, page = body.part("comment"), _version(event, body, "comment", action), body.part("comment.parent")
    comment_id, verb = _id(part, page), _COMMENT_VERBS[action]
    has_page = page.number("id") is not None
    document = part.document(_COMMENT) | ({"parent": _id(page, part)} if has_page else {})
    upsert(ConfluenceComment, comment_id, version, editor=_actor(body) or ABSENT, **document)
    if action == "removed":
        tombstone(ConfluenceComment, comment_id, at=version.at)
    about = ConfluenceComment, comment_id
    unnamed = Line(verb, "a page", actor=_actor(body), at=body.moment("timestamp"), about=about)
    emit(event, _line(body, verb, "page", page, part) if has_page else unnamed)


def _line(body: Part, verb: str, label: str, *parts: Part) -> Line:
    return Line(
        verb,
        f"{label} {parts[0].text('title') or parts[0].number('id')}",
        actor=_actor(body),
        at=body.moment("timestamp"),
        about=(ConfluencePage, _id(*parts)),
        link=https(parts[0].text("self")),
    )


def _version(event: Event, body: Part, place: str, action: str) -> Version:
    number = body.number(f"{place}.version") or 0
    return event.version(body.moment("timestamp"), number=number, rank=_RANKS[action])


def _actor(body: Part) -> str:
    """Who did it: an account in the cloud, a key elsewhere."""
    return body.text("userAccountId") or body.text("userKey")


def _id(*parts: Part) -> str:
    """That of the first. In the cloud the site is part of it, as one secret may serve several; self-hosted the site is
    not known. What stands beside it in the body is of the same site."""
    sites = (host(part.text("self")) for part in parts)
    return "/".join(filter(None, (next(filter(None, sites), ""), str(parts[0].number("id")))))
