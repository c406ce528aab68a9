"""Event streams of jobs: whether the caller may follow them. What happens comes from elsewhere (jobs.waiting)."""

from datetime import datetime
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Status

from accounts import http as people
from core.api import Calls, Sample, caller
from core.values import BIGINT, NO_NUL, words
from jobs import http, operations
from jobs.api.clients import OPERATE, VIEW
from jobs.domain.changes import EVERYBODY, Wanted
from jobs.domain.filters import ids_of
from jobs.domain.records import MOST_TAGS, is_tags
from jobs.errors import InvalidValue, NotFound
from jobs.protocol import clients
from jobs.queries import bulks, reads

Tag = Annotated[str, Query(max_length=700, description="One tag, or several with commas between.")]
Named = Annotated[str, Query(max_length=150, pattern=NO_NUL, description="A name.")]
FlowId = Annotated[int | None, Query(ge=1, le=BIGINT, description="The id of a flow.")]
MOST = 50  # jobs of one stream: the id of each of its events says how far all of them are
router = Calls(tags=["Clients"])


@router.call("get", "/jobs/events", auth=VIEW, sample=Sample(query="ids=$JOB", is_stream=True))
def events_of_many(
    request: HttpRequest, ids: Annotated[str, Query(max_length=1000, description="Their ids: 7,8,9.")]
) -> HttpResponse:
    """Follow many jobs.

    The events of up to 50 jobs in one stream, as those of one job, each with the number of its `job`: a browser opens
    six connections to a host over HTTP/1.1, so a page that follows many jobs follows them by one. The stream closes
    when all have ended. The `id` of an event says how far all of them are. After a lost connection the `end` of a job
    that had ended comes again. 404 where one of them is not there, or not yours to see.
    """
    wanted = list(dict.fromkeys(ids_of(ids)))
    if not 1 <= len(wanted) <= MOST or len(ids_of(ids)) != ids.count(",") + 1:
        raise InvalidValue(field="ids", why=f"one to {MOST} ids of jobs, with commas between them")
    return _allowed(request, wanted, are_named=True)


@router.call("get", "/jobs/{jobid:job_id}/events", auth=VIEW, sample=Sample(is_stream=True))
def events(request: HttpRequest, job_id: int) -> HttpResponse:
    """Follow a job.

    Server-sent events, until the job has ended:

    * `job`: the job as JSON, without its payload, now and whenever it changed;
    * `output`: `{"fence": 1, "seq": 0, "text": "..."}`, every piece once;
    * `end`: `{"status": "success"}`; nothing comes after it. In a browser, close the EventSource then.

    Every event has an `id`. After a lost connection send the last one as `Last-Event-ID` (a browser does so by
    itself), and nothing is lost or repeated. A comment comes every 15 s, so that nobody takes the silence for a
    dead connection.
    """
    return _allowed(request, [job_id], are_named=False)


@router.call("get", "/events", auth=VIEW, sample=Sample(query="tag=nightly", is_stream=True))
def events_that_match(
    request: HttpRequest, tag: Tag = "", kind: Named = "", owner: Named = "", flow: FlowId = None
) -> HttpResponse:
    """Follow all jobs of a tag, a kind, an owner, a flow.

    One stream for the jobs that match and that you may see, those too that come later: a `job` event, as lists have it,
    for each of the newest 100, and for a job whenever it is submitted or changes (of several changes within 0.2 s the
    last). `owner=me` is you. It does not end by itself, and has no output: that is in the job's own stream.

    After a lost connection the last `id` goes on as `Last-Event-ID`, up to an hour later: every job that was submitted
    or ended meanwhile, and those that run or wait (of more than 5,000 that wait in the farm none), comes as it stands
    now, some of them again. Where it is longer ago, or more than 1,000 jobs or 20,000 ends of the farm lie between, the
    first event is `reset`: list the jobs anew (`GET /api/v1/jobs`); what happens from then on follows.
    """
    http.refuse_unknown_parameters(request, ["tag", "kind", "owner", "flow", http.ViewKey.param_name])
    if tag and not is_tags(tag):
        raise InvalidValue(field="tag", why=f"up to {MOST_TAGS} tags with commas between them")
    wanted = _wanted(request, tag=tag, kind=kind, owner=owner, flow=flow)
    followed = http.FollowedMany(wanted=wanted, user_id=caller(request).pk, expires_at=_end(request))
    return http.Noted(note=followed, content_type="text/event-stream")


@router.call(
    "post", "/view-tokens", auth=OPERATE, answer=Status[clients.ViewToken],
    sample=Sample(body={"tag": "nightly", "expires_in_s": 900}),
)  # fmt: skip
def create_view_token(request: HttpRequest, body: clients.NewViewToken) -> HttpResponse:
    """Let another site's page look.

    A token for one job of yours, or for your jobs of one tag (operators: any), for up to a day. In the address
    (`?token=jfv_...`) it opens, to a page of any site, `GET /api/v1/jobs/{id}`, its `/output` and `/events`, and of a
    tag `GET /api/v1/events` and `GET /api/v1/jobs`: without payload, owner, worker, files and attempts. Nothing else.
    Its streams end when it expires or is revoked. An API token needs the scope `read` too. 429 `quota_reached` with
    1,000 of yours that are good.
    """
    people.require(request, "read")  # whoever shows it to others may look at it
    token, key = operations.create_view_token(
        by=caller(request), job_id=body.job, tag=body.tag, expires_in_s=body.expires_in_s
    )  # fmt: skip
    return http.answered(clients.ViewToken(id=token.pk, token=key, expires_at=token.expires_at), status=201)


@router.call("delete", "/view-tokens/{jobid:token_id}", auth=OPERATE)
def revoke_view_token(request: HttpRequest, token_id: int) -> clients.RevokedViewToken:
    """Revoke a view token.

    One of yours: it opens nothing any more, and its streams end.
    """
    operations.revoke_view_token(token_id, by=caller(request))
    return clients.RevokedViewToken(id=token_id)


def _wanted(request: HttpRequest, *, tag: str, kind: str, owner: str, flow: int | None) -> Wanted:
    """What is asked for, of that what the caller may see; a view token shows what its maker may share. Raises NotFound
    for what it is not for."""
    user, view, tags = caller(request), http.view_of(request), words(tag)
    owner = user.get_username() if owner == "me" else owner
    if view is not None:
        theirs = "" if bulks.reaches_all(user) else user.get_username()
        if view.tag is None or (theirs and owner not in {"", theirs}):  # one of a job has a stream of its own
            raise NotFound
        owner, tags = owner or theirs, [*tags, view.tag]
    is_operator = reads.is_operator(user)
    groups = () if is_operator else user.groups.values_list("pk", flat=True)
    return Wanted(
        tags=tuple(dict.fromkeys(tags)), kind=kind, owner=owner, flow=flow,
        viewer=EVERYBODY if is_operator else user.pk, groups=frozenset(groups),
    )  # fmt: skip


def _end(request: HttpRequest) -> datetime | None:
    view = http.view_of(request)
    return None if view is None else view.expires_at


def _allowed(request: HttpRequest, job_ids: list[int], *, are_named: bool) -> HttpResponse:
    if http.visible_to(request).filter(pk__in=job_ids).count() < len(job_ids):
        raise NotFound
    followed = http.Followed(
        job_ids=job_ids, user_id=caller(request).pk, are_named=are_named, expires_at=_end(request)
    )  # fmt: skip
    return http.Noted(note=followed, content_type="text/event-stream")
