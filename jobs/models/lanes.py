"""Who may take a waiting job, and before whom: its lane. Written by functions of the database (0001_lanes.sql)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class _Attributes(models.Model):
    """What the jobs of a lane have in common; 0 for what they have not, so that equality finds it."""

    queue = models.CharField(max_length=100)
    priority = models.SmallIntegerField()
    owner_id = models.IntegerField(default=0, help_text="Whose jobs, where the queue keeps owners apart.")
    group_id = models.IntegerField(default=0)
    requirement_id = models.IntegerField(default=0)
    required_id = models.IntegerField(default=0, help_text="What of the requirement is no mere preference.")
    avoid = ArrayField(models.BigIntegerField(), default=list, help_text="Workers that failed its jobs.")

    class Meta:
        abstract = True


class Lane(_Attributes):
    """One distinct set of attributes. It never changes; a job that is moved waits in another lane.

    Two with the same attributes may come of two transactions that wait for nobody; the first one gets what comes.
    """

    id = models.AutoField(primary_key=True)
    is_apart = models.BooleanField(default=False, help_text="Owners and groups have lanes of their own.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            # `avoid` by its hash: an array may be larger than an entry of an index.
            models.Index(
                *("queue", "priority", "is_apart", "owner_id", "group_id", "requirement_id"),
                models.Func("avoid", function="hash_array"),
                name="jobs_lane_by_attributes",
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue}, priority {self.priority}"


class Mark(_Attributes):
    """Nothing in the lane is due before the least of its marks; a lane without one is asleep: nothing waits in it.

    The lane's attributes stand here again: a claim reads this small table alone, in the order in which
    lanes are served.
    """

    lane_id = models.IntegerField()
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index("queue", F("priority").desc(), "at", "id", name="jobs_marks_in_order"),
            models.Index("lane_id", "at", "id", name="jobs_marks_of_lane"),
            models.Index("queue", "owner_id", name="jobs_marks_of_owner", condition=~Q(owner_id=0)),
            models.Index("lane_id", name="jobs_marks_of_all", condition=Q(owner_id=0, group_id=0)),
            models.Index("queue", "group_id", name="jobs_marks_of_group", condition=~Q(group_id=0)),
        ]
