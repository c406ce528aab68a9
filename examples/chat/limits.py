"""How often people may write, and how many tokens all answers together may take."""

from datetime import timedelta

from django.conf import settings

from ratelimits.operations import TokenBucket, declare

_MINUTE = timedelta(minutes=1)
_TOKENS: float = settings.OF_APPS["JOBFARM_CHAT_TOKENS_PER_MINUTE"]

# By person, of guests by their session: three at once, then one every six seconds.
SEND = declare("chat/send", TokenBucket(10, _MINUTE, capacity=3))
# Of the language models, for everybody together. A question takes its estimate ahead of time, and starts when that
# has come in; who would have to wait for more than ten minutes is refused instead.
TOKENS = declare("chat completion tokens", TokenBucket(_TOKENS, _MINUTE, max_reserved=10 * _TOKENS))
