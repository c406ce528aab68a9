"""Values as people write them."""

from core.values import duration
from tests.looped import looped


class TestADuration:
    @looped(
        ("seconds", "text"),
        [
            (0, "0 s"), (0.4, "1 s"), (59.6, "60 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"),
            (7500, "2 h 5 min"), (2 * 86400 - 1, "47 h 59 min"), (2 * 86400, "2 days"), (10**7, "115 days"),
            (float("inf"), "∞"), (float("nan"), "∞"),
        ],
    )  # fmt: skip
    def test_is_said_as_people_say_it(self, seconds: float, text: str) -> None:
        assert duration(seconds) == text
