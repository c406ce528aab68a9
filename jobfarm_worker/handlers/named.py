"""Find handlers by what the command line calls them."""

import importlib
import os
from collections.abc import Mapping
from typing import Any

from jobfarm_worker.errors import BadOption
from jobfarm_worker.running import Handler, Handlers

Environment = Mapping[str, str]
# The kind, and name, of each: what names its server, what asks that, and the demonstrator.
COMING_ALONG = {
    "chat": ("JOBFARM_LLM_URL", "chat:handler", "chat_demo:handler"),
    "image": ("JOBFARM_IMAGE_URL", "image:handler", "image_demo:handler"),
    "openai": ("JOBFARM_LLM_URL", "openai_calls:OpenAICalls", "chat_demo:Demonstrator"),
}


def handlers(spec: str, *, environ: Environment = os.environ) -> Handlers:
    """The handlers that `spec` names: `chat`, `kind=chat`, `kind=module:function` or `module:handlers`.

    Raises BadOption with a sentence when it names nothing that can run jobs.
    """
    kind, _, target = spec.rpartition("=")
    if (usual_kind := target.removesuffix("-demo")) in COMING_ALONG:
        return _only(kind or usual_kind, _coming_along(target, usual_kind, environ))
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


def _coming_along(name: str, kind: str, environ: Environment) -> Handler:
    """The handler that asks the configured server, or a demonstrator. A key alone names no server: whoever has one may
    not want it spent here."""
    variable, asking, demonstrator = COMING_ALONG[kind]
    url = (environ.get(variable) or environ.get("OPENAI_BASE_URL")) if name == kind else None
    module, _, made_by = (asking if url else demonstrator).partition(":")
    try:  # imported only now: it may need aiohttp, pillow or numpy
        make = getattr(importlib.import_module(f"jobfarm_worker.handlers.{module}"), made_by)
    except ModuleNotFoundError as error:
        extra = "demo" if error.name == "numpy" else "openai"
        raise BadOption(
            f"The handler {name} needs the package {error.name}: in a checkout of jobfarm, pip install '.[{extra}]'."
        ) from error
    handler: Handler = make(url=url, environ=environ) if url else make()
    return handler


def _imported(target: str) -> Any:
    module, colon, attribute = target.partition(":")
    if not colon or not module or not attribute:
        known = ", ".join([*COMING_ALONG, *(f"{name}-demo" for name in COMING_ALONG)])
        raise BadOption(f"There is no handler {target!r}; there are {known}, or yours as module:attribute.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise BadOption(f"The module {module} has no {attribute}.") from error
    except Exception as error:
        raise BadOption(f"The module {module} cannot be imported: {type(error).__name__}: {error}.") from error
