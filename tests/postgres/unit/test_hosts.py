"""Which of several hosts is tried first."""

import pytest

from postgres import hosts


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_last", {})
    monkeypatch.setattr(hosts, "_frozen", set())


def test_the_url_has_its_order_until_one_took_writes() -> None:
    assert hosts.ordered({"host": "a,b", "port": "1,2", "user": "u"}) == {"host": "a,b", "port": "1,2", "user": "u"}


def test_the_one_that_took_writes_comes_first_and_the_others_keep_their_order() -> None:
    hosts.remember("a,b,c", host="b", port=2)
    assert hosts.ordered({"host": "a,b,c", "port": "1,2,3"}) == {"host": "b,a,c", "port": "2,1,3"}


def test_one_port_holds_for_all_and_5432_for_none() -> None:
    hosts.remember("a,b", host="b", port=5432)
    for port in ("", "5432", ","):
        assert hosts.ordered({"host": "a,b", "port": port}) == {"host": "b,a", "port": "5432,5432"}


def test_one_that_the_url_does_not_name_changes_nothing() -> None:
    hosts.remember("a,b", host="c", port=5432)
    assert hosts.ordered({"host": "a,b", "port": ""}) == {"host": "a,b", "port": ""}
    assert hosts.ordered({"dbname": "farm"}) == {"dbname": "farm"}


def test_addresses_beside_names_keep_their_order() -> None:
    hosts.remember("a,b", host="b", port=5432)
    parameters = {"host": "a,b", "hostaddr": "10.0.0.1,10.0.0.2"}
    assert hosts.ordered(parameters) == parameters
    assert hosts.each(parameters) == [parameters]


def test_each_host_has_its_own_port() -> None:
    assert hosts.each({"host": "a,b", "port": "1,2"}) == [{"host": "a", "port": "1"}, {"host": "b", "port": "2"}]
    assert hosts.each({"dbname": "farm"}) == [{"dbname": "farm"}]


def test_a_frozen_one_is_tried_last_until_it_takes_a_connection() -> None:
    hosts.remember("a,b,c", host="a", port=1)
    hosts.avoid(host="a", port=1)
    assert hosts.ordered({"host": "a,b,c", "port": "1,2,3"})["host"] == "b,c,a"
    hosts.remember("a,b,c", host="a", port=1)
    assert hosts.ordered({"host": "a,b,c", "port": "1,2,3"})["host"] == "a,b,c"
    assert hosts.ordered({"host": "a", "port": "1"}) == {"host": "a", "port": "1"}
