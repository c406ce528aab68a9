"""How many files a farm's processes may have open, whatever limits the system gave it."""

import resource

import pytest

from jobfarm import processes

ENDLESS = resource.RLIM_INFINITY
MOST = processes.MOST_FILES


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
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], soft: int
) -> None:
    of_the_system = Limits(*limits)
    monkeypatch.setattr(resource, "getrlimit", of_the_system.get)
    monkeypatch.setattr(resource, "setrlimit", of_the_system.set)
    assert processes.allow_many_files() == soft
    assert of_the_system.now == (soft, limits[1])
