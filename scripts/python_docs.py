"""Write docs/python.md: the calls that an app on the farm may make: signatures, and what each does in a sentence.

`make docs` calls this; tests/jobfarm/unit/test_python_docs.py fails when the page is not what it writes.
"""

import enum
import importlib
import inspect
import operator
import os
import re
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import django

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "python.md"
WIDTH: Final = 118  # a signature that is longer has a line for each parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Names of one module, and the line by which an app imports it."""

    module: str
    line: str
    prefix: str
    names: tuple[str, ...]

    def calls(self) -> Iterator[tuple[str, Any]]:
        """Each name as it is written in an app, and what it stands for. Raises AttributeError for one that is gone."""
        module = importlib.import_module(self.module)
        for name in self.names:
            yield f"{self.prefix}{name}", operator.attrgetter(name)(module)


def _names(module: str, names: str) -> Part:
    taken = tuple(names.split())
    whole = ", ".join(name for name in taken if "." not in name)
    return Part(module=module, line=f"from {module} import {whole}", prefix="", names=taken)


def _part(module: str, names: str, *, alias: str = "") -> Part:
    """A module that is imported as a whole, by an alias or by its own last name."""
    package, _, last = module.rpartition(".")
    line = f"from {package} import {last}" if package else f"import {module}"
    return Part(
        module=module,
        line=f"{line} as {alias}" if alias else line,
        prefix=f"{alias or last}.",
        names=tuple(names.split()),
    )


_JOBS: Final = "jobs.operations"
_SCHEDULING: Final = "scheduling.operations"
CHAPTERS: Final[dict[str, tuple[Part, ...]]] = {
    "Jobs": (
        _part(
            _JOBS,
            "submit JobOptions submit_many NewJob cancel Cancellation retry run_now change_priority snapshot"
            " JobSnapshot statuses output_text pictures result_file upload uploaded delete_upload"
            " submit_flow SubmittedFlow",
            alias="jobs",
        ),
    ),
    "Kinds and their hooks": (
        _part(_JOBS, "declare Kind Prepared Discard Move on_behalf_of resync register_links Link", alias="jobs"),
    ),
    "Queues and workers": (
        _part(
            _JOBS,
            "pause resume pause_owner resume_owner set_ceiling set_fair set_ages_after bound_keys create_kind"
            " create_worker rotate_key revoke workers_for",
            alias="jobs",
        ),
    ),
    "Files and forms": (_part("jobs.http", "sent signed_path once", alias="jobs_http"),),
    "Scheduled functions": (
        _part(
            _SCHEDULING,
            "mutation action Retry Backoff run_after run_at run_again cancel Cancellation run_due",
            alias="scheduling",
        ),
    ),
    "Crons": (
        _part(
            _SCHEDULING,
            "declare interval hourly daily weekly monthly cron Missed Overlap pause resume run_now upcoming keep prune",
            alias="scheduling",
        ),
    ),
    "Rate limits": (
        _part(
            "ratelimits.operations",
            "declare TokenBucket FixedWindow limit limit_all LimitRequest check Answer get_value Value give_back reset",
            alias="ratelimits",
        ),
        _names("ratelimits.http", "rate_limited address user_or_address"),
    ),
    "Usage and budgets": (
        _part("metering.operations", "declare Tokens make change remove balances of_job", alias="metering"),
    ),
    "Webhooks": (_part("webhooks", "on Event Event.read"), _names("webhooks.operations", "receives")),
    "Live queries": (
        _names("live.registry", "live_query StateQuery.may_see live_stream Viewer Item"),
        _part("live.operations", "touch", alias="live"),
        _part("live.html", "wrapper"),
    ),
    "People and groups": (
        _part(
            "accounts.operations", "groups_of is_member members owner create_group is_guest limit_key", alias="accounts"
        ),
        _part("accounts.http", "limit_key members_only", alias="people"),
    ),
    "Transactions and the clock": (
        _part("postgres.transactions", "retried serializable"),
        _part("postgres.clock", "now"),
        _part("postgres.statements", "load"),
        _part("postgres.connections", "run"),
    ),
}


def calls() -> Iterator[tuple[str, Any]]:
    """All that the page lists: the name as an app writes it, and what it stands for."""
    for parts in CHAPTERS.values():
        for part in parts:
            yield from part.calls()


def page() -> str:
    head, _, _ = PAGE.read_text().partition("\n## Jobs\n")
    chapters = (f"## {title}\n\n" + "\n".join(map(_section, parts)) for title, parts in CHAPTERS.items())
    return "\n".join([head, *chapters])


