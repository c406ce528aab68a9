"""Which module speaks for which source."""

from collections.abc import Mapping
from typing import Final

from webhooks.domain.names import Source
from webhooks.errors import UnknownSource
from webhooks.sources import (
    clerk,
    confluence,
    github,
    jira,
    sandbox_completion,
    sandbox_hooks,
    sandbox_telemetry,
    stripe,
)
from webhooks.sources.requests import Adapter

ADAPTERS: Final[Mapping[Source, Adapter]] = {
    Source.CLERK: clerk,
    Source.GITHUB: github,
    Source.JIRA: jira,
    Source.CONFLUENCE: confluence,
    Source.STRIPE: stripe,
    Source.SANDBOX_HOOKS: sandbox_hooks,
    Source.SANDBOX_COMPLETION: sandbox_completion,
    Source.SANDBOX_TELEMETRY: sandbox_telemetry,
}
PATHS: Final[Mapping[str, Source]] = {sender.PATH: source for source, sender in ADAPTERS.items()}

# Headers that hold what opens something, or are of no use once the signature is checked: never stored.
_SECRET_HEADERS: Final = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-hub-signature",
        "x-hub-signature-256",
        "stripe-signature",
    }
    | {"svix-signature", "webhook-signature", "x-api-key", "x-auth-token"}
)
MASKED: Final = "(kept out)"


def find(name: str) -> Source:
    """The source of this name. Raises UnknownSource."""
    try:
        return Source(name)
    except ValueError:
        raise UnknownSource(source=name, known=", ".join(Source)) from None


def adapter_of(source: Source) -> Adapter:
    """The module that speaks for a source."""
    return ADAPTERS[source]


def redacted(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be stored: what holds a secret is named and masked."""
    return {name: MASKED if _is_secret(name) else value for name, value in sorted(headers.items())}


def _is_secret(name: str) -> bool:
    return name in _SECRET_HEADERS or any(word in name for word in ("secret", "token", "password"))
