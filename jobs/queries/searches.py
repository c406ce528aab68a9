"""Which jobs a person's search fits: payload, result, error, and `key:value` of the payload."""

import json
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast
from django.db.models.lookups import IsNull

from jobs.domain.filters import is_whole, terms
from jobs.models import Attempt, Job, Outcome


def fits(text: str) -> Q:
    """Every pair and the text. The text is looked for in the payload and the result as JSON writes them (in a text, a
    quote or the end of a line is two characters), and in errors."""
    if "\x00" in text:  # PostgreSQL's texts hold none
        return Q(pk__in=[])
    wanted = terms(text)
    where = Q()
    for path, value in wanted.pairs:
        where &= _has(path, value)
    return where & _contains(wanted.text) if wanted.text else where


def _contains(text: str) -> Q:
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    written = Q(text__icontains=text) | Q(text__icontains=escaped)
    payload = Job.objects.filter(pk=OuterRef("pk")).annotate(text=Cast("payload", TextField())).filter(written)
    result = Outcome.objects.filter(pk=OuterRef("pk")).annotate(text=Cast("result", TextField())).filter(written)
    error = Attempt.objects.filter(job_id=OuterRef("pk"), error__icontains=text)
    return Q(_there_is(payload)) | Q(_there_is(result)) | Q(_there_is(error))


def _has(path: tuple[str, ...], value: str) -> Q:
    *parents, last = path
    at: Any = "payload"
    for key in parents:
        at = KeyTransform(key, at)
    lookup = "iexact" if is_whole(value) else "icontains"
    payload = Job.objects.filter(pk=OuterRef("pk")).annotate(at=KeyTextTransform(last, at))
    return Q(_there_is(payload.filter(**{f"at__{lookup}": value})))


def _there_is(rows: QuerySet[Any]) -> IsNull:
    """EXISTS, of one job after the other. Of an EXISTS the planner may make a hash of all that fits, for which it
    reads the payloads of a million jobs to judge five thousand."""
    return IsNull(Subquery(rows.order_by().values("pk")[:1]), False)
