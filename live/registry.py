"""The live queries there are: apps declare them in `live_queries.py`, pages and sockets name them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser

from live import errors
from live.arguments import Arguments, checked, declared


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
StateRead = Callable[..., Mapping[str, Any] | None]
StreamRead = Callable[..., Sequence[Item]]
Topics = Callable[..., Iterable[str]]
MaySee = Callable[..., str | None]
Anonymous = Literal["never", "ticket", "always"]


class Query:
    """What both kinds have in common: a name, arguments, topics, and who may see it."""

    def __init__(
        self, name: str, *, read: Callable[..., Any], topics: Topics, rights_topics: Topics | None, anonymous: Anonymous
    ) -> None:
        self.name = name
        self._anonymous = anonymous
        self.parameters = declared(read)
        self._topics = topics
        self._rights_topics = rights_topics
        self.rights: MaySee | None = None

    def may_see(self, function: MaySee) -> MaySee:
        """Decorate `(viewer, **arguments) -> str | None`: the audience this viewer belongs to, or None: not
        for them.

        It runs in a thread, at the first rendering, for each watch request, and again when rights change.
        """
        self.rights = function
        return function

    def checked(self, arguments: object) -> Arguments:
        """Return the arguments, complete. Raises BadArguments."""
        return checked(arguments, parameters=self.parameters)

    def topics(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the topics that make this query stale; `"work:*"` stands for all that begin with `work:`."""
        return frozenset(self._topics(**arguments))

    def rights_topics(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """Return the topics after which a socket has to check again whether its viewer may see this."""
        return frozenset(self._rights_topics(**arguments)) if self._rights_topics else frozenset()

    def is_for(self, viewer: Viewer) -> bool:
        """Whether `may_see` is called for this viewer at all. Reads nothing."""
        if viewer.user.is_authenticated or self._anonymous == "always":
            return True
        return self._anonymous == "ticket" and viewer.ticket is not None

    def audience(self, viewer: Viewer, arguments: Mapping[str, Any]) -> str | None:
        """Return the audience to render for, or None when this viewer may not see it. Reads the database."""
        return self.rights(viewer, **arguments) if self.rights and self.is_for(viewer) else None


class StateQuery(Query):
    """A query of which only the latest answer matters."""

    def __init__(
        self,
        name: str,
        *,
        read: StateRead,
        topics: Topics,
        rights_topics: Topics | None,
        audiences: Sequence[str],
        template: str | None,
        at_most_every_s: float,
        anonymous: Anonymous = "never",
    ) -> None:
        super().__init__(name, read=read, topics=topics, rights_topics=rights_topics, anonymous=anonymous)
        self.read = read
        self.audiences = tuple(audiences)
        self.template = template
        self.at_most_every_s = at_most_every_s

    def audience(self, viewer: Viewer, arguments: Mapping[str, Any]) -> str | None:
        """As above. Raises BadDeclaration when `may_see` names an audience that was not declared."""
        audience = super().audience(viewer, arguments)
        if audience is not None and audience not in self.audiences:
            raise errors.BadDeclaration(f"{self.name} declares the audiences {self.audiences}, not {audience!r}")
        return audience


class StreamQuery(Query):
    """A query whose answers are appended, one after the other."""

    def __init__(
        self,
        name: str,
        *,
        read: StreamRead,
        topics: Topics,
        rights_topics: Topics | None,
        page: int,
        is_appended: bool,
        anonymous: Anonymous = "never",
    ) -> None:
        super().__init__(name, read=read, topics=topics, rights_topics=rights_topics, anonymous=anonymous)
        self.read = read
        self.page = page
        self.is_appended = is_appended


def live_query(
    name: str,
    *,
    topics: Topics,
    audiences: Sequence[str],
    template: str | None = None,
    render: Literal["html", "json"] = "html",
    rights_topics: Topics | None = None,
    at_most_every_s: float = 0.02,
    anonymous: Anonymous = "never",
) -> Callable[[StateRead], StateQuery]:
    """Declare a state query; the decorated function is its read.

    The read takes keyword-only arguments annotated `int` or `str` and returns the context of `template` (or,
    with `render="json"`, what is sent as JSON), or None when what it shows is gone. It runs in a thread, once
    for each change and audience however many watch, at most every `at_most_every_s` seconds. The context also
    gets `audience`; a template must not depend on anything else (no user, no token, no local time), for its
    rendering serves all of that audience. Declare who may see it with `@<query>.may_see`; until then nobody
    may. For viewers who are not logged in it is called only as `anonymous` says: never, where they show a
    ticket, or always. Raises BadDeclaration.
    """

    def declare(read: StateRead) -> StateQuery:
        if (render == "html") != (template is not None):
            raise errors.BadDeclaration(f"{name}: HTML needs a template, JSON takes none")
        query = StateQuery(
            name,
            read=read,
            topics=topics,
            rights_topics=rights_topics,
            audiences=audiences,
            template=template,
            at_most_every_s=at_most_every_s,
            anonymous=anonymous,
        )
        _register(query)
        return query

    return declare


def live_stream(
    name: str,
    *,
    topics: Topics,
    rights_topics: Topics | None = None,
    page: int = 500,
    is_appended: bool = False,
    anonymous: Anonymous = "never",
) -> Callable[[StreamRead], StreamQuery]:
    """Declare a stream; the decorated function is its read.

    The read is called as `read(after, limit, **arguments)`: it returns at most `limit` (that is, `page`)
    items that follow the cursor `after` (None: from the start), oldest first. Items must become visible in
    the order of their cursors, stay as they are, and be the same for all who may see them; then each watcher
    gets each item exactly once. A cursor comes from the browser and may be any text: what cannot be one must
    give no items, not an error. `is_appended`: what `live.operations.append` hands over for its topics are its items,
    as the read would return them. `anonymous` is as of `live_query`. Raises BadDeclaration.
    """

    def declare(read: StreamRead) -> StreamQuery:
        query = StreamQuery(
            name,
            read=read,
            topics=topics,
            rights_topics=rights_topics,
            page=page,
            is_appended=is_appended,
            anonymous=anonymous,
        )
        _register(query)
        return query

    return declare


def find(name: object) -> StateQuery | StreamQuery:
    """Return the live query of this name. Raises UnknownQuery."""
    query = _queries.get(name) if isinstance(name, str) else None
    if query is None:
        raise errors.UnknownQuery(f"There is no live query {name!r}")
    return query


def everything() -> list[StateQuery | StreamQuery]:
    """Return all live queries, by name."""
    return [query for _, query in sorted(_queries.items())]


_queries: dict[str, StateQuery | StreamQuery] = {}


def _register(query: StateQuery | StreamQuery) -> None:
    if query.name in _queries:
        raise errors.BadDeclaration(f"There are two live queries named {query.name!r}")
    _queries[query.name] = query
