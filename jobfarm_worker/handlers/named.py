"""Find handlers by what the command line calls them."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from jobfarm_worker.errors import BadOption
from jobfarm_worker.handlers import chat_demo, openai_demo
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


def _chat(environ: Environment) -> Handler:
    url = _server("JOBFARM_LLM_URL", environ)
    if not url:
        return _chat_demo(environ)
    from jobfarm_worker.handlers import chat  # noqa: PLC0415 - needs aiohttp

    return chat.handler(url=url, environ=environ)


def _image(environ: Environment) -> Handler:
    url = _server("JOBFARM_IMAGE_URL", environ)
    if not url:
        return _image_demo(environ)
    from jobfarm_worker.handlers import image  # noqa: PLC0415 - needs aiohttp and pillow

    return image.handler(url=url, environ=environ)


def _openai(environ: Environment) -> Handler:
    url = _server("JOBFARM_LLM_URL", environ)
    if not url:
        return _openai_demo(environ)
    from jobfarm_worker.handlers import openai_calls  # noqa: PLC0415 - needs aiohttp

    return openai_calls.OpenAICalls(url=url, environ=environ)


def _server(variable: str, environ: Environment) -> str:
    """The configured server. A key alone names none: whoever has one may not want it spent here."""
    return environ.get(variable) or environ.get("OPENAI_BASE_URL") or ""


def _chat_demo(_environ: Environment) -> Handler:
    return chat_demo.handler()


def _openai_demo(_environ: Environment) -> Handler:
    return openai_demo.Demonstrator()


def _image_demo(_environ: Environment) -> Handler:
    from jobfarm_worker.handlers import image_demo  # noqa: PLC0415 - needs numpy and pillow

    return image_demo.handler()


COMING_ALONG: dict[str, tuple[str, Callable[[Environment], Handler]]] = {
    "chat": ("chat", _chat),
    "image": ("image", _image),
    "openai": ("openai", _openai),
    "chat-demo": ("chat", _chat_demo),
    "image-demo": ("image", _image_demo),
    "openai-demo": ("openai", _openai_demo),
}
