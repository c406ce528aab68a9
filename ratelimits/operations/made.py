"""Named limits that people make: rows, which each process reads again after some seconds (docs/adr/0014)."""

from datetime import timedelta
from typing import Final

from django.db import transaction

import live.operations as live
from core.recent import Recent
from ratelimits import limits
from ratelimits.domain import Config, FixedWindow, TokenBucket
from ratelimits.errors import DeclaredLimit, InvalidConfig
from ratelimits.models import Limit

TOPIC: Final = "limits"  # what the live page of limits watches
FRESH_S: Final = 5.0  # within which a change counts in every process

_read: Recent[Config] = Recent(for_s=FRESH_S)


def make(name: str, config: Config) -> None:
    """Keep a limit as a row, or change the one of that name; it counts everywhere within FRESH_S. Raises InvalidName,
    DeclaredLimit for one that code declares, InvalidConfig for what a row cannot hold."""
    check_new(name)
    if config.shards != 1 or getattr(config, "start", None) is not None:
        raise InvalidConfig(field="shards or start", why="only for code to choose")
    with transaction.atomic():
        numbers = {
            "is_window": isinstance(config, FixedWindow), "rate": config.rate, "capacity": config.capacity,
            "period_s": config.period.total_seconds(), "max_reserved": config.max_reserved,
        }  # fmt: skip
        Limit.objects.update_or_create(name=name, defaults=numbers)
        transaction.on_commit(_read.clear)
        live.touch(TOPIC)


def check_new(name: str) -> None:
    """Whether a person may call a limit so. Raises InvalidName, DeclaredLimit."""
    if limits.checked(name) in limits.everything():
        raise DeclaredLimit(name=name)


def find(name: str) -> Config | None:
    """The limit of this name that a person made; None if there is none."""
    if (config := _read.get(name)) is not None:
        return config
    row = Limit.objects.filter(pk=name).first()
    return None if row is None else _kept(row)


def everything() -> dict[str, Config]:
    """All named limits that can be asked, by name: those of code, and those that people made."""
    return dict(sorted((_read_all()[0] | limits.everything()).items()))


def broken() -> dict[str, str]:
    """The limits that people made whose row is no limit, by name, with the reason. Who asks one is refused with it; the
    others go on."""
    return _read_all()[1]


def _read_all() -> tuple[dict[str, Config], dict[str, str]]:
    made, broken = {}, {}
    for row in Limit.objects.order_by("pk"):
        try:
            made[row.name] = _kept(row)
        except InvalidConfig as refusal:
            broken[row.name] = refusal.message
    return made, broken


def config_from(
    *, is_window: bool, rate: float, period_s: float, capacity: float | None, max_reserved: float | None
) -> Config:
    """The configuration that these numbers say. Raises InvalidConfig."""
    try:
        period = timedelta(seconds=period_s)
    except (OverflowError, ValueError):
        raise InvalidConfig(field="period", why=f"not a number of seconds: {period_s!r}") from None
    kind = FixedWindow if is_window else TokenBucket
    return kind(rate=rate, period=period, capacity=capacity, max_reserved=max_reserved)


def _kept(row: Limit) -> Config:
    numbers = ("is_window", "rate", "period_s", "capacity", "max_reserved")
    config = config_from(**{name: getattr(row, name) for name in numbers})
    _read.keep(row.name, config)
    return config
