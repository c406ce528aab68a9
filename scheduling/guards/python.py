"""What Python itself says, or lets itself be asked: sockets, processes, threads.

Most is seen by audit events, which come before anything happens. Starting a thread is none before Python 3.12, giving
work to a thread that waits is none at all, and neither is multiprocessing's own way to a process: those methods are
wrapped.
"""

import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial, wraps
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

from scheduling.domain.states import Kind
from scheduling.errors import OutsideConnection, OutsideProcess, OutsideThread, SchedulingError, SecondConnection
from scheduling.guards import watched

_Refusal = Callable[[str, tuple[Any, ...]], SchedulingError | None]


def install() -> None:
    sys.addaudithook(_audit)
    _wrap(Thread, "start", _thread_starts)
    _wrap(ThreadPoolExecutor, "submit", _work_is_submitted)
    _wrap(ProcessPoolExecutor, "submit", _process_starts)
    _wrap(BaseProcess, "start", _process_starts)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    refusal = _REFUSALS.get(event)
    if refusal is None:
        return
    mutation = watched.current(Kind.MUTATION)
    if mutation is not None and (error := refusal(mutation.function, arguments)) is not None:
        raise error


def _connects(place: int) -> _Refusal:
    return lambda function, arguments: OutsideConnection(function=function, address=_readable(arguments[place]))


def _runs(place: int) -> _Refusal:
    return lambda function, arguments: OutsideProcess(function=function, command=_readable(arguments[place]))


def _forks(function: str, _: tuple[Any, ...]) -> SchedulingError:
    return OutsideProcess(function=function, command="a copy of this one")


def _starts_thread(function: str, arguments: tuple[Any, ...]) -> SchedulingError:
    return OutsideThread(function=function, work=_named(arguments[0]))


def _opens_sqlite(function: str, arguments: tuple[Any, ...]) -> SchedulingError | None:
    name = _readable(arguments[0])  # one in memory ends with the function
    return None if name in {"", ":memory:"} else SecondConnection(function=function, database=name)


# Python raises these before it does what they say. The database's own connection is libpq's and raises none.
_REFUSALS: dict[str, _Refusal] = {
    "socket.connect": _connects(1),
    "socket.sendto": _connects(1),
    "socket.sendmsg": _connects(1),
    "socket.getaddrinfo": _connects(0),
    "socket.gethostbyname": _connects(0),
    "socket.gethostbyaddr": _connects(0),
    "socket.getnameinfo": _connects(0),
    "subprocess.Popen": _runs(1),
    "os.system": _runs(0),
    "os.posix_spawn": _runs(0),
    "os.exec": _runs(0),
    "os.fork": _forks,
    "os.forkpty": _forks,
    "_thread.start_new_thread": _starts_thread,  # 3.12
    "_thread.start_joinable_thread": _starts_thread,  # 3.13
    "sqlite3.connect": _opens_sqlite,
}


def _wrap(owner: type, name: str, instead: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        return instead(original, *args, **kwargs)

    setattr(owner, name, guarded)


def _thread_starts(original: Callable[..., Any], thread: Thread) -> None:
    _refuse_thread(thread)
    if (action := watched.current(Kind.ACTION)) is not None:
        watched.started(thread, by=action)
    original(thread)


def _work_is_submitted(
    original: Callable[..., Any], executor: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    _refuse_thread(function)
    if (action := watched.current(Kind.ACTION)) is not None:
        function = partial(watched.in_context, action, function)
    return original(executor, function, *args, **kwargs)


def _process_starts(original: Callable[..., Any], process: Any, *args: Any, **kwargs: Any) -> Any:
    if (mutation := watched.current(Kind.MUTATION)) is not None:
        raise OutsideProcess(function=mutation.function, command=_named(args[0] if args else process))
    return original(process, *args, **kwargs)


def _refuse_thread(work: Any) -> None:
    if (mutation := watched.current(Kind.MUTATION)) is not None:
        raise OutsideThread(function=mutation.function, work=_named(work))


def _readable(value: Any) -> str:
    if isinstance(value, tuple) and len(value) >= 2:
        return f"{value[0]}:{value[1]}"
    if isinstance(value, list | tuple):
        return " ".join(map(_readable, value))[:80]
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _named(work: Any) -> str:
    """A name for it, and not its text: that of a queryset is a query."""
    return str(getattr(work, "__qualname__", None) or getattr(work, "name", None) or type(work).__qualname__)
