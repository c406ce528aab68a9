"""Clients of OpenAI-compatible servers."""

from __future__ import annotations

import ssl
from functools import cache

import httpx
import openai

ANSWER_S = 600.0  # a model that is being loaded sends nothing for minutes


def client(url: str, key: str, *, timeout_s: float = ANSWER_S) -> openai.AsyncOpenAI:
    """A client of the server at `url` (its `/v1` address) that asks once; `async with` closes it.

    A client of its own for each job, since a connection belongs to an event loop; the certificates are shared. To read
    those of 140 authorities takes 30 ms and more of a processor, in which no other job of the worker goes on.
    """
    connections = openai.DefaultAsyncHttpxClient(verify=_certificates(), timeout=timeout_s)
    return openai.AsyncOpenAI(
        base_url=url, api_key=key, max_retries=0, timeout=timeout_s, http_client=connections
    )


@cache
def _certificates() -> ssl.SSLContext:
    return httpx.create_ssl_context()
