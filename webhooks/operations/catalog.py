"""The catalog of models: what every configured OpenAI-compatible server offers."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings

from live import operations as live
from scheduling import operations as scheduling
from webhooks.domain import bodies, catalog
from webhooks.errors import NotJson
from webhooks.queries import maintenance

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 20.0
_LONGEST_ANSWER: Final = 5_000_000
_LONGEST_ERROR: Final = 500


@scheduling.action(timeout=600, idempotent=True)
def refresh_model_catalog() -> dict[str, Any]:
    """Ask every server of settings.LLM_SERVERS for its models and store the answer; for each how many, or its error.

    A server that does not answer keeps the models it had. One that is not configured any more is forgotten.
    """
    import httpx  # noqa: PLC0415 (0.1 s, which no process need spend when it starts)

    results: dict[str, Any] = {}
    with httpx.Client(timeout=_TIMEOUT_S, headers=_headers(), follow_redirects=False) as client:
        for url in settings.LLM_SERVERS:
            try:
                offered = _fetch(client, url)
            except (httpx.HTTPError, httpx.InvalidURL, NotJson, ValueError) as error:
                results[url] = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
                note_silence(url=url, error=results[url])
            else:
                models = [[one.name, one.owned_by, _text(one.made_at)] for one in offered]
                results[url] = note_answer(url=url, models=models)
    forget_servers(configured=settings.LLM_SERVERS)
    return results


@scheduling.mutation
def note_answer(*, url: str, models: list[list[str | None]]) -> int:
    """Keep what a server offers, as [name, owner, made at]; how many models."""
    live.touch("model-catalog")
    names = [(str(n), str(o or ""), datetime.fromisoformat(at) if at else None) for n, o, at in models]
    return maintenance.note_answer(url, names=names)


@scheduling.mutation
def note_silence(*, url: str, error: str) -> None:
    """Keep why a server could not be asked."""
    live.touch("model-catalog")
    maintenance.note_silence(url, error=error.replace("\x00", " "))


@scheduling.mutation
def forget_servers(*, configured: list[str]) -> int:
    """Forget servers that nobody names any more; how many rows."""
    return maintenance.forget_servers(except_for=configured)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {settings.LLM_API_KEY}"} if settings.LLM_API_KEY else {}


def _fetch(client: "httpx.Client", url: str) -> list[catalog.Offered]:
    body = b""
    with client.stream("GET", f"{url.rstrip('/')}/models") as answer:
        answer.raise_for_status()
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _LONGEST_ANSWER:
                raise ValueError(f"the answer is larger than {_LONGEST_ANSWER} bytes")
    return catalog.read(bodies.parse(body).document)
