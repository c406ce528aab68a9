"""The live queries there are: apps declare them in `live_queries.py`, pages and sockets name them. Their arguments are
numbers and texts, declared by the read's signature and checked on arrival."""

import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, PermissionsMixin

from live import errors

Argument = int | str
Arguments = dict[str, Argument]

_LONGEST_TEXT = 1000
_LARGEST_NUMBER = 2**63 - 1  # what PostgreSQL's bigint holds
_NOUNS = {int: "a whole number", str: "a text"}
StateRead = Callable[..., Mapping[str, Any] | None]
Topics = Callable[..., Iterable[str]]
MaySee = Callable[..., str | None]
Anonymous = Literal["never", "ticket", "always"]
Declared = TypeVar("Declared", "StateQuery", "StreamQuery")


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who wants to see: a person or AnonymousUser, and perhaps a ticket (the token of a share link)."""

    user: AbstractBaseUser | AnonymousUser
    ticket: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of a stream. `cursor`: where it ends; `data`: JSON, a text or a mapping with a "text"; `follows`: the
    cursors right behind which it stands, where whoever made it knows them (None: of who has nothing yet)."""

    cursor: str
    data: Any
    follows: Collection[str | None] = ()


Appended = Mapping[str, Sequence[Item]]  # by topic
StreamRead = Callable[..., Sequence[Item]]


