"""Where a socket comes from."""

from live.addresses import network_of
from tests.looped import looped


@looped(
    ("client", "network"),
    [
        (("192.0.2.7", 5), "192.0.2.7"),
        (("::ffff:192.0.2.7", 5), "192.0.2.7"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::/64"),
        (("no address", 0), None),
        (None, None),
    ],
)
def test_is_an_address_or_a_network_of_one_customer(client: tuple[str, int] | None, network: str | None) -> None:
    assert network_of({"client": client}) == network
