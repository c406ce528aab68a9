"""GitHub's events: what they write, in how few statements, and how they read."""

from datetime import UTC, datetime

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webhook_samples import changed, fields, line, report, stored
from webhooks.models import Activity
from webhooks.models.resources import (
    GithubDeployment,
    GithubDeploymentStatus,
    GithubIssue,
    GithubPullRequest,
    GithubPush,
    GithubRepository,
    GithubReview,
)

pytestmark = pytest.mark.django_db

ISSUE = "github/issues.opened.1.json"
PULL_REQUEST = "github/pull_request.opened.1.json"


class TestIssues:
    def test_are_kept_with_their_repository(self) -> None:
        report(ISSUE)
        issue = stored(GithubIssue)
        assert (issue.external_id, issue.number, issue.title) == ("444500041", 1, "Spelling error in the README file")
        assert (issue.state, issue.author, issue.labels, issue.assignees) == (
            "open",
            "Codertocat",
            ["bug"],
            ["Codertocat"],
        )
        assert issue.link == "https://github.com/Codertocat/Hello-World/issues/1"
        assert issue.state_at == datetime(2019, 5, 15, 15, 20, 18, tzinfo=UTC)
        assert str(stored(GithubRepository, external_id=issue.parent)) == "Codertocat/Hello-World"
        assert line() == (
            "Codertocat opened issue Codertocat/Hello-World#1: Spelling error in the README file",
            "https://github.com/Codertocat/Hello-World/issues/1",
            "githubissue 444500041",
        )

    def test_within_one_second_end_as_the_last_action_says(self) -> None:
        """GitHub's times have whole seconds: a bot that opens, closes and opens again may need one."""
        events_sent = [
            ("issues.reopened", changed(ISSUE, action="reopened", issue__state="open", issue__state_reason="reopened")),
            ("issues.closed", changed(ISSUE, action="closed", issue__state="closed")),
            ("issues.opened", changed(ISSUE)),
        ]
        for type_, body in events_sent:
            report(ISSUE, type=type_, body=body)
        assert fields(GithubIssue, "state", "reason") == ("open", "reopened")

    def test_that_are_older_change_nothing(self) -> None:
        newer = changed(ISSUE, action="edited", issue__title="Newer", issue__updated_at="2019-05-15T15:20:19Z")
        report(ISSUE, type="issues.edited", body=newer)
        report(ISSUE)
        assert stored(GithubIssue).title == "Newer"

    def test_that_were_deleted_stay_so(self) -> None:
        report("github/issues.deleted.1.json")
        report("github/issues.reopened.1.json")
        report(ISSUE)
        issue = stored(GithubIssue)
        assert issue.deleted_at == datetime(2021, 10, 11, 16, 40, 56, tzinfo=UTC)

    def test_that_were_transferred_are_gone(self) -> None:
        report(ISSUE, type="issues.transferred", body=changed(ISSUE, action="transferred"))
        assert stored(GithubIssue).deleted_at is not None

    def test_are_asked_for_in_three_statements(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(3):  # the repository, the issue, the line
            report(ISSUE)
        with django_assert_num_queries(2):  # a change of labels is worth no line
            report(ISSUE, type="issues.labeled", body=changed(ISSUE, action="labeled"))
        with django_assert_num_queries(4):
            report("github/issues.deleted.1.json")

    def test_say_nothing_of_small_changes(self) -> None:
        for file in ("edited.1", "locked.1", "unlocked.1"):
            report(f"github/issues.{file}.json")
        assert not Activity.objects.exists()

    def test_link_to_https_alone(self) -> None:
        report(ISSUE, body=changed(ISSUE, repository__html_url="javascript:alert(1)//"))
        assert (line()[1], stored(GithubIssue).link, stored(GithubRepository).link) == ("", "", "")

    def test_keep_hostile_text_as_text(self) -> None:
        title = "<script>alert('1')</script> \u202e %s {0} \u2400"
        report(ISSUE, body=changed(ISSUE, issue__title=title, sender__login="<b>"))
        assert stored(GithubIssue).title == title
        assert line()[0] == f"<b> opened issue Codertocat/Hello-World#1: {title}"


class TestComments:
    def test_on_an_issue_keep_it_and_say_so(self) -> None:
        report("github/issue_comment.created.1.json")
        assert stored(GithubIssue).title == "Spelling error in the README file"
        assert line()[0] == "Codertocat commented on issue Codertocat/Hello-World#1: Spelling error in the README file"

    def test_on_a_pull_request_make_no_issue_of_it(self) -> None:
        file = "github/issue_comment.created.1.json"
        report(file, body=changed(file, issue__pull_request={"url": "https://api.github.com/"}))
        assert not GithubIssue.objects.exists()
        assert line() == (
            "Codertocat commented on pull request Codertocat/Hello-World#1: Spelling error in the README file",
            "https://github.com/Codertocat/Hello-World/pull/1",
            "",
        )

    def test_that_were_changed_say_nothing(self) -> None:
        file = "github/issue_comment.created.1.json"
        report(file, type="issue_comment.edited", body=changed(file, action="edited"))
        assert not Activity.objects.exists()


class TestPullRequests:
    def test_are_kept_with_their_repository(self) -> None:
        report(PULL_REQUEST)
        kept = stored(GithubPullRequest)
        assert (kept.number, kept.state, kept.is_draft, kept.author) == (2, "open", False, "Codertocat")
        assert (kept.head_ref, kept.base_ref, kept.reviewers) == ("changes", "master", ["octocat"])
        assert kept.head_sha == "ec26c3e57ca3a959ca5aad62de7213c562f8c821"

    def test_are_merged_or_just_closed(self) -> None:
        report("github/pull_request.closed.1.json")
        file = "github/pull_request.closed.1.json"
        merged = changed(file, pull_request__merged_at="2019-05-15T15:21:18Z")
        report(file, body=merged, pk=1000)
        verbs = Activity.objects.order_by("id").values_list("verb", flat=True)
        assert list(verbs) == ["closed", "merged"]

    def test_as_a_comment_carries_them_do_not_lose_what_it_leaves_out(self) -> None:
        draft = changed(PULL_REQUEST, pull_request__draft=True)
        report(PULL_REQUEST, body=draft)
        report("github/pull_request_review_comment.created.1.json")
        assert fields(GithubPullRequest, "is_draft", "state_at") == (
            True, datetime(2019, 5, 15, 15, 20, 38, tzinfo=UTC),
        )  # fmt: skip

    def test_are_reviewed(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(4):  # the repository, the pull request, the review, the line
            report("github/pull_request_review.submitted.1.json")
        review = stored(GithubReview)
        assert (review.state, review.author) == ("commented", "Codertocat")
        assert stored(GithubPullRequest, external_id=review.parent).number == 2
        assert review.link == "https://github.com/Codertocat/Hello-World/pull/2#pullrequestreview-237895671"

    @pytest.mark.parametrize(
        ("action", "state", "verb"),
        [
            ("submitted", "approved", "approved"),
            ("submitted", "changes_requested", "asked for changes to"),
            ("submitted", "COMMENTED", "reviewed"),
            ("dismissed", "dismissed", "dismissed a review of"),
        ],
    )
    def test_tell_how_they_were_reviewed(self, action: str, state: str, verb: str) -> None:
        file = "github/pull_request_review.submitted.1.json"
        report(file, type=f"pull_request_review.{action}", body=changed(file, action=action, review__state=state))
        assert Activity.objects.get().verb == verb
        assert stored(GithubReview).state == state.lower()

    def test_keep_a_review_dismissed_whatever_comes_late(self) -> None:
        file = "github/pull_request_review.submitted.1.json"
        report(
            file,
            type="pull_request_review.dismissed",
            body=changed(file, action="dismissed", review__state="dismissed"),
        )
        report(file)
        assert stored(GithubReview).state == "dismissed"


class TestPushes:
    def test_are_kept_once_however_often_they_come(self) -> None:
        for delivery in ("a", "b"):
            report("github/push.2.json", delivery_id=delivery, pk=ord(delivery))
        push = stored(GithubPush)
        assert (push.ref, push.commits, push.message, push.pusher) == (
            "refs/heads/master",
            1,
            "Initial commit",
            "Codertocat",
        )
        assert (push.is_creation, push.is_deletion, push.is_forced) == (True, False, False)
        assert push.state_at == datetime(2019, 5, 15, 15, 20, 57, tzinfo=UTC)

    def test_back_and_forth_are_two(self) -> None:
        report("github/push.2.json")
        report("github/push.2.json", body=changed("github/push.2.json", repository__pushed_at=1557933999), pk=1000)
        assert GithubPush.objects.count() == 2

    def test_that_delete_have_no_commit_and_no_line(self) -> None:
        report("github/push.1.json")
        assert fields(GithubPush, "is_deletion", "message") == (True, "")
        assert not Activity.objects.exists()


class TestDeployments:
    def test_are_kept_with_their_statuses(self) -> None:
        report("github/deployment_status.created.1.json")
        report("github/deployment.created.1.json")
        status = stored(GithubDeploymentStatus)
        assert (status.state, status.environment) == ("success", "production")
        assert str(stored(GithubDeployment, external_id=status.parent)) == "master to production"
        assert stored(GithubDeployment).state_at == datetime(2019, 5, 15, 15, 20, 55, tzinfo=UTC)

    def test_are_kept_when_an_older_server_sends_no_action(self) -> None:
        for name in ("deployment_status", "deployment"):
            body = {
                field: value for field, value in changed(f"github/{name}.created.1.json").items() if field != "action"
            }
            report(f"github/{name}.created.1.json", type=name, body=body)
        assert (GithubDeployment.objects.count(), GithubDeploymentStatus.objects.count()) == (1, 1)

    def test_say_how_they_ended_and_not_each_step(self) -> None:
        file = "github/deployment_status.created.1.json"
        for n, state in enumerate(["queued", "in_progress", "failure"]):
            report(file, body=changed(file, deployment_status__state=state, deployment_status__id=n + 1), pk=n + 1)
        assert list(Activity.objects.values_list("verb", flat=True)) == ["ended with failure"]
        assert GithubDeploymentStatus.objects.count() == 3


class TestRepositories:
    def test_change_hands_and_go(self) -> None:
        body = {name: value for name, value in changed("github/watch.started.1.json").items() if name != "action"}
        report("github/watch.started.1.json")
        report("github/watch.started.1.json", type="repository.deleted", body=body | {"action": "deleted"}, pk=1000)
        repository = stored(GithubRepository)
        assert (repository.full_name, repository.is_private) == ("Codertocat/Hello-World", False)
        assert repository.deleted_at == datetime(2019, 5, 15, 15, 20, 40, tzinfo=UTC)
        lines = Activity.objects.order_by("id").values_list("verb", "object")
        assert list(lines) == [
            ("starred", "repository Codertocat/Hello-World"),
            ("deleted", "repository Codertocat/Hello-World"),
        ]

    def test_know_best_of_themselves_within_one_second(self) -> None:
        """A push carries the repository as it was; its own event of the same second is what changed it."""
        body = changed("github/watch.started.1.json", repository__archived=True)
        report("github/watch.started.1.json", type="repository.archived", body=body | {"action": "archived"})
        report("github/watch.started.1.json")
        assert stored(GithubRepository).is_archived is True

    def test_are_not_needed_by_an_organization_s_hook(self) -> None:
        report("github/ping.2.json")
        assert not GithubRepository.objects.exists()
        assert line()[0] == "Codertocat connected the webhook 109948940 of an organization"
        assert Activity.objects.get().at == datetime(2020, 12, 6, 0, 30, 50, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("release.prereleased.1", "Codertocat pre-released Codertocat/Hello-World 0.0.1"),
            ("create.1", "Codertocat created tag simple-tag of Codertocat/Hello-World"),
            ("delete.1", "Codertocat deleted tag simple-tag of Codertocat/Hello-World"),
            ("fork.1", "Octocoders forked repository Codertocat/Hello-World to Octocoders/Hello-World"),
            ("member.added.1", "hacktocat added hacktocat as a collaborator of Codertocat/Hello-World"),
        ],
    )
    def test_change(self, file: str, text: str) -> None:
        report(f"github/{file}.json")
        assert line()[0] == text

    def test_date_a_branch_or_tag_by_the_push_that_made_it(self) -> None:
        report("github/create.1.json")
        assert Activity.objects.get().at == datetime(2019, 5, 15, 15, 20, 56, tzinfo=UTC)

    def test_tell_how_a_workflow_ended(self) -> None:
        run = {
            "id": 940463255, "name": "Tests", "head_branch": "main", "conclusion": "failure",
            "updated_at": "2021-06-15T19:22:27Z",
        }  # fmt: skip
        body = changed("github/workflow_job.in_progress.1.json") | {"action": "completed", "workflow_run": run}
        report("github/workflow_job.in_progress.1.json", type="workflow_run.completed", body=body)
        assert line() == (
            "octocat ran (failure) workflow Tests of octo-org/example-workflow main",
            "https://github.com/octo-org/example-workflow/actions/runs/940463255",
            "",
        )