def signatures(named: Any) -> list[inspect.Signature]:
    """How a function or a class may be called: once for each overload."""
    if typing.is_typeddict(named):
        return [inspect.Signature(list(_options(named)))]
    if isinstance(named, type):
        return [inspect.signature(named).replace(return_annotation=inspect.Signature.empty)]
    return [_without_self(inspect.signature(one)) for one in _forms(named)]


def _options(named: Any) -> Iterator[inspect.Parameter]:
    """The fields of a TypedDict, the needed ones first; those of another one on the page are what that says."""
    fields = typing.get_type_hints(named)
    others = [
        one for _, one in calls() if typing.is_typeddict(one) and typing.get_type_hints(one).items() < fields.items()
    ]
    own = fields.keys() - {name for other in others for name in typing.get_type_hints(other)}
    for name in sorted(own, key=lambda name: (name not in named.__required_keys__, list(fields).index(name))):
        given = annotation(fields[name]).removesuffix(" | None")  # leaving it out says that as well
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=given)
    for other in others:
        yield inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD, annotation=typing.Unpack[other])


def _forms(function: Any) -> list[Any]:
    """The overloads of a function; where one compares the arguments of another function, the function itself, since the
    overloads only keep the two apart for a type checker."""
    overloads = typing.get_overloads(function)
    is_comparing = any("P.kwargs" in str(inspect.signature(one)) for one in overloads)
    return [function] if is_comparing else [*overloads] or [function]


def _without_self(signature: inspect.Signature) -> inspect.Signature:
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    return signature.replace(parameters=parameters)


def annotation(given: Any) -> str:
    """A type as a reader writes it: without modules, and with `|`."""
    return _plain(inspect.formatannotation(given))


# What Python writes of a parameter or a type, and what a reader writes instead.
_PLAIN: Final[tuple[tuple[str, str], ...]] = (
    (r"<(\w+\.\w+): [^>]*>", r"\1"),  # one of an enum
    (r"<function (\w+) at [^>]*>", r"\1"),
    (r"\*<class '[\w.]*?(\w+)'>", r"Unpack[\1]"),
    (r"<[^<>]*>", "..."),
    (r"ForwardRef\('([^']*)'\)", r"\1"),
    (r"(^|: )'([^']*)'", r"\1\2"),  # a type in quotes
    (r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])", ""),  # modules
    ("~", ""),
    ("NoneType", "None"),
    ("'", '"'),
    (r" \| None = None$", " = None"),  # the default says so
)


def _plain(text: str) -> str:
    text = text.replace(inspect.formatannotation(importlib.import_module(_SCHEDULING).Json), "Json")
    for written, shown in _PLAIN:
        text = re.sub(written, shown, text)
    return text


def _section(part: Part) -> str:
    entries = "\n\n".join(_entry(name, named) for name, named in part.calls())
    return f"```python\n{part.line}\n\n{entries}\n```\n"


def _entry(name: str, named: Any) -> str:
    """As a line of comment says what it does, and how it is called."""
    gist = re.split(r"(?<=\.)\s+(?=[A-Z`])", inspect.getdoc(named) or "", maxsplit=1)[0]
    comment = textwrap.wrap(gist, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join([*comment, *_shown(name, named)])


def _shown(name: str, named: Any) -> Iterator[str]:
    if isinstance(named, enum.EnumType):
        yield from (f'{name}.{key} = "{named[key].value}"' for key in named.__members__)
        return
    yield from (call(name, one) for one in signatures(named))


def call(name: str, signature: inspect.Signature) -> str:
    """One way to call it, on one line or with a line for each parameter."""
    pieces = list(_pieces(signature))
    given = signature.return_annotation
    gives = "" if given in {signature.empty, None, "None"} else f" -> {annotation(given)}"
    line = f"{name}({', '.join(pieces)}){gives}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {piece}," for piece in pieces), f"){gives}"])


def _pieces(signature: inspect.Signature) -> Iterator[str]:
    """The parameters with the marks between them, as Python writes them."""
    parameters = signature.parameters
    bare = [one.replace(annotation=one.empty, default=one.empty) for one in parameters.values()]
    for piece in str(inspect.Signature(bare))[1:-1].split(", "):
        yield _plain(str(parameters.get(piece.lstrip("*"), piece)))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()
    PAGE.write_text(page())
