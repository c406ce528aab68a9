"""What workers call. Each call is one verb of `jobs.protocol.verbs`, whose docstring describes it."""

import inspect
from typing import Annotated, Final, get_type_hints

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Status
from ninja.params import functions as parameters

from core.api import Calls, Sample
from core.values import Body
from jobs import http, operations
from jobs.api import at_once
from jobs.domain.leases import Lease
from jobs.models import Worker
from jobs.protocol import answers, jobs as protocol, verbs
from jobs.protocol.verbs import VERBS, Verb
from observing import fields

_AUTHENTICATED: Final = http.WorkerKey()
router = Calls(auth=_AUTHENTICATED, tags=["Workers"])
HeldLease = Annotated[str, parameters.Query(..., description="The lease of the job.")]
_RECOGNIZED: Final = http.WorkerKey(recognizes=True)


def _worker(request: HttpRequest) -> Worker:
    worker: Worker = request.auth  # type: ignore[attr-defined]  # set by ninja
    return worker


@router.call("post", "/claim", auth=_RECOGNIZED, answer=answers.Claimed, sample=Sample(body={"limit": 1, "wait": 30}))
def claim(request: HttpRequest, body: verbs.Claim) -> HttpResponse:
    """Claim jobs.

    Take up to `limit` pending jobs. With `wait`, the answer comes as soon as there is a job, or empty after
    that many seconds; so ask again and again, and never pause in between. Without `wait`, a worker that finds nothing
    more than 60 times a minute gets 429 `rate_limited`.

    Each job comes with a `lease`. It is the right to speak for the job: send it with every later call. The first of
    them confirms it, so send a heartbeat on receipt: unconfirmed for `heartbeat_every` seconds, the job goes back, and
    no attempt is counted; again and again, with a delay and for another worker, and from the fifth time in a row as a
    lost attempt. Then it runs out at `lease_expires_at` unless you send a heartbeat (or output) at
    least every `heartbeat_every` seconds; the attempt is lost, and another worker gets the job.

    If the answer does not arrive, send the same call with the same `request_id` again: it is answered with what it
    claimed the first time, as far as those leases still stand.

    409 `lease_lost` from any call means: this job is not yours, drop it. `reason` says why: `canceled`, `ended`
    (`job_status`: how), `timed_out` (it ran too long), `taken_over`, `taken_back` or `unknown`. `traceparent` is the
    trace that the job was submitted in, from the header of that name; null if in none.

    `files`, of a job that has some: name, size, SHA-256 and type of what it was given, to be fetched from
    `inputs/{name}`. One with `at` is JSON that belongs at these places of `payload`, which is too long to come along:
    put it there, those with shorter paths first.

    `drained` true: people have this worker finish what it holds and take nothing more, until they end that. A claim
    with `wait` then waits its time out and brings nothing, unless that ends; give back what you have not begun
    (`unclaim`).
    """
    claimed = verbs.claim(_worker(request), body)
    if not claimed.jobs and not body.wait:
        http.count_empty_claim(_worker(request))
    if len(claimed.jobs) == 1:
        fields.note(job_id=claimed.jobs[0].id)
    interest = verbs.interest(_worker(request), body.queues)
    waits = http.Waits(interest=interest, worker_id=_worker(request).pk, wait_s=body.wait)
    return http.answered(claimed, note=claimed if claimed.jobs else waits)


at_once.serve("/worker/claim", _RECOGNIZED, verbs.Claim, claim)


def _route(name: str, verb: Verb) -> None:
    """Serve a verb as over the WebSocket; the job that it is about stands in the address."""

    def call(request: HttpRequest, body: Body, **about: int) -> HttpResponse:
        return http.answered(verb.perform(_worker(request), *about.values(), body))

    about = {"job_id": int} if verb.about_a_job else {}
    named = {"request": HttpRequest, **about, "body": verb.body}
    parameters = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, annotation=of) for each, of in named.items()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # ninja reads it
    call.__name__, call.__doc__ = verb.perform.__name__, verb.perform.__doc__
    key = _RECOGNIZED if verb.recognizes else _AUTHENTICATED
    called = name.removesuffix("_many")
    at_once.serve(f"/worker{'/jobs/0' if about else ''}/{called}", key, verb.body, call)
    answer, sample = (
        get_type_hints(verb.perform)["return"],
        {"lease": "$LEASE", **verb.sample} if about else verb.sample,
    )
    path = f"{'/jobs/{jobid:job_id}' if about else ''}/{called}"
    router.call("post", path, answer=answer, sample=Sample(body=sample), auth=key)(call)


for _name, _verb in VERBS.items():
    if _name != "claim":  # which may wait
        _route(_name, _verb)


@router.call("put", "/jobs/{jobid:job_id}/files/{name}", sample=Sample(query="lease=$LEASE", sends="picture.png"))
def put_file(request: HttpRequest, job_id: int, name: str, lease: HeldLease) -> Status[protocol.ResultFile]:
    """Hand in a result file.

    Keeps the request's body as a file of the job, under a plain name (letters, digits, dots, dashes,
    underscores). The same name again replaces it. Renews the lease as well. Without room in the quotas of the attempt,
    the job, its owner or the farm: 413 `quota_reached`.
    """
    http.refuse_unknown_parameters(request, ["lease"])
    held = Lease.parse(lease)
    with http.received(request) as content:
        stored = operations.put_file(_worker(request), job_id, held, name=name, content=content)
    return Status(201, protocol.file(stored))


@router.call(
    "get", "/jobs/{jobid:job_id}/inputs/{name}", sample=Sample(query="lease=$LEASE", keeps="input.ogg", name="audio")
)
def get_input(request: HttpRequest, job_id: int, name: str, lease: HeldLease) -> HttpResponseBase:
    """Fetch an input file.

    A file that the job was given, for whoever holds its lease; renews the lease as well. A download that was cut goes
    on with `Range` (206): compare `sha256` of the claim at its end. It may be a redirect to where files lie (curl:
    `-L`).
    """
    http.refuse_unknown_parameters(request, ["lease"])
    return http.sent(request, operations.read_input(_worker(request), job_id, Lease.parse(lease), name=name))
