"""How many files a farm's processes may have open, whatever limits the system gave it."""

import resource
from collections.abc import Callable

import pytest

from jobfarm import server
from live import configuration
from postgres import descriptors

ENDLESS = resource.RLIM_INFINITY
MOST = descriptors.MOST


class Limits:
    """The system's limits of this process, in memory: raising those of the tests' own would outlast the test."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)

    def get(self, _which: int) -> tuple[int, int]:
        return self.now

    def set(self, _which: int, limits: tuple[int, int]) -> None:
        """As the system does: nothing over the hard limit, which stays."""
        (soft, hard), most = limits, self.now[1]
        if hard != most or (most != ENDLESS and not 0 <= soft <= most):
            raise ValueError("not allowed to raise maximum limit")
        self.now = limits


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], Limits]:
    def set_to(soft: int, hard: int) -> Limits:
        made = Limits(soft, hard)
        monkeypatch.setattr(resource, "getrlimit", made.get)
        monkeypatch.setattr(resource, "setrlimit", made.set)
        return made

    return set_to


@pytest.mark.parametrize(
    ("limits", "soft"),
    [
        ((256, 4_096), 4_096),
        ((256, MOST * 2), MOST),
        ((256, ENDLESS), MOST),
        ((MOST * 2, MOST * 4), MOST * 2),
        ((ENDLESS, ENDLESS), ENDLESS),
    ],
    ids=["up to the hard one", "no more than needed", "endless hard one", "never lowered", "endless"],
)
def test_are_as_many_as_the_system_allows(
    allowed: Callable[[int, int], Limits], limits: tuple[int, int], soft: int
) -> None:
    of_the_system = allowed(*limits)
    assert descriptors.most() == soft
    assert descriptors.allow_many() == soft
    assert of_the_system.now == (soft, limits[1])


def test_a_web_process_raises_its_own_and_says_when_that_is_too_few(
    allowed: Callable[[int, int], Limits], caplog: pytest.LogCaptureFixture
) -> None:
    for hard, lines in ((20_000, 0), (4_096, 1)):
        of_the_system = allowed(1_024, hard)
        assert configuration.sockets() == min(5_000, hard // 2)
        server._allow_files()
        assert of_the_system.now == (hard, hard)
        assert len(caplog.messages) == lines
    assert "may open 4096 files" in caplog.text
    assert "Let the system allow 10000" in caplog.text
