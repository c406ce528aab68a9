"""An OpenID provider, in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import httpx
from django.conf import settings
from django.test import Client

from tests import farm
from tests.ports import free_port


@dataclass(frozen=True, slots=True)
class Provider:
    url: str

    def knows(self, sub: str, **claims: object) -> None:
        """Say what it says of somebody from now on."""
        httpx.put(f"{self.url}/users/{quote(sub)}", json=claims).raise_for_status()

    def lets_in(self, browser: Client, sub: str, *, page: str = "/accounts/login/") -> httpx.Response:
        """Press the button of the farm's page, and the provider's; its answer, which leads back."""
        start = browser.post(f"/accounts/oidc/sso/login/?process=login&next={page}")
        return httpx.post(start.headers["Location"], data={"sub": sub})


@contextmanager
def running(*, ahead_s: float = 0) -> Iterator[Provider]:
    """One that listens, and whose clock is so far ahead."""
    port = free_port()
    command = [sys.executable, "-m", "tests.accounts.edges.provider_process", str(port), str(ahead_s)]
    with subprocess.Popen(
        command, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        provider = Provider(f"http://127.0.0.1:{port}")
        try:
            farm.until(lambda: _answers(provider.url))
            yield provider
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/.well-known/openid-configuration").is_success
    except httpx.TransportError:
        return False


def path_of(url: str) -> str:
    """The path of an address and what is asked there."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
