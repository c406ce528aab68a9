"""`{% load limits %}`: tokens, periods and gauges as the pages show them."""

from datetime import timedelta

from django import template
from django.urls import reverse
from django.utils.http import urlencode

from ratelimits.domain import Config, FixedWindow
from ratelimits.queries import Gauge

register = template.Library()

_SIZES = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


@register.filter
def tokens(number: float) -> str:
    """A number of tokens: "7", "0.25", "-3"; whole from a hundred on."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@register.filter
def period(milliseconds: float) -> str:
    """A period in words: "minute", "5 minutes", "1.5 seconds", "200 ms"."""
    seconds = milliseconds / 1000
    for size, word in _SIZES:
        if seconds >= size and seconds % size == 0:
            n = int(seconds // size)
            return word if n == 1 else f"{n:,} {word}s"
    return f"{milliseconds:g} ms" if seconds < 1 else f"{seconds:g} seconds"


@register.filter
def described(config: Config) -> str:
    """A configuration in words: "10 every hour, at most 20 (fixed window)"."""
    kind = "fixed window" if isinstance(config, FixedWindow) else "token bucket"
    most = "" if config.capacity is None else f", at most {tokens(config.capacity)}"
    shards = "" if config.shards == 1 else f", {config.shards} shards"
    return f"{tokens(config.rate)} every {period(config.period / timedelta(milliseconds=1))}{most} ({kind}{shards})"


@register.filter
def mood(gauge: Gauge) -> str:
    """The class of the bar: "bad" when nothing is left."""
    return "bad" if gauge.value < min(1.0, gauge.most) else ""


@register.filter
def address(gauge: Gauge) -> str:
    return f"{reverse('ratelimits:one')}?{urlencode({'name': gauge.name, 'key': gauge.key})}"
