"""Jira's and Confluence's events: what they write and how they read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webhook_samples import all_stored, changed, fields, line, lines, report, stored
from webhooks.models import Activity
from webhooks.models.resources import ConfluenceComment, ConfluencePage, JiraComment, JiraIssue

pytestmark = pytest.mark.django_db

SITE = "some-instance-test.atlassian.net"
CREATED = "jira/jira.issue_created.2.json"
GENERIC = "jira/jira.issue_updated.issue_generic.1.json"


class TestJiraIssues:
    def test_are_kept(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(2):  # the issue, the line
            report(CREATED)
        issue = stored(JiraIssue)
        assert (issue.external_id, issue.key, issue.project, issue.kind) == (f"{SITE}/10040", "TES-41", "TES", "Story")
        assert (issue.summary, issue.status, issue.category) == ("Unit test summary", "To Do", "new")
        assert (issue.priority, issue.resolution, issue.assignee, issue.reporter) == ("High", "", "", "Test User")
        assert (issue.labels, issue.created_at) == (["test-label"], datetime(2019, 2, 16, 3, 1, 52, 971000, tzinfo=UTC))
        assert line() == (
            "Test User created TES-41: Unit test summary",
            f"https://{SITE}/browse/TES-41",
            f"jiraissue {SITE}/10040",
        )

    def test_of_two_sites_are_two(self) -> None:
        report(CREATED)
        report(
            CREATED, body=changed(CREATED, issue__self="https://other.atlassian.net/rest/api/2/issue/10040"), pk=1000
        )
        assert JiraIssue.objects.count() == 2

    def test_of_one_moment_are_ordered_by_their_changelog(self) -> None:
        report(GENERIC, body=changed(GENERIC, changelog__id="10229", issue__fields__summary="Second"))
        report(GENERIC, body=changed(GENERIC, changelog__id="10228", issue__fields__summary="First"))
        assert stored(JiraIssue).summary == "Second"

    def test_that_were_deleted_stay_so(self) -> None:
        deleted = "jira/jira.issue_deleted.1.json"
        report(deleted)
        report(deleted, type="jira:issue_updated", body=changed(deleted, timestamp=1562177136177), pk=1000)
        assert stored(JiraIssue).deleted_at == datetime(2019, 7, 3, 18, 5, 36, 176000, tzinfo=UTC)

    def test_link_nowhere_without_https(self) -> None:
        report("jira/jira.issue_updated.issue_closed.1.json")
        assert (stored(JiraIssue).link, line()[1]) == ("", "")

    @pytest.mark.parametrize(
        ("items", "text"),
        [
            (
                [{"field": "status", "toString": "Done"}, {"field": "resolution", "toString": "Done"}],
                "moved TES-41: {} to Done",
            ),
            ([{"field": "assignee", "toString": "Ada"}], "assigned TES-41: {} to Ada"),
            ([{"field": "assignee", "toString": None}], "unassigned TES-41: {}"),
            ([{"field": "labels"}, {"field": "Sprint"}], "changed Sprint, labels of TES-41: {}"),
            ([], "changed TES-41: {}"),
        ],
    )
    def test_tell_what_was_done_from_their_changelog(self, items: list[Any], text: str) -> None:
        report(GENERIC, body=changed(GENERIC, changelog__items=items))
        assert line()[0] == "Test User " + text.format("Unit test summary 1")

    def test_without_a_changelog_just_changed(self) -> None:
        report(GENERIC, body=changed(GENERIC, changelog=None, user=None))
        assert line()[0] == "changed TES-41: Unit test summary 1"

    def test_say_nothing_of_comments_which_come_as_such(self) -> None:
        report(GENERIC, body=changed(GENERIC, issue_event_type_name="issue_commented"))
        assert not Activity.objects.exists()
        assert JiraIssue.objects.count() == 1


class TestJiraComments:
    def test_are_kept_in_their_newest_text(self) -> None:
        report("jira/comment_updated.1.json")
        report("jira/comment_created.1.json")
        comment = stored(JiraComment)
        assert (comment.external_id, comment.parent, comment.author) == (f"{SITE}/10019", f"{SITE}/10040", "Test User")
        assert comment.body == "Added a comment, then edited it"
        assert lines() == [
            "Test User changed a comment on TES-41: Unit test summary 1",
            "Test User commented on TES-41: Unit test summary 1",
        ]

    def test_say_what_they_carry_of_their_issue_and_leave_the_rest_alone(self) -> None:
        report("jira/comment_created.1.json")
        assert fields(JiraIssue, "summary", "reporter") == ("Unit test summary 1", None)
        report(CREATED)  # older than the comment, and whole
        both = ("Unit test summary 1", "Test User")
        assert fields(JiraIssue, "summary", "reporter") == both
        report("jira/comment_updated.1.json")
        assert fields(JiraIssue, "summary", "reporter") == both

    def test_of_a_self_hosted_jira_know_their_issue_by_their_address(self) -> None:
        report("jira/comment_created.2.json")
        site = "sales-jira.centralus.cloudapp.azure.com:8080"
        known: Any = fields(JiraComment, "parent", "author")
        assert known == (f"{site}/10013", "Lev Brouk")
        assert line() == ("Lev Brouk commented on issue 10013", "", f"jiraissue {site}/10013")

    def test_that_were_deleted_stay_so(self) -> None:
        report("jira/comment_updated.1.json", type="comment_deleted")
        report("jira/comment_created.1.json")
        comment = stored(JiraComment)
        assert comment.deleted_at == datetime(2019, 2, 16, 3, 12, 8, 432000, tzinfo=UTC)
        assert lines()[0] == "deleted a comment on TES-41: Unit test summary 1"


class TestConfluence:
    def test_pages_of_the_cloud_are_kept_in_their_newest_version(self) -> None:
        report("confluence/page_updated.2.json")
        report("confluence/page_created.2.json")
        page = stored(ConfluencePage)
        assert (page.external_id, page.kind, page.status) == ("moeller.atlassian.net/65601", "page", "current")
        assert (page.title, page.space, page.version) == ("Runbook: payments", "ENG", 2)
        assert page.author.startswith("712020:")
        assert page.editor.startswith("557058:")
        assert page.link == "https://moeller.atlassian.net/wiki/spaces/ENG/pages/65601"

    def test_pages_of_a_self_hosted_one_are_known_by_their_id(self) -> None:
        report("confluence/page_created.1.json")
        assert fields(ConfluencePage, "external_id", "title", "link") == ("123456", None, None)
        assert line() == ("abc123 created page 123456", "", "confluencepage 123456")

    def test_the_trash_comes_after_a_change_of_the_same_moment(self) -> None:
        for event in ("trashed", "updated", "moved", "created"):
            report(f"confluence/page_{event}.1.json")
        assert stored(ConfluencePage).status == "trashed"

    def test_a_page_comes_back_from_the_trash(self) -> None:
        report("confluence/page_trashed.1.json")
        restored = changed("confluence/page_trashed.1.json", event="page_restored", timestamp=1778071365413)
        report("confluence/page_trashed.1.json", type="page_restored", body=restored, pk=1000)
        assert fields(ConfluencePage, "status", "deleted_at") == ("current", None)

    def test_a_page_that_was_removed_does_not(self) -> None:
        report("confluence/page_trashed.1.json", type="page_removed")
        report("confluence/page_created.1.json")
        assert stored(ConfluencePage).deleted_at == datetime(2026, 5, 6, 12, 42, 45, 412000, tzinfo=UTC)
        assert lines()[0] == "abc123 deleted for good page 123456"

    def test_blog_posts_are_pages_of_their_kind(self) -> None:
        report("confluence/blog_created.1.json")
        assert stored(ConfluencePage).kind == "blog"
        assert line()[0] == "def456 created blog post 234567"

    def test_comments_know_their_page_where_they_say_it(self) -> None:
        report("confluence/comment_created.2.json")
        report("confluence/comment_created.1.json")
        pages = [(comment.external_id, comment.parent) for comment in all_stored(ConfluenceComment)]
        assert pages == [("789012", None), ("moeller.atlassian.net/70011", "moeller.atlassian.net/65601")]
        assert [text.partition(" ")[2] for text in lines()] == [
            "commented on page Runbook: payments",
            "commented on a page",
        ]

    def test_comments_that_were_removed_stay_so(self) -> None:
        report("confluence/comment_created.1.json", type="comment_removed")
        report("confluence/comment_created.1.json")
        assert stored(ConfluenceComment).deleted_at is not None
