"""How a farm is called over HTTP, by the client and by the worker: addresses, keys, and what an answer means, be it a
stream of events."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from jobfarm_client.errors import BadOption, FarmError, Unauthorized, Unreachable, WrongServer, refusal

VERSION = "0.1.0"
JOBS = "/api/v1/jobs"
EVENTS = "/api/v1/events"
UPLOADS = "/api/v1/files"
BULKS = "/api/v1/bulk-actions"
FLOWS = "/api/v1/flows"
CONNECT_S = 10.0
_EVENTS = "text/event-stream"
_CODE = re.compile(r"[a-z][a-z0-9_]*")


def of_job(job_id: int, part: str = "") -> str:
    """The path of a job, or of a part of it."""
    return f"{JOBS}/{job_id}{part}"


def checked_url(url: str) -> str:
    """The address of a farm without a slash at its end; raises BadOption for what is none."""
    try:
        parts = urlsplit(url.strip())
        host = httpx.URL(url.strip()).host.encode("idna")
        is_good = parts.scheme in {"http", "https"} and bool(host) and (parts.port or 1) > 0
    except (ValueError, httpx.InvalidURL):
        is_good = False
    if not is_good or parts.query or parts.fragment:
        raise BadOption(f"{url!r} is not the address of a farm; it looks like http://127.0.0.1:8000.")
    return url.strip().rstrip("/")


def checked_key(key: str, *, lacking: str) -> str:
    """The key without blanks around it; raises BadOption, with the sentence `lacking` where there is none."""
    plain = key.strip()
    if not plain:
        raise BadOption(lacking)
    if not plain.isascii() or not plain.isprintable() or " " in plain:
        raise BadOption("The key holds characters that no key has; was it copied completely, and nothing else?")
    return plain


def secret_in(path: str | Path, *, name: str) -> str:
    """What this file holds: a key or a token; raises BadOption where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # Windows begins with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"The {name} file {path} cannot be read: {error}.") from error


def headers(*, key: str, agent: str, name: str) -> dict[str, str]:
    """The headers of every request; `name` identifies this process to the operator."""
    plain = name.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
    return {"Authorization": f"Bearer {key}", "User-Agent": f"{agent}/{VERSION} ({plain})"}


def put_together(value: Any, parts: Sequence[tuple[Sequence[str | int], bytes]]) -> Any:
    """The value with its parts, which are JSON, given where each belongs: those around others first."""
    for path, text in sorted(parts, key=lambda part: len(part[0])):
        part = json.loads(text)
        if not path:
            value = part
            continue
        around = value
        for step in path[:-1]:
            around = around[step]
        around[path[-1]] = part
    return value


def dumps(value: Any) -> str:
    """JSON text as the farm takes it; raises TypeError or ValueError for what is not JSON (NaN included)."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


class Answers:
    """Reads what comes from the address of one farm, and who else answers there."""

    def __init__(self, url: str) -> None:
        self.known = False
        """A job farm has answered here: from then on a strange page is an outage, not a wrong address."""
        self._url = url

    def read(self, response: httpx.Response, body: bytes, *, by: str = "") -> dict[str, Any]:
        """The JSON object of an answer, which has the field `by` if one is named.

        Raises Refused (the farm refused), Unauthorized, WrongServer (strangers answer here), or Unreachable.
        """
        data = object_in(body)
        if response.is_success and data is not None and (not by or by in data):
            self.known = True
            return data
        raise self._error(response, data)

    def read_bytes(self, response: httpx.Response, body: bytes) -> bytes:
        """The bytes of a file; raises like `read`."""
        if self.is_file(response):
            return body
        raise self._error(response, object_in(body))

    @staticmethod
    def is_file(response: httpx.Response) -> bool:
        """Whether it brings a file: farms, and where they send to, say how it is to be shown, and pages do not."""
        return response.is_success and "content-disposition" in response.headers

    def is_stream(self, response: httpx.Response) -> bool:
        """Whether events are to come by this response, whose body nobody has read."""
        is_stream = response.is_success and response.headers.get("content-type", "").startswith(_EVENTS)
        self.known = self.known or is_stream
        return is_stream

    def misfit(self, response: httpx.Response, body: bytes) -> FarmError:
        """What an answer is that is no file, or no stream; a page, and whoever kept the stream back, come and go."""
        if response.is_success:
            kind = response.headers.get("content-type", "no type")
            return Unreachable(f"{self._url} answered {response.status_code} {response.reason_phrase} with {kind}.")
        return self._error(response, object_in(body))

    def _error(self, response: httpx.Response, data: dict[str, Any] | None) -> FarmError:
        if data is None or response.is_success or not _is_refusal(data):
            return self._stranger(response)
        self.known = True
        if response.status_code == httpx.codes.UNAUTHORIZED:
            return Unauthorized()
        retry_after = response.headers.get("retry-after")  # for answers whose body does not repeat it
        more = {} if retry_after is None else {"retry_after": retry_after}
        return refusal(status=response.status_code, data={**more, **data})

    def _stranger(self, response: httpx.Response) -> FarmError:
        """An answer that no farm gives: a proxy's page, another site, a redirect."""
        if response.status_code == httpx.codes.UNAUTHORIZED and not self.known:
            return Unauthorized()
        status = f"{response.status_code} {response.reason_phrase}".strip()
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:  # from a proxy before the farm
            return refusal(status=413, data={"error": "too_large", "message": "It is too large."})
        if self.known or response.is_server_error or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return Unreachable(f"{self._url} answered {status}.")
        target = response.headers.get("location")
        hint = f"it redirects to {target}" if target else f"it answered {status}"
        return WrongServer(f"{self._url} is not the address of a job farm: {hint}.")


class Blocks:
    """Takes the text of server-sent events piece by piece, whichever way the network cut it (HTML Living Standard,
    9.2.6): lines end by CR, LF or both."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id  # how far the stream is: an id goes for what comes after it, and needs no data
        self._rest: list[str] = []  # of a line that has not ended
        self._is_after_return = False
        self._fields: dict[str, str] = {}
        self._data: list[str] = []  # its lines, joined once: an event may have many

    def feed(self, text: str) -> Iterator[dict[str, str]]:
        """The fields of each event that is complete with this text, `data` always among them."""
        for line in self._lines(text):
            if line:
                self._take(line)
                continue
            fields, data, self._fields, self._data = self._fields, self._data, {}, []
            self.last_id = fields.get("id", self.last_id)
            if data:
                yield {**fields, "data": "\n".join(data)}

    def _lines(self, text: str) -> Iterator[str]:
        if self._is_after_return and text:
            text = text.removeprefix("\n")  # the other half of the end of a line
            self._is_after_return = False
        if "\n" not in text and "\r" not in text:
            self._rest.append(text)
            return
        self._is_after_return = text.endswith("\r")
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        *lines, rest = ["".join((*self._rest, first)), *others]
        self._rest = [rest]
        yield from lines

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name:  # else it is a comment
            self._fields[name] = value


def object_in(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that this text is; None where it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_refusal(data: dict[str, Any]) -> bool:
    """Whether it has the form of a farm's refusal: a code for programs, and a sentence. Gateways too say `error`."""
    code, message = data.get("error"), data.get("message")
    return isinstance(code, str) and isinstance(message, str) and _CODE.fullmatch(code) is not None
