"""What the tables of resources have in common: what a sender reports, kept in its newest state."""

from typing import Any

from django.db import models
from django.db.models import F

from webhooks.domain.staleness import KEY_LENGTH


class Resource(models.Model):
    """One resource at a sender. Rows are written by `queries.upserts` alone, which never lets an older state win.

    Of a resource whose deletion was reported first, the id and `deleted_at` are known, and `state_at` is empty. Of one
    that was only ever reported in part, the columns that no event had have their defaults (`column_keys`).
    """

    external_id = models.CharField(max_length=255, help_text="The sender's own id of it.")
    state_key = models.CharField(
        max_length=KEY_LENGTH,
        db_collation="C",  # compared byte by byte
        default="",
        blank=True,
        editable=False,
        help_text="How new the state is; the greater text is the newer.",
    )
    state_at = models.DateTimeField(
        null=True, blank=True, help_text="The moment that the state is of, by the sender's clock."
    )
    column_keys = models.JSONField(
        null=True,
        blank=True,
        editable=False,
        help_text="For columns that the newest state does not say: the key of the one that did, or empty. "
        "Null: it says them all.",
    )
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="When it was deleted there.")

    class Meta:
        abstract = True
        ordering = [F("state_at").desc(nulls_last=True), "-id"]
        constraints = [models.UniqueConstraint(fields=["external_id"], name="one_%(class)s_for_each_id_of_its_sender")]
        indexes = [models.Index(F("state_at").desc(nulls_last=True), F("id").desc(), name="%(class)s_newest")]

    def __str__(self) -> str:
        return self.external_id


def member_of(to: str, **options: Any) -> Any:
    """A reference by the sender's id, to a row that may not have come yet: the ORM follows it, the database does not
    check it (checking reads an index inside the mutation, and that makes neighbours collide: docs/adr/0010)."""
    return models.ForeignKey(
        f"webhooks.{to}",
        models.DO_NOTHING,
        to_field="external_id",
        null=True,
        blank=True,
        db_constraint=False,
        db_index=False,  # Django would make two, one of them for LIKE: see indexes_by
        **options,
    )


def indexes_by(*references: str) -> list[models.Index]:
    """The indexes of a table of resources: the newest of all, and those of each reference."""
    return [
        *Resource.Meta.indexes,
        *(
            models.Index(F(reference), F("state_at").desc(nulls_last=True), name=f"%(class)s_by_{reference[:4]}")
            for reference in references
        ),
    ]


def short(**options: Any) -> Any:
    """A short text of the sender's; "" where it says none."""
    return models.CharField(max_length=255, default="", blank=True, **options)


def moment(**options: Any) -> Any:
    """A moment by the sender's clock."""
    return models.DateTimeField(null=True, blank=True, **options)
