"""The functions that can be scheduled, by dotted name; and the values that describe them."""

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.apps import apps
from django.conf import settings
from django.utils.module_loading import import_string

from observing.logs import sentence_of
from scheduling.context import Running
from scheduling.domain import calls
from scheduling.domain.calls import Kind, Retry
from scheduling.errors import BrokenFunction, UnknownFunction

ACTION_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One registered function. `timeout_s`, `retry`, `idempotent` and `own_writes` speak of actions."""

    name: str
    kind: Kind
    call: Callable[..., Any]
    signature: inspect.Signature
    timeout_s: float | None = None
    retry: Retry | None = None
    idempotent: bool = False
    own_writes: bool = False
    queue: str = calls.DEFAULT_QUEUE
    priority: int = 0

    @property
    def summary(self) -> str:
        """The first clause of its docstring; empty without one."""
        return re.split(r"[,.;:]", inspect.getdoc(self.call) or "", maxsplit=1)[0].replace("\n", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Running):
    """One run of one scheduled function. `stored_args` is JSON text, read when it is called: what cannot be read is a
    failure of this run."""

    stored_args: str
    task_backend: str | None
    ran_by: str

    @property
    def args(self) -> dict[str, Any]:
        args: dict[str, Any] = json.loads(self.stored_args)
        return args


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What people's crons need to know of a function: `check` raises a Refusal for arguments that it cannot take, and
    `lives` says whether what any of these results of it began, such as a job, has not ended."""

    check: Callable[[Mapping[str, Any]], None]
    lives: Callable[[Sequence[Any]], bool]


class TaskRunner(Protocol):
    """Runs the functions of another interface, whose rows name it in `task_backend` (scheduling.backend)."""

    def knows(self, name: str) -> bool:
        """Whether here is such a function, if one that cannot be imported."""

    def timeout_s(self, call: Call) -> float | None:
        """How long an action may take."""

    def run(self, call: Call) -> Any:
        """Call the function and return its result as JSON."""

    def ended(self, function_id: int, raised: BaseException | None = None) -> None:
        """Its end is committed, however it came; `raised` is what it raised, if it did so here."""


class _Interfaces:
    tasks: TaskRunner | None = None


interfaces = _Interfaces()
_functions: dict[str, Function] = {}
_offered: dict[str, Offer] = {}


def register(call: Callable[..., Any], *, kind: Kind, queue: str, priority: int, **of_actions: Any) -> Function:
    """Make `call` known under its dotted name; again under the same name replaces it. Raises NotAFunction, BadQueue."""
    name = dotted_name(call)
    place: dict[str, Any] = {"queue": calls.queue(queue), "priority": calls.priority(priority)}
    signature = calls.signature(call, name=name)
    _functions[name] = Function(name=name, kind=kind, call=call, signature=signature, **place, **of_actions)
    return _functions[name]


def find(function: Callable[..., Any] | str) -> Function:
    """The registered function of this dotted name, or the one that this is. Raises UnknownFunction (BrokenFunction). A
    name that is not known yet is imported: that of a module which no app imports at its start."""
    name = function if isinstance(function, str) else dotted_name(function)
    if name not in _functions and isinstance(function, str):
        try:
            import_string(name)
        except (ImportError, ValueError):
            raise UnknownFunction(function=name) from None
        except (Exception, SystemExit) as error:  # whatever a module does when it is imported
            raise BrokenFunction(function=name, why=sentence_of(error)) from error
    if name not in _functions:
        raise UnknownFunction(function=name)
    return _functions[name]


def takes(name: str, stored_args: str, *, task_backend: str | None) -> bool:
    """Whether here is a function of that name that takes such arguments; also of what fails in any version: of a module
    that cannot be imported, and of arguments that cannot be read. Those of a @task nobody checked when it was enqueued:
    what does not fit is as likely a mistake."""
    if task_backend is not None:
        return interfaces.tasks is not None and interfaces.tasks.knows(name)
    args = None
    try:
        args = json.loads(stored_args)
        find(name).signature.bind(**args)
    except (UnknownFunction, TypeError) as error:
        return isinstance(error, BrokenFunction) or not isinstance(args, dict)
    except (ValueError, RecursionError):
        return True
    return True


def dotted_name(call: Callable[..., Any]) -> str:
    module, name = getattr(call, "__module__", None), getattr(call, "__qualname__", None)
    return f"{module}.{name}" if module and name else repr(call)


def is_internal(name: str) -> bool:
    """Whether the function of this dotted name is of an app of the farm, and not of one that JOBFARM_APPS adds (what
    comes along with the farm, and says so, is its own however it was added)."""
    roots = {config.name.partition(".")[0] for config in apps.get_app_configs()}
    own = {config.name for config in apps.get_app_configs() if getattr(config, "is_of_the_farm", False)}
    added = {each.partition(".")[0] for each in settings.JOBFARM_APPS if each not in own}
    return name.partition(".")[0] in roots - added


def offer(function: Callable[..., Any], offer: Offer) -> None:
    """Let people make crons of a function of the farm itself."""
    _offered[find(function).name] = offer


def offered(name: str) -> Offer | None:
    return _offered.get(name)


def for_people() -> list[Function]:
    """The functions that people may make crons of, by name: those of added apps, and what the farm offers."""
    return [each for each in everything() if each.name in _offered or not is_internal(each.name)]


def check_for_people(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they are kept. Raises UnknownFunction, BadArguments, NotJson, and what the function's own check
    raises."""
    function = find(name)
    checked = calls.checked(args, signature=function.signature, name=function.name)
    if (offer := offered(function.name)) is not None:
        offer.check(checked)
    return checked


def everything() -> list[Function]:
    return [_functions[name] for name in sorted(_functions)]
