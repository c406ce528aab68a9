"""Rows as a file: CSV for spreadsheets, JSON lines for programs."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.http import HttpRequest, HttpResponse

# What a spreadsheet takes for a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def as_csv(headings: Sequence[str], rows: Iterable[Iterable[Any]], *, name: str) -> HttpResponse:
    """The rows under these headings, by RFC 4180, as a file of this name."""
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow(headings)
    lines.writerows([_cell(value) for value in row] for row in rows)
    return _file(text.getvalue(), name, "text/csv; charset=utf-8")


def as_json_lines(rows: Iterable[Mapping[str, Any]], *, name: str) -> HttpResponse:
    lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    return _file(lines, name, "application/jsonl")


def next_link(request: HttpRequest, *, before: int) -> str:
    """The Link (RFC 8288) to the file that goes on with what is older."""
    query = request.GET.copy()
    query["before"] = str(before)
    return f'<{request.path}?{query.urlencode()}>; rel="next"'


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _file(text: str, name: str, content_type: str) -> HttpResponse:
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(text, content_type=content_type, headers={"Content-Disposition": disposition})
