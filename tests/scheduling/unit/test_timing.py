"""How pages show when a cron fires."""

from scheduling.templatetags.scheduling import timing
from tests.looped import looped


@looped(
    ("schedule", "shown"),
    [
        ("every 900 s", "every 15 min"), ("every 7200 s", "every 2 h"), ("every 90 s", "every 90 s"),
        ("every 0.5 s", "every 0.5 s"), ("every 1.2096e+06 s", "every 336 h"),
        ("0 6 * * * in Europe/Berlin", "0 6 * * * in Europe/Berlin"),
    ],
)  # fmt: skip
def test_has_the_largest_unit_without_a_fraction(schedule: str, shown: str) -> None:
    assert timing(schedule) == shown
