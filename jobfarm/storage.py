"""Where result files lie: on this machine's disk, or in S3 and what has its API (FILES_URL)."""

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

DISK: Final[dict[str, Any]] = {"BACKEND": "django.core.files.storage.FileSystemStorage"}
USUAL_REGION: Final = "us-east-1"
_KNOWN: Final = frozenset({"region", "endpoint"})
_FIXED: Final = {"signature_version": "s3v4", "file_overwrite": False, "default_acl": None, "querystring_auth": True}
_FORM: Final = "s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST"


def files(url: str | None) -> tuple[dict[str, Any], str | None]:
    """The storage that FILES_URL names (none: the disk) as Django's STORAGES has it, and the origin that browsers fetch
    files from (None: this site's). Raises ValueError with a sentence for one that makes no sense.

    `s3://bucket/prefix?region=...&endpoint=...`; prefix and parameters may be left out. Keys come from where Amazon's
    own tools find them (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, the machine's role), never from here:
    an address ends up in logs.
    """
    if not url:
        return DISK, None
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme != "s3" or not parts.netloc or "@" in parts.netloc or options.keys() - _KNOWN:
        raise ValueError(f"FILES_URL is {_FORM}, and holds no keys; got {_shown(url)}.")
    region, endpoint = options.get("region") or USUAL_REGION, options.get("endpoint") or None
    if endpoint is not None and urlsplit(endpoint).scheme not in {"http", "https"}:
        raise ValueError(f"the endpoint in FILES_URL begins with https:// (or http://); got {endpoint!r}.")
    options, origin = _addressing(parts.netloc, region, endpoint)
    storage = {"BACKEND": "jobfarm.s3.Files", "OPTIONS": options | _FIXED | {"location": parts.path.strip("/")}}
    return storage, origin


def _addressing(bucket: str, region: str, endpoint: str | None) -> tuple[dict[str, Any], str]:
    """How to reach the bucket, and the origin that signed addresses have. At Amazon the bucket is part of the host's
    name, unless it has dots, which its certificate does not cover; of others only the path is sure to work."""
    base = endpoint or f"https://s3.{region}.amazonaws.com"
    named = {"bucket_name": bucket, "region_name": region, "endpoint_url": base}
    if endpoint is None and "." not in bucket:
        return named | {"addressing_style": "virtual"}, f"https://{bucket}.s3.{region}.amazonaws.com"
    at = urlsplit(base)
    return named | {"addressing_style": "path"}, f"{at.scheme}://{at.netloc}"


def _shown(url: str) -> str:
    """As much of it as may be shown: a key in it is not."""
    return repr(url if "@" not in url else f"{url.split('://', 1)[0]}://…")
