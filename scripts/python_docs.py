"""Write docs/python.md: the calls that an app on the farm may make: signatures, and what each does in a sentence.

`make docs` calls this; tests/jobfarm/unit/test_python_docs.py fails when the page is not what it writes.
"""

import enum
import importlib
import inspect
import operator
import os
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import django

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "python.md"
HEAD: Final = Path(__file__).with_suffix(".md")
EXAMPLE: Final = Path(__file__).with_name("python_docs_example.py")  # a module, so that mypy and ruff read it
WIDTH: Final = 100  # a signature that is longer has a line for each parameter


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
            " JobSnapshot statuses output_text pictures result_file upload uploaded delete_upload",
            alias="jobs",
        ),
    ),
    "Kinds and their hooks": (
        _part(_JOBS, "declare Kind Prepared Discard Move on_behalf_of resync register_links Link", alias="jobs"),
    ),
    "Queues and workers": (
        _part(_JOBS, "pause resume set_ceiling create_kind create_worker rotate_key revoke workers_for", alias="jobs"),
    ),
    "Result files": (_part("jobs.http", "sent signed_path", alias="jobs_http"),),
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
        _names("ratelimits.http", "rate_limited Throttle address user_or_address"),
    ),
    "Usage and budgets": (
        _part("metering.operations", "declare Tokens make change remove balances of_job", alias="metering"),
    ),
    "Webhooks": (_part("webhooks", "on Event Event.read"), _names("webhooks.operations", "receives")),
    "Live queries": (
        _names("live.registry", "live_query StateQuery.may_see live_stream StreamQuery.may_see Viewer Item"),
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
        _part("postgres.transactions", "retried serialized serializable"),
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
    chapters = "\n".join(_chapter(title, parts) for title, parts in CHAPTERS.items())
    head = HEAD.read_text().replace("EXAMPLE", EXAMPLE.read_text())
    return f"{head}\n{chapters}"


def signatures(named: Any) -> list[inspect.Signature]:
    """How a function or a class may be called: once for each overload."""
    if typing.is_typeddict(named):
        parameters = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=one,
                default=inspect.Parameter.empty if name in named.__required_keys__ else None,
            )
            for name, one in typing.get_type_hints(named).items()
        ]  # fmt: skip
        return [inspect.Signature(sorted(parameters, key=lambda one: one.default is None))]
    if isinstance(named, type):
        return [inspect.signature(named).replace(return_annotation=inspect.Signature.empty)]
    return [_without_self(inspect.signature(one)) for one in typing.get_overloads(named) or [named]]


def _without_self(signature: inspect.Signature) -> inspect.Signature:
    """As the method of an object is called."""
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    return signature.replace(parameters=parameters)


def annotation(given: Any) -> str:
    """A type as a reader writes it: without modules, and with `|`."""
    if given is None or given is types.NoneType:
        return "None"
    if given is ...:
        return "..."
    if given == _json():
        return "Json"
    origin, arguments = typing.get_origin(given), typing.get_args(given)
    if origin is None:
        return str(getattr(given, "__forward_arg__", None) or getattr(given, "__name__", None) or given)
    if origin in (typing.ParamSpecArgs, typing.ParamSpecKwargs) or isinstance(origin, typing.ParamSpec):
        return str(given).lstrip("~")
    return _generic(origin, arguments)


def _generic(origin: Any, arguments: tuple[Any, ...]) -> str:
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(annotation, arguments))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(_default, arguments))}]"
    if origin is Callable:
        takes, gives = arguments
        shown = f"[{', '.join(map(annotation, takes))}]" if isinstance(takes, list) else annotation(takes)
        return f"Callable[{shown}, {annotation(gives)}]"
    return f"{origin.__name__}[{', '.join(map(annotation, arguments))}]"


def _json() -> Any:
    return importlib.import_module(_SCHEDULING).Json


def _chapter(title: str, parts: tuple[Part, ...]) -> str:
    return f"## {title}\n\n" + "\n".join(_section(part) for part in parts)


def _section(part: Part) -> str:
    entries = "\n\n".join(_entry(name, named) for name, named in part.calls())
    return f"```python\n{part.line}\n\n{entries}\n```\n"


def _entry(name: str, named: Any) -> str:
    """As a line of comment says what it does, and how it is called."""
    comment = textwrap.wrap(_gist(named), WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join([*comment, *_shown(name, named)])


def _gist(named: Any) -> str:
    """The first sentence of a docstring."""
    return re.split(r"(?<=\.)\s+(?=[A-Z`])", inspect.getdoc(named) or "", maxsplit=1)[0]


def _shown(name: str, named: Any) -> Iterator[str]:
    if isinstance(named, enum.EnumType):
        yield from (f'{name}.{key} = "{named[key].value}"' for key in named.__members__)
        return
    # The one that compares the arguments first: a type checker needs it last, a reader begins with it.
    yield from sorted((call(name, one) for one in signatures(named)), key=lambda text: "P.kwargs" not in text)


def call(name: str, signature: inspect.Signature) -> str:
    """One way to call it, on one line or with a line for each parameter."""
    pieces = list(_pieces(signature))
    gives = "" if signature.return_annotation is signature.empty else f" -> {annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(pieces)}){gives}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {piece}," for piece in pieces), f"){gives}"])


def _pieces(signature: inspect.Signature) -> Iterator[str]:
    """The parameters with the marks between them, as Python writes them."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    stars = kinds.count(inspect.Parameter.VAR_POSITIONAL)
    for index, parameter in enumerate(signature.parameters.values()):
        before = kinds[index - 1] if index else None
        if before is inspect.Parameter.POSITIONAL_ONLY and parameter.kind is not before:
            yield "/"
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and before is not parameter.kind and not stars:
            yield "*"
        yield _parameter(parameter)
    if kinds and kinds[-1] is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


_MARKS: Final[dict[Any, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _parameter(parameter: inspect.Parameter) -> str:
    mark = _MARKS.get(parameter.kind, "")
    typed = "" if parameter.annotation is parameter.empty else f": {annotation(parameter.annotation)}"
    typed = typed.removesuffix(" | None") if parameter.default is None else typed  # "= None" says so
    default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
    return f"{mark}{parameter.name}{typed}{default}"


def _default(given: Any) -> str:
    if isinstance(given, enum.Enum):
        return f"{type(given).__name__}.{given.name}"
    if inspect.isfunction(given):
        return given.__name__
    if isinstance(given, tuple):
        return f"({', '.join(map(_default, given))})"
    if isinstance(given, str):
        return f'"{given}"'
    return "..." if repr(given).startswith("<") else repr(given)


def main() -> None:
    """Write the page, or with --check say by the exit code whether it is as it should be."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    django.setup()
    text = page()
    if "--check" in sys.argv:
        sys.exit("docs/python.md is old: make docs" if PAGE.read_text() != text else 0)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
