"""What the text of a variable may be: each reads one, or raises ValueError with a sentence that names it."""

import importlib.util
import json
import math
import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from django.core.exceptions import ImproperlyConfigured

import postgres.configuration

T = TypeVar("T")
Reader = Callable[[str, str], Any]

DISK: Final[dict[str, Any]] = {"BACKEND": "django.core.files.storage.FileSystemStorage"}
USUAL_REGION: Final = "us-east-1"
_KNOWN: Final = frozenset({"region", "endpoint"})
_FIXED: Final = {"signature_version": "s3v4", "file_overwrite": False, "default_acl": None, "querystring_auth": True}
_FORM: Final = "s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST"
_FLAGS: Final = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)


def _reader(must: str, parse: Callable[[str], Any], *, is_secret: bool = False) -> Reader:
    """What `parse` makes of a text; where it raises an error, a sentence says what that `must` be. It repeats no
    secret."""

    def read(name: str, raw: str) -> Any:
        try:
            return parse(raw)
        except (ValueError, KeyError):
            shown = "" if is_secret else f', not "{raw}"'
            raise ValueError(f"{name} must {must}{shown}.") from None

    return read


def _each(must: str, parse: Callable[[str], Any]) -> Reader:
    """The same of several, with commas between them."""
    one = _reader(must, parse)
    return lambda name, raw: [one(name, phrase) for phrase in phrases(name, raw)]


def _checked(parse: Callable[[str], T], is_right: Callable[[T], object]) -> Callable[[str], T]:
    def check(raw: str) -> T:
        if not is_right(value := parse(raw)):
            raise ValueError
        return value

    return check


def _matching(pattern: str) -> Callable[[str], str]:
    return _checked(str, re.compile(pattern).fullmatch)


def text(_name: str, raw: str) -> str:
    return raw


def words(_name: str, raw: str) -> list[str]:
    return raw.replace(",", " ").split()


def phrases(_name: str, raw: str) -> list[str]:
    """Words, and rows of words, with commas between them."""
    return [phrase.strip() for phrase in raw.split(",") if phrase.strip()]


def whole(least: int, most: int | None = None) -> Reader:
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    number = _checked(
        lambda raw: int(_digits(raw)), lambda value: least <= value <= (math.inf if most is None else most)
    )
    return _reader(f"be a whole number {bounds}", number)


def one_of(*choices: str) -> Reader:
    by_name = {choice.casefold(): choice for choice in choices}
    return _reader(f"be one of {', '.join(choices)}", lambda raw: by_name[raw.casefold()])


def database(name: str, raw: str) -> str:
    """The address of a PostgreSQL. It may hold a password: no sentence repeats it."""
    try:
        postgres.configuration.parse(raw, variable=name)
    except ImproperlyConfigured as error:
        raise ValueError(str(error)) from None
    return raw


def bucket(_name: str, raw: str) -> str:
    files_storage(raw)
    return raw


def files_storage(url: str | None) -> tuple[dict[str, Any], str | None]:
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
        shown = url if "@" not in url else f"{url.split('://', 1)[0]}://…"  # a key in it is not
        raise ValueError(f"FILES_URL is {_FORM}, and holds no keys; got {shown!r}.")
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


def apps(name: str, raw: str) -> list[str]:
    items = words(name, raw)
    for app in items:
        module, _, last = app.rpartition(".")  # it is named by its package, or by the class of its configuration
        if not is_importable(module if last[:1].isupper() else app):
            raise ValueError(f'{name} names "{app}", which Python does not find: PYTHONPATH must have its folder.')
    return items


def is_importable(module: str) -> bool:
    """Whether there is a module of this dotted name; its packages are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # one of its packages is none; an empty name
        return False


def _pair(raw: str) -> tuple[str, str]:
    left, _, right = raw.rpartition(":")
    if not left.strip() or not right.strip():
        raise ValueError
    return left.strip(), right.strip()


_digits: Final = _matching(r"[+-]?[0-9]{1,18}")
_ADDRESS: Final = ("begin with http:// or https:// and a host", _matching(r"https?://[^/\s].*"))
flag: Final = _reader("be 1 (true, yes, on) or 0 (false, no, off)", lambda raw: _FLAGS[raw.lower()])
number: Final = _reader("be a number of at least 0", _checked(float, lambda value: 0 <= value < math.inf))
positive: Final = _reader("be a number above 0", _checked(float, lambda value: 0 < value < math.inf))
hosts: Final = _each("hold names of hosts, such as farm.example.org", _matching(r"[^/]+"))
origins: Final = _each("hold origins, such as https://farm.example.org", _matching(r"https?://[^/\s]+"))
networks: Final = _each("hold networks, such as 10.1.0.0/16", ip_network)
address: Final = _reader(*_ADDRESS)
addresses: Final = _each(*_ADDRESS)
pairs: Final = _each("hold pairs, such as there:here, with commas between them", _pair)
mapping: Final = _reader(
    "be a JSON object", _checked(json.loads, lambda value: isinstance(value, dict)), is_secret=True
)
redis: Final = _reader(
    "be written as redis://host:6379/0 (or rediss:// or unix://)",
    _checked(str, lambda raw: urlsplit(raw).scheme in {"redis", "rediss", "unix"} and urlsplit(raw).port != 0),
    is_secret=True,
)
folder: Final = _reader(
    "be a folder", _checked(lambda raw: Path(raw).resolve(), lambda path: path.is_dir() or not path.exists())
)
