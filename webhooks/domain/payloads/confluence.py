"""Confluence: self-hosted it sends ids alone; in the cloud it sends the content, and does not name its event.

Needed is the id of what is kept.
"""

from webhooks.domain.payloads.base import Maybe, Millis, Number, NumberOrDigits, Payload


class Content(Payload):
    """A page, a blog post, or what a comment is on."""

    id: NumberOrDigits
    title: Maybe = ""
    spaceKey: Maybe = ""  # noqa: N815 (the sender's names)
    version: Number = 0
    self: Maybe = ""
    creatorAccountId: Maybe = ""  # noqa: N815
    lastModifierAccountId: Maybe = ""  # noqa: N815
    creationDate: Millis | None = None  # noqa: N815


class Comment(Content):
    """A comment. Self-hosted, it does not say what it is on."""

    parent: Content | None = None


class Envelope(Payload):
    """What every event has. Who did it is an account in the cloud and a key elsewhere."""

    timestamp: Millis | None = None
    userAccountId: Maybe = ""  # noqa: N815
    userKey: Maybe = ""  # noqa: N815

    @property
    def actor(self) -> str:
        """Who did it, by the sender's id."""
        return self.userAccountId or self.userKey


class PageEvent(Envelope):
    """page_*"""

    page: Content


class BlogEvent(Envelope):
    """blog_*"""

    blog: Content


class CommentEvent(Envelope):
    """comment_*"""

    comment: Comment
