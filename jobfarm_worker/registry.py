"""Which function handles which kind of job."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from jobfarm_worker.errors import BadOption

Handler = Callable[..., Any]
"""Takes the Job, returns the result (JSON); an async function runs on the loop, a plain one in a thread.

One that serves models has an attribute `models`: an async function which returns their names. They are announced to the
farm, again and again, and the farm gives this worker the jobs for them.
"""

HandlerT = TypeVar("HandlerT", bound=Handler)


class Handlers(dict[str, Handler]):
    """Handlers by kind, to be included in a worker or named on the command line (`module:handlers`)."""

    def handler(self, kind: str) -> Callable[[HandlerT], HandlerT]:
        """Decorator: this function runs jobs of this kind; raises BadOption if the kind has one already."""

        def register(function: HandlerT) -> HandlerT:
            self.add(kind=kind, function=function)
            return function

        return register

    def add(self, *, kind: str, function: Handler) -> None:
        """Let `function` run jobs of this kind; raises BadOption if the kind is taken."""
        if not callable(function):
            raise BadOption(f"The handler of {kind!r} is not a function.")
        if kind in self:
            raise BadOption(f"Two handlers were given for the kind {kind!r}.")
        self[kind] = function

    def include(self, other: "Handlers") -> None:
        """Take over all handlers of another set; raises BadOption for a kind that both have."""
        for kind, function in other.items():
            self.add(kind=kind, function=function)

    @property
    def serve_models(self) -> bool:
        return any(hasattr(function, "models") for function in self.values())

    async def models(self) -> list[str]:
        """The models that the handlers serve now, each once."""
        sources = [function.models for function in self.values() if hasattr(function, "models")]
        return list(dict.fromkeys([name for source in sources for name in await source()]))

    async def loaded(self) -> list[str]:
        """The models that are in memory now, each once, of the handlers that can tell."""
        sources = [function.loaded for function in self.values() if hasattr(function, "loaded")]
        return list(dict.fromkeys([name for source in sources for name in await source()]))

    async def cache_used(self) -> float | None:
        """Which share of the cache of prompts is in use, of the fullest server, where one can tell."""
        shares = [await function.cache_used() for function in self.values() if hasattr(function, "cache_used")]
        return max((share for share in shares if share is not None), default=None)


def is_async(function: Handler) -> bool:
    """Whether it is an async function, also behind a partial or as `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
