"""The tables of the chat. A room is a group's; who is in the group is in the room."""

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from examples.chat.domain.answers import LABELS, OPEN, State

SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")


class Message(models.Model):
    """A message in a room. The newest one of the system holds the instructions for the assistant."""

    group = models.ForeignKey(Group, models.CASCADE, db_index=False, related_name="messages")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="messages"
    )
    role = models.CharField(max_length=9, choices=[(role, role) for role in ROLES])
    question = models.ForeignKey(
        "self", models.CASCADE, null=True, blank=True, related_name="replies", help_text="The message that it answers."
    )
    text = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(name="message_role_is_known", condition=Q(role__in=ROLES)),
            models.CheckConstraint(
                name="the_assistant_is_nobody", condition=~Q(role=ASSISTANT) | Q(author__isnull=True)
            ),
            models.CheckConstraint(
                name="the_assistant_only_answers",
                condition=Q(role=ASSISTANT, question__isnull=False) | ~Q(role=ASSISTANT) & Q(question__isnull=True),
            ),
            models.CheckConstraint(name="people_say_something", condition=~Q(role=USER) | ~Q(text="")),
        ]
        indexes = [
            models.Index(fields=["group", "id"], name="chat_said", condition=~Q(role=SYSTEM)),
            models.Index(fields=["group", "id"], name="chat_instructions", condition=Q(role=SYSTEM)),
        ]

    def __str__(self) -> str:
        return f"{self.role} #{self.pk}"


class Answer(models.Model):
    """How a message of the assistant comes about. It moves with its job, in the job's own transactions."""

    message = models.OneToOneField(Message, models.CASCADE, primary_key=True, related_name="answer")
    group = models.ForeignKey(Group, models.CASCADE, db_index=False, related_name="+")
    asker = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    # No foreign key: jobs are forgotten after some time, answers are kept.
    job_id = models.BigIntegerField(unique=True, help_text="The job that writes it.")
    state = models.CharField(max_length=9, choices=[(state, LABELS[state]) for state in State], default=State.WAITING)
    attempt = models.BigIntegerField(default=0, help_text="The fencing token of its job's claim.")
    worker_name = models.CharField(max_length=100, blank=True)
    model_name = models.CharField(
        "model", max_length=100, blank=True, db_default="", help_text="Which model wrote it, as the worker says."
    )
    error = models.CharField(max_length=300, blank=True, help_text="How the last attempt failed.")
    starts_at = models.DateTimeField(null=True, blank=True, help_text="It does not start before this moment.")
    tokens = models.PositiveIntegerField(default=0, help_text="The most tokens that it is estimated to use.")

    class Meta:
        constraints = [
            models.CheckConstraint(name="answer_state_is_known", condition=Q(state__in=sorted(State))),
            models.UniqueConstraint(
                name="one_unanswered_question_for_each_person_in_a_group",
                fields=["group", "asker"],
                condition=Q(state__in=sorted(OPEN)),
            ),
        ]

    def __str__(self) -> str:
        return f"answer #{self.pk}"
