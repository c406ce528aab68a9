"""Which addresses the farm takes, and which it connects to."""

from ipaddress import ip_network

import pytest

from outbox.domain import addresses
from outbox.errors import BadUrl
from tests.looped import looped

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.192", "224.0.1.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255", "198.18.0.1", "192.0.2.7", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254",
    "fec0::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1",
    "64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "::ffff:0:127.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
    "2001::1", "2001:db8::1",
]  # fmt: skip
PUBLIC = [
    "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "169.253.1.1", "223.255.255.1",
    "2606:4700:4700::1111", "2a00:1450:4001:82b::200e", "::ffff:1.1.1.1", "64:ff9b::8.8.8.8", "2002:101:101::1",
]  # fmt: skip


@looped("address", PRIVATE)
def test_nothing_is_sent_to(address: str) -> None:
    assert addresses.is_refused(address, allowed=())


@looped("address", PUBLIC)
def test_something_may_be_sent_to(address: str) -> None:
    assert not addresses.is_refused(address, allowed=())


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"])
def test_a_network_that_the_operator_allows_is_sent_to_however_it_is_written(address: str) -> None:
    assert not addresses.is_refused(address, allowed=[ip_network("10.1.0.0/16")])
    assert addresses.is_refused(address, allowed=[ip_network("10.2.0.0/16"), ip_network("fd00::/8")])


@looped(
    ("url", "reason"),
    [
        ("ftp://example.org/", "begins with https"),
        ("file:///etc/passwd", "begins with https"),
        ("gopher://example.org:70/_", "begins with https"),
        ("//example.org/", "begins with https"),
        ("https:///path", "names no host"),
        ("https://user@example.org/", "names a user"),
        ("https://user:password@example.org/", "names a user"),
        ("https://example.org:99999/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("https://exa mple.org/", "characters"),
        ("https://example.org/\r\nx: y", "characters"),
        ("https://bücher.example/", "characters"),
        ("https://example.org/" + "x" * 2000, "more than 2000"),
    ],
)
def test_an_address_that_cannot_be_sent_to_says_why(url: str, reason: str) -> None:
    with pytest.raises(BadUrl, match=reason) as refusal:
        addresses.host_of(url)
    assert "password" not in refusal.value.message


def test_an_address_has_a_host() -> None:
    assert addresses.host_of("https://example.org/x") == "example.org"
    assert addresses.host_of("http://[2606:4700::1]:8080/") == "2606:4700::1"


@looped(
    ("host", "is_named"),
    [
        ("hooks.example.org", True), ("HOOKS.example.org.", True), ("other.example.org", False),
        ("a.internal.net", True), ("internal.net", False), ("evilinternal.net", False),
    ],
)  # fmt: skip
def test_a_list_of_hosts_names(host: str, *, is_named: bool) -> None:
    assert addresses.is_named_by(host, ["hooks.example.org", ".internal.net"]) is is_named
    assert addresses.is_named_by(host, ["*"])
    assert not addresses.is_named_by(host, [])
