from core.refusal import Refusal


class LiveError(Refusal, code="live"):
    """Live queries cannot do this."""


class BadTopic(LiveError, ValueError, code="bad_topic"):
    """A topic is a text of 1 to 1,000 characters that does not end with an asterisk."""


class BadDeclaration(LiveError, ValueError, code="bad_declaration"):
    """A live query is declared in a way that cannot work."""


class UnknownQuery(LiveError, LookupError, code="unknown_query"):
    """There is no live query of this name."""


class BadArguments(LiveError, ValueError, code="bad_arguments"):
    """The arguments do not fit the live query."""


class TooManyWatches(LiveError, code="too_many_watches"):
    """One socket may watch at most 200 live queries."""


class BadMessage(LiveError, ValueError, code="bad_message"):
    """The message is not one that a page sends."""


class TooFast(LiveError, code="too_fast"):
    """The page asks for more than one page can show."""


class QueryFailed(LiveError, code="query_failed"):
    """This live query does not work; the server's log says why."""
