"""Links that may be shown: https alone, and where possible built from ids instead of taken from a body."""

import re
from urllib.parse import quote, urlsplit

LONGEST = 500
# Printable ASCII without what browsers read in more than one way: blanks, quotes, angle brackets, backslashes.
_PLAIN = re.compile(r"[!#-&(-;=?-\[\]_a-z{-~^]+")


def https(url: str | None) -> str:
    """`url` if it is an https address without a user's name in it, else "". Bodies are hostile: a `javascript:` link,
    one with blanks or control characters, or a very long one is none."""
    if not url or len(url) > LONGEST or not _PLAIN.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
        parts.port  # noqa: B018 (raises for a port that is none)
    except ValueError:
        return ""
    return url if is_fine else ""


def under(base: str | None, *parts: object) -> str:
    """An address below `base`, with each part quoted; "" if `base` is not https."""
    root = https(base).rstrip("/")
    link = "/".join([root, *(quote(str(part), safe="") for part in parts)])
    return link if root and len(link) <= LONGEST else ""


def host(url: str | None) -> str:
    """The host (and port) of an http or https address, in lower case; "" if it has none. Tells sites apart."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return ""
    netloc = parts.netloc.rpartition("@")[2].lower()
    return netloc[:100] if parts.scheme in {"http", "https"} else ""


def site(url: str | None) -> str:
    """The https address of the site that this address is on; "" if it is not https."""
    return f"https://{host(url)}" if https(url) else ""
