"""What streams and outages make longer, by small runs of the benchmark: none copies what is there already."""

from benchmarks import growth
from tests.looped import looped


@looped("name", list(growth.MEMORY))
def test_ten_times_as_much_is_no_hundred_times_the_work(name: str) -> None:
    """The benchmark's mark is twelve; on a busy machine a test can tell ten from a hundred."""
    part, size = growth.MEMORY[name]
    small = min(part(size // 2).seconds for _ in range(3))
    assert min(part(10 * size // 2).seconds for _ in range(2)) < 40 * small


async def test_a_stream_whose_farm_is_away_arrives_whole() -> None:
    assert (await growth.streamed(20_000, away_s=0.2)).keys() == {growth.A_TOKEN, growth.BESIDE}
