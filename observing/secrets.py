"""No line that leaves a process holds a secret, whoever wrote it there."""

import re
from typing import Final

MASK: Final = "[hidden]"
_SECRETS: Final = (
    # Keys of workers and tokens of clients (their prefixes are declared by jobs and accounts; a test compares).
    (re.compile(r"\b(jf[wt]_)[A-Za-z0-9_-]{8,}"), rf"\1{MASK}"),
    # Leases: claim number and secret.
    (re.compile(r"\b([1-9][0-9]{0,17}-)[0-9a-f]{32}\b"), rf"\1{MASK}"),
    # Secrets of webhooks, and keys of the services that the farm calls.
    (re.compile(r"\b((?:whsec|sk|rk)_|sk-)[A-Za-z0-9_+/=-]{8,}"), rf"\1{MASK}"),
    (re.compile(r"(?i)\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {MASK}"),
    # The password in an address, as of a database.
    (re.compile(r"(://[^\s:/@]*:)[^\s@/]+@"), rf"\1{MASK}@"),
    (
        re.compile(r"(?i)\b(password|passwd|secret_key|sessionid|csrftoken)(\s*[=:]\s*)['\"]?[^\s'\",;&}]+"),
        rf"\1\2{MASK}",
    ),
)


def masked(text: str) -> str:
    """The text with everything that looks like a key, lease, token or password replaced."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text
