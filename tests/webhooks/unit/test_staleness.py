"""The key of a state: texts that sort as the states do."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given, strategies as st

from tests.looped import looped
from webhooks.domain.parts import KEY_LENGTH, LARGEST_OF_KEY, Version, digest, state_key

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.just(UTC))
versions = st.builds(
    Version, at=moments, number=st.integers(0, LARGEST_OF_KEY), rank=st.integers(0, 9), is_fallback=st.booleans()
)
columns = st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(), st.none(), moments))


class TestKey:
    @given(one=versions, other=versions, what=columns)
    def test_sorts_as_firmness_moment_number_and_rank_do(
        self, one: Version, other: Version, what: dict[str, object]
    ) -> None:
        def state_of(version: Version) -> tuple[object, ...]:
            return not version.is_fallback, version.at, version.number, version.rank

        assert (state_key(one, what) < state_key(other, what)) == (state_of(one) < state_of(other))

    @given(version=versions, one=columns, other=columns)
    def test_is_the_same_only_for_the_same_columns(
        self, version: Version, one: dict[str, object], other: dict[str, object]
    ) -> None:
        assert (state_key(version, one) == state_key(version, other)) == (digest(one) == digest(other))
        assert one != other or state_key(version, one) == state_key(version, other)

    @given(one=moments, other=moments)
    def test_turns_around_where_the_first_wins(self, one: datetime, other: datetime) -> None:
        keys = [state_key(Version(at=at, first_wins=True), {}) for at in (one, other)]
        assert (keys[0] > keys[1]) == (one < other)

    @given(
        at=st.datetimes(timezones=st.just(UTC)),
        number=st.integers(),
        rank=st.integers(),
        is_fallback=st.booleans(),
        first_wins=st.booleans(),
    )
    def test_has_one_length_whatever_a_sender_says(
        self, at: datetime, number: int, rank: int, is_fallback: bool, first_wins: bool
    ) -> None:
        version = Version(at=at, number=number, rank=rank, is_fallback=is_fallback, first_wins=first_wins)
        text = state_key(version, {"a": 1})
        assert len(text) == KEY_LENGTH
        assert text.isascii()

    def test_puts_a_newer_fallback_below_an_older_state(self) -> None:
        fallback = Version(at=NOON + timedelta(days=1), is_fallback=True)
        assert state_key(fallback, {}) < state_key(Version(at=NOON), {})


class TestDigest:
    def test_knows_an_instant_in_every_zone(self) -> None:
        there = NOON.astimezone(timezone(timedelta(hours=-7)))
        assert digest({"at": there}) == digest({"at": NOON})

    def test_does_not_look_at_the_order_of_columns(self) -> None:
        assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})

    @looped("other", [{"a": "1"}, {"a": None}, {"b": 1}, {"a": 1, "b": None}, {"a": [1]}, {"a": timedelta(1)}])
    def test_tells_columns_apart(self, other: dict[str, object]) -> None:
        assert digest(other) != digest({"a": 1})
