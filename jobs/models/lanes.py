"""Who may take a waiting job, and before whom: its lane. Written by functions of the database (0001_lanes.sql)."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from jobs.models.workers import loose


class _Attributes(models.Model):
    """What the jobs of a lane have in common; 0 for what they have not, so that equality finds it."""

    queue = models.CharField(max_length=100)
    priority = models.SmallIntegerField()
    owner_id = models.IntegerField(default=0, help_text="Whose jobs, where the queue keeps owners apart.")
    group_id = models.IntegerField(default=0)
    requirement_id = models.IntegerField(default=0)
    required_id = models.IntegerField(default=0, help_text="What of the requirement is no mere preference.")
    avoid = ArrayField(models.BigIntegerField(), default=list, help_text="Workers that failed its jobs.")
    key_id = models.IntegerField(default=0, db_default=0, help_text="Of how many at a time the jobs are one (0: any).")
    share = models.IntegerField(
        default=0, db_default=0, help_text="Whose share of a fair queue (0008_shares_and_keys.sql)."
    )

    class Meta:
        abstract = True


class ConcurrencyKey(models.Model):
    """Of the jobs with this key so many run at a time at most, whichever lane they wait in. It is a kind's where that
    says how many, else a queue's. Without a bound it tells shares of a fair queue apart."""

    id = models.AutoField(primary_key=True)
    kind = models.CharField(max_length=100, blank=True, default="")
    queue = models.CharField(max_length=100, blank=True, default="")
    name = models.CharField(max_length=200, blank=True)
    bound = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="How many run at a time; empty: any number."
    )
    paused_at = models.DateTimeField(null=True, blank=True, help_text="While paused, none of its jobs is claimed.")
    paused_by = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
    used_at = models.DateTimeField(db_default=Now(), help_text="When a job was submitted with it, within an hour.")

    class Meta:
        ordering = ["kind", "queue", "name"]
        constraints = [models.UniqueConstraint(fields=["kind", "queue", "name"], name="a_concurrency_key_is_one")]

    def __str__(self) -> str:
        return f"{self.name or 'no key'} of {self.kind or self.queue}"


class PausedOwner(models.Model):
    """None of this person's jobs is claimed: they wait in lanes that have no mark."""

    owner = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="+")
    paused_at = models.DateTimeField(db_default=Now())
    paused_by = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)

    def __str__(self) -> str:
        return str(self.owner)


class Lane(_Attributes):
    """One distinct set of attributes. It never changes; a job that is moved waits in another lane.

    Two with the same attributes may come of two transactions that wait for nobody; the first one gets what comes.
    """

    id = models.AutoField(primary_key=True)
    is_apart = models.BooleanField(default=False, help_text="Owners and groups have lanes of their own.")
    fair = models.CharField(
        max_length=5, default="off", db_default="off", help_text="How the queue was shared out then."
    )
    held_for = models.IntegerField(
        default=0, db_default=0, help_text="Whose jobs came here while they were paused (PausedOwner); 0: nobody's."
    )
    raised = models.SmallIntegerField(
        default=0, db_default=0, help_text="By how much `priority` is above that of its jobs, which waited so long."
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index("held_for", name="jobs_lanes_held", condition=~Q(held_for=0)),
            # `avoid` by its hash: an array may be larger than an entry of an index.
            models.Index(
                *("queue", "priority", "is_apart", "owner_id", "group_id", "requirement_id", "share", "key_id"),
                models.Func("avoid", function="hash_array"),
                name="jobs_lane_of_attributes",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue}, priority {self.priority}"


class Served(models.Model):
    """For how many seconds the jobs of a share of a fair queue have run, divided by its weight. What it says beside
    others of the queue counts, not how much it is."""

    pk = models.CompositePrimaryKey("queue", "share")
    queue = models.CharField(max_length=100)
    share = models.IntegerField()
    seconds = models.FloatField()
    at = models.DateTimeField()


class Charge(models.Model):
    """How long one job ran that has ended: the next claim of its fair queue adds it to what its share was served."""

    queue = models.CharField(max_length=100)
    share = models.IntegerField()
    seconds = models.FloatField()

    class Meta:
        indexes = [models.Index(fields=["queue"], name="jobs_charges_of_queue")]


class Mark(_Attributes):
    """Nothing in the lane is due before the least of its marks; a lane without one is asleep: nothing waits in it.

    The lane's attributes stand here again: a claim reads this small table alone, in the order in which
    lanes are served.
    """

    lane_id = models.IntegerField()
    at = models.DateTimeField()
    served = models.FloatField(default=0, db_default=0, help_text="The seconds that its share was served, by weight.")

    class Meta:
        indexes = [
            models.Index("queue", F("priority").desc(), "at", "id", name="jobs_marks_in_order"),
            models.Index("lane_id", "at", "id", name="jobs_marks_of_lane"),
            models.Index("queue", "owner_id", name="jobs_marks_of_owner", condition=~Q(owner_id=0)),
            models.Index("lane_id", name="jobs_marks_of_all", condition=Q(owner_id=0, group_id=0)),
            models.Index("queue", "group_id", name="jobs_marks_of_group", condition=~Q(group_id=0)),
            models.Index(
                "queue", F("priority").desc(), "served", "at", "id", name="jobs_marks_in_turn", condition=~Q(share=0)
            ),
            models.Index("queue", "share", "priority", "at", name="jobs_marks_of_share", condition=~Q(share=0)),
        ]
