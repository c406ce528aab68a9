"""Confluence: pages, blog posts and comments. In the cloud the site is part of a row's id; elsewhere it is not told."""

from django.db import models

from webhooks.models.resources import Resource, indexes_by, member_of, moment, short


class ConfluencePage(Resource):
    """A page or a blog post. A self-hosted Confluence tells its id alone."""

    class Kind(models.TextChoices):
        """What it is."""

        PAGE = "page", "page"
        BLOG = "blog", "blog post"

    class Status(models.TextChoices):
        """Where it is."""

        CURRENT = "current", "current"
        TRASHED = "trashed", "in the trash"

    site = short()
    kind = models.CharField(max_length=4, choices=Kind.choices, default=Kind.PAGE)
    status = models.CharField(max_length=7, choices=Status.choices, default=Status.CURRENT)
    title = short()
    space = short()
    version = models.PositiveBigIntegerField(default=0, help_text="0: unknown.")
    author = short(help_text="The sender's id of whom it is by.")
    editor = short(help_text="The sender's id of whom the last change is by.")
    link = models.CharField(max_length=500, default="", blank=True)
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Confluence page"

    def __str__(self) -> str:
        return self.title or f"{self.kind} {self.external_id}"


class ConfluenceComment(Resource):
    """A comment on a page or blog post."""

    page = member_of("ConfluencePage", related_name="comments")
    author = short()
    editor = short()
    version = models.PositiveBigIntegerField(default=0)
    link = models.CharField(max_length=500, default="", blank=True)
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Confluence comment"
        indexes = indexes_by("page")
