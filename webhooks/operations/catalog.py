"""The catalog of models: what every configured OpenAI-compatible server offers."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.db.models.functions import Now

from live import operations as live
from scheduling import operations as scheduling
from webhooks.domain import bodies, catalog
from webhooks.models import CatalogModel, ModelServer

if TYPE_CHECKING:
    import httpx

_TIMEOUT_S: Final = 20.0
_LONGEST_ANSWER: Final = 5_000_000
_LONGEST_ERROR: Final = 500


@scheduling.action(timeout=600, idempotent=True)
def refresh_model_catalog() -> dict[str, Any]:
    """Ask every server of settings.LLM_SERVERS for its models and store the answer; for each how many, or its error.

    A server that does not answer keeps the models it had. One that is not configured any more is forgotten. All are
    asked at once, each for 20 s in all, and whatever one answers is no trouble of the others.
    """
    answers = asyncio.run(_ask_all(settings.LLM_SERVERS))
    results = {url: _noted(url, answer) for url, answer in zip(settings.LLM_SERVERS, answers, strict=True)}
    forget_servers(configured=settings.LLM_SERVERS)
    return results


def _noted(url: str, answer: Sequence[catalog.Offered] | BaseException) -> int | str:
    try:
        if isinstance(answer, BaseException):
            raise answer
        models = [[one.name, one.owned_by, one.made_at.isoformat() if one.made_at else None] for one in answer]
        return note_answer(url=url, models=models)
    except Exception as error:
        if scheduling.is_away(error):
            raise
        why = str(error) or f"no whole answer within {_TIMEOUT_S:g} s"
        sentence = f"{type(error).__name__}: {why}"[:_LONGEST_ERROR]
        note_silence(url=url, error=sentence)
        return sentence


@scheduling.mutation
def note_answer(*, url: str, models: list[list[Any]]) -> int:
    """Keep what a server offers, as [name, owner, made at]; what it no longer lists is gone. How many models."""
    live.touch("model-catalog")
    answered = {"polled_at": Now(), "answered_at": Now(), "error": None}
    server, _ = ModelServer.objects.update_or_create(url=url, defaults=answered)
    listed = [
        CatalogModel(server=server, name=name, owned_by=owner or "", made_at=datetime.fromisoformat(at) if at else None)
        for name, owner, at in models
    ]
    CatalogModel.objects.bulk_create(
        listed, update_conflicts=True, unique_fields=["server", "name"], update_fields=["owned_by", "made_at"]
    )
    present = CatalogModel.objects.filter(server=server, name__in=[one.name for one in listed])
    present.update(last_seen_at=Now(), gone_at=None)
    CatalogModel.objects.filter(server=server, gone_at=None).exclude(pk__in=present).update(gone_at=Now())
    return len(listed)


@scheduling.mutation
def note_silence(*, url: str, error: str) -> None:
    """Keep why a server could not be asked."""
    live.touch("model-catalog")
    ModelServer.objects.update_or_create(url=url, defaults={"polled_at": Now(), "error": error.replace("\x00", " ")})


@scheduling.mutation
def forget_servers(*, configured: list[str]) -> int:
    """Forget servers that nobody names any more; how many rows."""
    return ModelServer.objects.exclude(url__in=configured).delete()[0]


async def _ask_all(urls: Sequence[str]) -> list[list[catalog.Offered] | BaseException]:
    import httpx  # noqa: PLC0415 (0.1 s, which no process need spend when it starts)

    headers = {"Authorization": f"Bearer {settings.LLM_API_KEY}"} if settings.LLM_API_KEY else {}
    async with httpx.AsyncClient(timeout=_TIMEOUT_S, headers=headers, follow_redirects=False) as client:
        return await asyncio.gather(*(_ask(client, url) for url in urls), return_exceptions=True)


async def _ask(client: "httpx.AsyncClient", url: str) -> list[catalog.Offered]:
    body, address = b"", f"{url.rstrip('/')}/models"
    # One deadline for all of it: what comes a byte at a time is in time for every read.
    async with asyncio.timeout(_TIMEOUT_S), client.stream("GET", address) as answer:
        answer.raise_for_status()
        async for piece in answer.aiter_bytes():
            body += piece
            if len(body) > _LONGEST_ANSWER:
                raise ValueError(f"the answer is larger than {_LONGEST_ANSWER} bytes")
    return catalog.read(bodies.parse(body).document)
