"""What an agent's tool was used on, in a few words that can be shown: no commands, no contents, no prompts."""

from collections.abc import Mapping
from typing import Any

from webhooks.domain import links, names, staleness

_PLACES = ("file_path", "notebook_path", "path", "pattern", "subagent_type", "skill")
LONGEST = 255


def subject(tool_input: Mapping[str, Any]) -> str:
    """A file, a pattern, a host, or the agent's own description of a command; "" if there is nothing that may be shown.

    A command's text is not: it may hold a secret. Of an address the host is, as its path and query may hold one too."""
    for field in (*_PLACES, "description"):
        value = tool_input.get(field)
        if isinstance(value, str) and value:
            return value[:LONGEST]
    url = tool_input.get("url")
    return links.host(url) if isinstance(url, str) else ""


def identity(
    session_id: str, tool: str, tool_input: Mapping[str, Any], *, use_id: str = "", sandbox: str | None = None
) -> str:
    """Under which id a use of a tool is kept: `use_id`; older agents send none, and the same call in the same
    session stands in for it. So what comes before and after a call still meet; two equal calls in one session are one
    row. What a sandbox's token vouches for is that sandbox's: the same id of two of them is two uses."""
    own = use_id or f"{session_id[:200]}/{staleness.digest({'tool': tool, 'input': tool_input})}"
    return own if sandbox is None else names.within(sandbox, own)