@dataclass(eq=False, kw_only=True)
class Query:
    """What both kinds have in common: a name, arguments, topics, and who may see it."""

    name: str
    read: Callable[..., Any]
    topics_of: Topics
    rights_topics_of: Topics | None
    anonymous: Anonymous
    rights: MaySee | None = None

    def __post_init__(self) -> None:
        self.parameters = declared(self.read)

    def may_see(self, function: MaySee) -> MaySee:
        """Decorate `(viewer, **arguments) -> str | None`: the audience this viewer belongs to, or None: not for them.
        It runs in a thread, at the first rendering, for each watch request, and again when rights change."""
        self.rights = function
        return function

    def checked(self, arguments: object) -> Arguments:
        """Return the arguments, complete. Raises BadArguments."""
        return checked(arguments, parameters=self.parameters)

    def topics(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the topics that make this query stale; `"work:*"` stands for all that begin with `work:`."""
        return frozenset(self.topics_of(**arguments))

    def rights_topics(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the topics after which a socket has to check again whether its viewer may see this."""
        return frozenset(self.rights_topics_of(**arguments)) if self.rights_topics_of else frozenset()

    def is_for(self, viewer: Viewer) -> bool:
        """Whether `may_see` is called for this viewer at all. Reads nothing."""
        if viewer.user.is_authenticated or self.anonymous == "always":
            return True
        return self.anonymous == "ticket" and viewer.ticket is not None

    def audience(self, viewer: Viewer, arguments: Mapping[str, Any]) -> str | None:
        """Return the audience to render for, or None when this viewer may not see it. Reads the database."""
        return self.rights(viewer, **arguments) if self.rights and self.is_for(viewer) else None


@dataclass(eq=False, kw_only=True)
class StateQuery(Query):
    """A query of which only the latest answer matters."""

    read: StateRead
    audiences: Sequence[str]
    template: str | None
    at_most_every_s: float
    is_appended: bool

    def audience(self, viewer: Viewer, arguments: Mapping[str, Any]) -> str | None:
        """As above. Raises BadDeclaration when `may_see` names an audience that was not declared."""
        audience = super().audience(viewer, arguments)
        if audience is not None and audience not in self.audiences:
            raise errors.BadDeclaration(f"{self.name} declares the audiences {self.audiences}, not {audience!r}")
        return audience


@dataclass(eq=False, kw_only=True)
class StreamQuery(Query):
    """A query whose answers are appended, one after the other."""

    read: StreamRead
    page: int
    is_appended: bool


def live_query(  # noqa: PLR0913  # what a query says; they are named wherever they are given
    name: str,
    *,
    topics: Topics,
    audiences: Sequence[str],
    may_see: MaySee | None = None,
    template: str = "",
    render: Literal["html", "json"] = "html",
    rights_topics: Topics | None = None,
    at_most_every_s: float = 0.02,
    is_appended: bool = False,
    anonymous: Anonymous = "never",
) -> Callable[[StateRead], StateQuery]:
    """Declare a state query; the decorated function is its read.

    The read takes keyword-only arguments annotated `int` or `str` and returns the context of `template` (the one of its
    own name in its app's `live/`; or, with `render="json"`, what is sent as JSON), or None when what it shows is gone.
    It runs in a thread, once for each change and audience however many watch, at most every `at_most_every_s` seconds;
    with `is_appended` (of JSON) not where `live.operations.append` hands over for its topics what it would return.
    The context also gets `audience`; a template must not depend on anything else (no user, no token, no local time),
    for its rendering serves all of that audience. Declare who may see it with `may_see`, here or as the decorator
    `@<query>.may_see`; until then nobody may. For viewers who are not logged in it is called only as `anonymous` says:
    never, where they show a ticket, or always. Raises BadDeclaration.
    """

    def declare(read: StateRead) -> StateQuery:
        if render == "json" and template:
            raise errors.BadDeclaration(f"{name}: JSON takes no template")
        by_name = f"{read.__module__.split('.')[-2]}/live/{read.__name__}.html"
        return _registered(
            StateQuery(
                name=name, read=read, topics_of=topics, rights_topics_of=rights_topics, anonymous=anonymous,
                rights=may_see, audiences=tuple(audiences), at_most_every_s=at_most_every_s, is_appended=is_appended,
                template=(template or by_name) if render == "html" else None,
            )
        )  # fmt: skip

    return declare


def live_stream(
    name: str, *, topics: Topics, rights_topics: Topics | None = None, page: int = 500, is_appended: bool = False,
    anonymous: Anonymous = "never",
) -> Callable[[StreamRead], StreamQuery]:  # fmt: skip
    """Declare a stream; the decorated function is its read.

    The read is called as `read(after, limit, **arguments)`: it returns at most `limit` (that is, `page`)
    items that follow the cursor `after` (None: from the start), oldest first. Items must become visible in
    the order of their cursors, stay as they are, and be the same for all who may see them; then each watcher
    gets each item exactly once. A cursor comes from the browser and may be any text: what cannot be one must
    give no items, not an error. `is_appended`: what `live.operations.append` hands over for its topics are its items,
    as the read would return them. `anonymous` is as of `live_query`. Raises BadDeclaration.
    """

    def declare(read: StreamRead) -> StreamQuery:
        return _registered(
            StreamQuery(
                name=name, read=read, topics_of=topics, rights_topics_of=rights_topics, anonymous=anonymous, page=page,
                is_appended=is_appended,
            )
        )  # fmt: skip

    return declare


def for_holders(permission: str, audience: str = "operator") -> MaySee:
    """Let those who hold a permission see a query, as this audience."""

    def may_see(viewer: Viewer, **_: Any) -> str | None:
        user = viewer.user
        return audience if isinstance(user, PermissionsMixin) and user.has_perm(permission) else None

    return may_see


def find(name: object) -> StateQuery | StreamQuery:
    query = _queries.get(name) if isinstance(name, str) else None
    if query is None:
        raise errors.UnknownQuery(f"There is no live query {name!r}")
    return query


def everything() -> list[StateQuery | StreamQuery]:
    return [query for _, query in sorted(_queries.items())]


_queries: dict[str, StateQuery | StreamQuery] = {}


def _registered(query: Declared) -> Declared:
    if query.name in _queries:
        raise errors.BadDeclaration(f"There are two live queries named {query.name!r}")
    _queries[query.name] = query
    return query


def declared(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a read. Raises BadDeclaration: all must be `int` or `str`."""
    parameters = {
        name: parameter
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name, parameter in parameters.items():
        if parameter.annotation not in (int, str):
            raise errors.BadDeclaration(f"{function.__qualname__}: {name} must be annotated int or str")
    return parameters


def checked(values: object, *, parameters: Mapping[str, inspect.Parameter]) -> Arguments:
    """Return the arguments, defaults filled in, in declared order. Raises BadArguments at the first fault."""
    if not isinstance(values, Mapping):
        raise errors.BadArguments("Arguments come as an object with names")
    unknown = [str(name) for name in values if name not in parameters]
    if unknown:
        raise errors.BadArguments(f"There is no argument {unknown[0]!r}")
    return {name: _value(name, values, parameter) for name, parameter in parameters.items()}


def canonical(arguments: Mapping[str, Argument]) -> str:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"))


def _value(name: str, values: Mapping[object, object], parameter: inspect.Parameter) -> Argument:
    value = values.get(name, parameter.default)
    if value is inspect.Parameter.empty:
        raise errors.BadArguments(f"The argument {name!r} is missing")
    if parameter.annotation is int and isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > _LARGEST_NUMBER:
            raise errors.BadArguments(f"The argument {name!r} is too large a number")
        return value
    if parameter.annotation is str and isinstance(value, str):
        return _text(name, value)
    raise errors.BadArguments(f"The argument {name!r} must be {_NOUNS[parameter.annotation]}")


def _text(name: str, value: str) -> str:
    if len(value) > _LONGEST_TEXT:
        raise errors.BadArguments(f"The argument {name!r} is longer than {_LONGEST_TEXT} characters")
    if "\x00" in value or not _is_unicode(value):
        raise errors.BadArguments(f"The argument {name!r} holds characters that cannot be stored")
    return value


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can say half of a surrogate pair; PostgreSQL cannot
        return False
    return True
