"""GitHub: repositories and what happens in them."""

from django.db import models

from webhooks.models.resources import Resource, indexes_by, member_of, moment, short


class GithubRepository(Resource):
    """A repository."""

    full_name = short()
    description = models.TextField(default="", blank=True)
    default_branch = short()
    language = short()
    is_private = models.BooleanField(default=False)
    is_archived = models.BooleanField(default=False)
    is_fork = models.BooleanField(default=False)
    link = models.CharField(max_length=500, default="", blank=True)
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "GitHub repository"
        verbose_name_plural = "GitHub repositories"

    def __str__(self) -> str:
        return self.full_name or self.external_id


class GithubPush(Resource):
    """A branch or tag that moved. GitHub gives a push no id: its repository, ref, commits and moment are one."""

    repository = member_of("GithubRepository", related_name="pushes")
    ref = short()
    before = short()
    after = short()
    is_creation = models.BooleanField(default=False)
    is_deletion = models.BooleanField(default=False)
    is_forced = models.BooleanField(default=False)
    commits = models.PositiveIntegerField(default=0)
    message = models.TextField(default="", blank=True, help_text="Of the newest commit.")
    pusher = short()
    link = models.CharField(max_length=500, default="", blank=True)

    class Meta(Resource.Meta):
        verbose_name = "GitHub push"
        verbose_name_plural = "GitHub pushes"
        indexes = indexes_by("repository")

    def __str__(self) -> str:
        return f"{self.ref} {self.before[:7]}..{self.after[:7]}"


class GithubPullRequest(Resource):
    """A pull request."""

    repository = member_of("GithubRepository", related_name="pull_requests")
    number = models.PositiveBigIntegerField(default=0)
    title = short()
    state = short()
    is_draft = models.BooleanField(default=False)
    author = short()
    labels = models.JSONField(default=list, blank=True)
    reviewers = models.JSONField(default=list, blank=True, help_text="Requested reviewers.")
    head_ref = short()
    head_sha = short()
    base_ref = short()
    link = models.CharField(max_length=500, default="", blank=True)
    created_at = moment()
    closed_at = moment()
    merged_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "GitHub pull request"
        indexes = indexes_by("repository")

    def __str__(self) -> str:
        return f"#{self.number} {self.title}"


class GithubReview(Resource):
    """What somebody says of a pull request as a whole."""

    pull_request = member_of("GithubPullRequest", related_name="reviews")
    state = short()
    author = short()
    commit = short()
    link = models.CharField(max_length=500, default="", blank=True)

    class Meta(Resource.Meta):
        verbose_name = "GitHub review"
        indexes = indexes_by("pull_request")

    def __str__(self) -> str:
        return f"{self.state} by {self.author}"


class GithubIssue(Resource):
    """An issue."""

    repository = member_of("GithubRepository", related_name="issues")
    number = models.PositiveBigIntegerField(default=0)
    title = short()
    state = short()
    reason = short(help_text="Why it was closed.")
    author = short()
    labels = models.JSONField(default=list, blank=True)
    assignees = models.JSONField(default=list, blank=True)
    link = models.CharField(max_length=500, default="", blank=True)
    created_at = moment()
    closed_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "GitHub issue"
        indexes = indexes_by("repository")

    def __str__(self) -> str:
        return f"#{self.number} {self.title}"


class GithubDeployment(Resource):
    """A version that is to run somewhere."""

    repository = member_of("GithubRepository", related_name="deployments")
    environment = short()
    task = short()
    ref = short()
    sha = short()
    description = short()
    author = short()
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "GitHub deployment"
        indexes = indexes_by("repository")

    def __str__(self) -> str:
        return f"{self.ref} to {self.environment}"


class GithubDeploymentStatus(Resource):
    """How a deployment goes; its newest status is where it stands."""

    deployment = member_of("GithubDeployment", related_name="statuses")
    state = short()
    environment = short()
    description = short()
    author = short()
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "GitHub deployment status"
        verbose_name_plural = "GitHub deployment statuses"
        indexes = indexes_by("deployment")

    def __str__(self) -> str:
        return f"{self.state} in {self.environment}"
