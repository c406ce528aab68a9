"""Result files, input files and output as they are, for saving or to look at; and the job that a share link shows, with
these, to whoever has it."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from core.refusal import existing
from jobs import http
from jobs.errors import LinkRanOut, NoSuchFile, NotFound
from jobs.models import Job, OutputChunk, ResultFile
from jobs.queries import inputs, pages, reads
from jobs.views import access
from postgres import clock, connections

_PIECES: Final = 200  # of output read at once; a piece has at most a megabyte, usually a sentence
_BIGGEST_FENCE: Final = 2**63 - 1


@access.page
def link(request: HttpRequest, job_id: int, name: str) -> HttpResponse:
    """A link to a result file that needs no log-in, and soon shows nothing any more; for who may see the job."""
    job = access.visible(request, job_id)
    stored = _stored(job, name, request.GET.get("fence"))
    context = {
        "job": job,
        "file": stored,
        "link": request.build_absolute_uri(http.signed_path(stored)),
        "until": clock.now() + timedelta(seconds=http.SIGNED_FOR_S),
    }
    return render(request, "jobs/file_link.html", context)


@require_safe
def signed(request: HttpRequest, token: str) -> HttpResponseBase:
    """The file that a signed link is about, for whoever has the link while it is good; 410 afterwards."""
    try:
        job_id, attempt, name = http.read_signed(token)
        answer = http.sent(request, pages.result_file(job_id, name=name, attempt=attempt))
    except LinkRanOut as refusal:
        return render(request, "jobs/link_ran_out.html", {"why": refusal.message}, status=HTTPStatus.GONE)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    # The address is the key, and soon it opens nothing: neither kept nor sent to other sites.
    answer.headers["Cache-Control"] = "private, no-store"
    answer.headers["Referrer-Policy"] = "no-referrer"
    return answer


def response(request: HttpRequest, job: Job, name: str) -> HttpResponseBase:
    """The file of this name: of the attempt whose fence `?fence=` names, else of the latest that handed one in.

    Pictures are for looking at, everything else for saving. 304 for a browser that has it. Raises NotFound.
    """
    return _immutable(request, _stored(job, name, request.GET.get("fence")))


def input_response(request: HttpRequest, job: Job, name: str) -> HttpResponseBase:
    """The input file that this job has under this name, as `response`. Raises NoSuchFile."""
    return _immutable(request, inputs.one(job.pk, name=name))


def text(request: HttpRequest, job: Job, fence: int) -> HttpResponseBase:
    """The output of an attempt from its first piece to the last there is now. Raises Http404."""
    if not 1 <= fence <= job.fence:
        raise Http404("There is no such attempt.")
    headers = {
        "Content-Disposition": f'inline; filename="job-{job.pk}-fence-{fence}.txt"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-cache",
    }
    if request.method == "HEAD":
        return HttpResponse(content_type="text/plain; charset=utf-8", headers=headers)
    pieces: Any = _later(job.pk, fence) if isinstance(request, ASGIRequest) else _now(job.pk, fence)
    return StreamingHttpResponse(pieces, content_type="text/plain; charset=utf-8", headers=headers)


def views(find: Callable[[HttpRequest, Any], Job], by: str) -> list[Callable[..., HttpResponseBase]]:
    """The views of a job's files, its input files and its output; `find` finds the job by what is called `by` in the
    address. 404 where there is none, or no such file."""

    def view(answer: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        def shown(request: HttpRequest, **names: Any) -> HttpResponseBase:
            try:
                return answer(request, find(request, names.pop(by)), **names)
            except (NotFound, NoSuchFile) as refusal:
                raise Http404(refusal.message) from refusal

        return require_safe(shown)

    return [view(answer) for answer in (response, input_response, text)]


file, input_file, output = map(login_required, views(access.visible, "job_id"))


def _immutable(request: HttpRequest, stored: http.Stored) -> HttpResponseBase:
    answer = http.sent(request, stored)
    if (
        request.GET.get("v") == stored.sha256[:16] and answer.status_code != HTTPStatus.FOUND
    ):  # this address will never mean other bytes
        answer.headers["Cache-Control"] = "private, max-age=31536000, immutable"
    return answer


def _stored(job: Job, name: str, fence: str | None) -> ResultFile:
    wanted = None
    if fence is not None:
        if not (fence.isascii() and fence.isdigit() and int(fence[:20]) <= _BIGGEST_FENCE):
            raise Http404("There is no such attempt.")
        wanted = int(fence)
    return existing(pages.file(job.pk, name=name, attempt=wanted), NoSuchFile())


# Django warns of a synchronous iterator under ASGI, and of the other kind elsewhere.
def _now(job_id: int, fence: int) -> Iterator[str]:
    after = -1
    while chunks := reads.output(job_id, attempt=fence, after=after, limit=_PIECES):
        yield _joined(chunks)
        after = chunks[-1].seq


async def _later(job_id: int, fence: int) -> AsyncIterator[str]:
    after = -1
    # Between two reads the connection is given back: whoever downloads slowly holds none.
    while chunks := await connections.run(reads.output, job_id, attempt=fence, after=after, limit=_PIECES):
        yield _joined(chunks)
        after = chunks[-1].seq


def _joined(chunks: list[OutputChunk]) -> str:
    return "".join(chunk.text for chunk in chunks)


@require_safe
@never_cache
def shared(request: HttpRequest, token: str) -> HttpResponse:
    """The job, live, without a log-in and without anything that says who owns or runs it."""
    row = _shared(token)
    context = {"job": row, "live_ticket": token, "inputs": inputs.shown(row)}
    response = render(request, "jobs/shared.html", context)
    # The address is the key: it must not travel to other sites in a Referer, nor into a search engine.
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def _shared(token: str) -> Job:
    return existing(reads.shared(token) if "\x00" not in token else None, Http404("This link no longer works."))


shared_file, shared_input, shared_output = views(lambda _, token: _shared(token), "token")
