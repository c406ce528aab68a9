"""Find handlers by what the command line calls them."""

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from jobfarm_worker.errors import BadOption
from jobfarm_worker.registry import Handler, Handlers

Environment = Mapping[str, str]


def handlers(spec: str, *, environ: Environment = os.environ) -> Handlers:
    """The handlers that `spec` names: `chat`, `kind=chat`, `kind=module:function` or `module:handlers`.

    Raises BadOption with a sentence when it names nothing that can run jobs.
    """
    kind, _, target = spec.rpartition("=")
    if target in COMING_ALONG:
        usual_kind, make = COMING_ALONG[target]
        return _only(kind or usual_kind, _made(target, make, environ))
    imported = _imported(target)
    if isinstance(imported, Handlers) and not kind:
        return imported
    if isinstance(imported, Handlers) or not callable(imported):
        raise BadOption(f"{target} is neither a function nor, without a kind before it, a Handlers object.")
    if not kind:
        raise BadOption(f"{target} is a function: say for which kind, as in --handler KIND={target}.")
    return _only(kind, imported)


def _only(kind: str, function: Handler) -> Handlers:
    one = Handlers()
    one.add(kind=kind, function=function)
    return one


def _made(name: str, make: Callable[[Environment], Handler], environ: Environment) -> Handler:
    try:
        return make(environ)
    except ModuleNotFoundError as error:
        extra = "demo" if error.name == "numpy" else "openai"
        raise BadOption(
            f"The handler {name} needs the package {error.name}: in a checkout of jobfarm, pip install '.[{extra}]'."
        ) from error


def _imported(target: str) -> Any:
    module, colon, attribute = target.partition(":")
    if not colon or not module or not attribute:
        known = ", ".join(COMING_ALONG)
        raise BadOption(f"There is no handler {target!r}; there are {known}, or yours as module:attribute.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise BadOption(f"The module {module} has no {attribute}.") from error
    except Exception as error:
        raise BadOption(f"The module {module} cannot be imported: {type(error).__name__}: {error}.") from error


def _asking(module: str, *, variable: str, else_: str) -> Callable[[Environment], Handler]:
    """The handler that asks the configured server, or a demonstrator. A key alone names no server: whoever has one may
    not want it spent here."""

    def make(environ: Environment) -> Handler:
        url = environ.get(variable) or environ.get("OPENAI_BASE_URL")
        return _handler_of(module, url=url, environ=environ) if url else _handler_of(else_)

    return make


def _handler_of(module: str, **options: Any) -> Handler:
    """Imported only now: it may need aiohttp, pillow or numpy."""
    handler: Handler = importlib.import_module(f"jobfarm_worker.handlers.{module}").handler(**options)
    return handler


COMING_ALONG: dict[str, tuple[str, Callable[[Environment], Handler]]] = {
    "chat": ("chat", _asking("chat", variable="JOBFARM_LLM_URL", else_="chat_demo")),
    "image": ("image", _asking("image", variable="JOBFARM_IMAGE_URL", else_="image_demo")),
    "openai": ("openai", _asking("openai_calls", variable="JOBFARM_LLM_URL", else_="openai_demo")),
    "chat-demo": ("chat", lambda _: _handler_of("chat_demo")),
    "image-demo": ("image", lambda _: _handler_of("image_demo")),
    "openai-demo": ("openai", lambda _: _handler_of("openai_demo")),
}
