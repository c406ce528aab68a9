"""Which of several hosts is tried first."""

import pytest

from postgres import configuration
from postgres.configuration import avoid_host, each_host, hosts_ordered, remember_host


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_last_host", {})
    monkeypatch.setattr(configuration, "_frozen_hosts", set())


def test_the_url_has_its_order_until_one_took_writes() -> None:
    assert hosts_ordered({"host": "a,b", "port": "1,2", "user": "u"}) == {"host": "a,b", "port": "1,2", "user": "u"}


def test_the_one_that_took_writes_comes_first_and_the_others_keep_their_order() -> None:
    remember_host("a,b,c", host="b", port=2)
    assert hosts_ordered({"host": "a,b,c", "port": "1,2,3"}) == {"host": "b,a,c", "port": "2,1,3"}


def test_one_port_holds_for_all_and_5432_for_none() -> None:
    remember_host("a,b", host="b", port=5432)
    for port in ("", "5432", ","):
        assert hosts_ordered({"host": "a,b", "port": port}) == {"host": "b,a", "port": "5432,5432"}


def test_one_that_the_url_does_not_name_changes_nothing() -> None:
    remember_host("a,b", host="c", port=5432)
    assert hosts_ordered({"host": "a,b", "port": ""}) == {"host": "a,b", "port": ""}
    assert hosts_ordered({"dbname": "farm"}) == {"dbname": "farm"}


def test_addresses_beside_names_keep_their_order() -> None:
    remember_host("a,b", host="b", port=5432)
    parameters = {"host": "a,b", "hostaddr": "10.0.0.1,10.0.0.2"}
    assert hosts_ordered(parameters) == parameters
    assert each_host(parameters) == [parameters]


def test_each_host_has_its_own_port() -> None:
    assert each_host({"host": "a,b", "port": "1,2"}) == [{"host": "a", "port": "1"}, {"host": "b", "port": "2"}]
    assert each_host({"dbname": "farm"}) == [{"dbname": "farm"}]


def test_a_frozen_one_is_tried_last_until_it_takes_a_connection() -> None:
    remember_host("a,b,c", host="a", port=1)
    avoid_host(host="a", port=1)
    assert hosts_ordered({"host": "a,b,c", "port": "1,2,3"})["host"] == "b,c,a"
    remember_host("a,b,c", host="a", port=1)
    assert hosts_ordered({"host": "a,b,c", "port": "1,2,3"})["host"] == "a,b,c"
    assert hosts_ordered({"host": "a", "port": "1"}) == {"host": "a", "port": "1"}
