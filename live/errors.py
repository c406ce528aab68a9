"""What live queries refuse, and why."""

from core.refusal import Refusal


class LiveError(Refusal):
    """Live queries cannot do this."""

    code = "live"


class BadTopic(LiveError, ValueError):
    """A topic is a text of 1 to 1,000 characters that does not end with an asterisk."""

    code = "bad_topic"


class BadDeclaration(LiveError, ValueError):
    """A live query is declared in a way that cannot work."""

    code = "bad_declaration"


class UnknownQuery(LiveError, LookupError):
    """There is no live query of this name."""

    code = "unknown_query"


class BadArguments(LiveError, ValueError):
    """The arguments do not fit the live query."""

    code = "bad_arguments"


class TooManyWatches(LiveError):
    """One socket may watch at most 200 live queries."""

    code = "too_many_watches"


class BadMessage(LiveError, ValueError):
    """The message is not one that a page sends."""

    code = "bad_message"


class TooFast(LiveError):
    """The page asks for more than one page can show."""

    code = "too_fast"


class QueryFailed(LiveError):
    """This live query does not work; the server's log says why."""

    code = "query_failed"
