"""How an address answers somebody, in a word, and whether that changed anything."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.cookies import SimpleCookie
from typing import Any

from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

# What says nothing of an act: sessions, what was taken of limits (allauth's are in the cache),
# puzzles, and the outbox of live messages.
_BESIDE = ("django_session", "ratelimits_bucket", "captcha_captchastore", "jobfarm_cache")
# The view pg_stat_xact_user_tables asks these of each table too, but joins and groups its indexes beside: three
# milliseconds, twice for each of some two thousand answers.
_WRITTEN = """
SELECT coalesce(sum(pg_stat_get_xact_tuples_inserted(oid) + pg_stat_get_xact_tuples_updated(oid)
    + pg_stat_get_xact_tuples_deleted(oid)), 0)
FROM pg_class
WHERE relkind IN ('r', 'm', 'p') AND relnamespace = 'public'::regnamespace AND relname <> ALL(%s)
"""
_NAME = re.compile(r"<(?:\w+:)?(\w+)>")


def patterns() -> set[str]:
    """The patterns of all addresses but those of the administration, which it makes by itself."""
    return set(_walk(get_resolver().url_patterns, ""))


def _walk(found: Any, prefix: str) -> Iterator[str]:
    for each in found:
        pattern = prefix + str(each.pattern)
        if isinstance(each, URLPattern):
            yield pattern
        elif isinstance(each, URLResolver) and pattern != "admin/":
            yield from _walk(each.url_patterns, pattern)


def address(pattern: str, names: Mapping[str, Any]) -> str:
    """The address that this pattern stands for."""
    path = "/" + _NAME.sub(lambda match: str(names[match[1]]), pattern)
    return f"{path}?{names['?']}" if "?" in names else path


def answer(client: Client, method: str, path: str, form: Any) -> str:
    """What the address answers: its status, "in" for the log-in page, and a "+" behind it if anything was written.

    Whatever it did is undone; the client's cookies stay as they were.
    """
    with undone(client):
        before = _written()
        response = send(client, method, path, form)
        has_written = _written() > before
    is_log_in = response.status_code == 302 and response.headers["Location"].startswith("/accounts/login/?next=")
    return ("in" if is_log_in else str(response.status_code)) + ("+" if has_written else "")


def send(client: Client, method: str, path: str, form: Any) -> Any:
    """The response, read to its end."""
    if method == "GET":
        response: Any = client.get(path)
    elif method == "PATCH" or (method == "PUT" and isinstance(form, dict) and form):
        response = client.generic(method, path, json.dumps(form), content_type="application/json")
    elif method in {"PUT", "DELETE"}:
        response = client.generic(method, path, form if isinstance(form, bytes) else b"")
    elif path.startswith("/api/"):
        response = client.post(path, form, content_type="application/json")
    else:
        response = client.post(path, form)
    if response.streaming:
        b"".join(response.streaming_content)
    return response


@contextmanager
def undone(client: Client) -> Iterator[None]:
    """Whatever the block does to the database and to the client's cookies is undone."""
    cookies = SimpleCookie(client.cookies)
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    client.cookies = cookies


def _written() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_WRITTEN, [list(_BESIDE)])
        return int(cursor.fetchone()[0])
