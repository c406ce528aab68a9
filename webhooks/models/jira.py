"""Jira: issues and their comments. Ids are those of one site, so the site is part of a row's id."""

from django.db import models

from webhooks.models.resources import Resource, indexes_by, member_of, moment, short


class JiraIssue(Resource):
    """An issue of a Jira site."""

    site = short()
    key = short()
    project = short()
    summary = short()
    kind = short(help_text="Story, bug, task ...")
    status = short()
    category = short(help_text="Of the status, the same in all projects: new, indeterminate, done.")
    priority = short()
    resolution = short()
    assignee = short()
    reporter = short()
    labels = models.JSONField(default=list, blank=True)
    link = models.CharField(max_length=500, default="", blank=True)
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Jira issue"

    def __str__(self) -> str:
        return f"{self.key} {self.summary}".strip() or self.external_id


class JiraComment(Resource):
    """A comment on a Jira issue."""

    issue = member_of("JiraIssue", related_name="comments")
    author = short()
    editor = short(help_text="Who wrote its present text.")
    body = models.TextField(default="", blank=True)
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Jira comment"
        indexes = indexes_by("issue")

    def __str__(self) -> str:
        return f"comment by {self.author}"
