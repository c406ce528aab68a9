"""The DATABASES entry, from an environment that is given."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from postgres import configuration, embedded
from postgres.errors import InvalidDatabaseUrl
from tests.looped import looped

DATA = Path("/some/where/var")
OPTIONS = {
    "pool": {"min_size": 0, "max_size": 20, "timeout": 10.0},
    "connect_timeout": 5,
    # A server that is gone without a word is noticed, and not after the two hours that systems wait by themselves.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    "prepare_threshold": 5,
    "options": "-c jit=off -c plan_cache_mode=force_generic_plan",
}


def database(url: str | None, **how: Any) -> dict[str, Any]:
    return configuration.database(url, data=DATA, **how)


class TestAUrl:
    def test_is_read_whole(self) -> None:
        url = "postgresql://ann:p%40ss%2Fword@db.example:6432/the%20farm?sslmode=require&application_name=x"
        assert database(url) == {
            "ENGINE": "postgres.backend",
            "NAME": "the farm",
            "USER": "ann",
            "PASSWORD": "p@ss/word",
            "HOST": "db.example",
            "PORT": "6432",
            "OPTIONS": {**OPTIONS, "sslmode": "require", "application_name": "x"},
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": True,
            "DISABLE_SERVER_SIDE_CURSORS": False,
        }

    @looped(
        ("url", "expected"),
        [
            ("postgres://db/farm", ("db", "", "", "farm")),
            ("postgresql:///farm?host=/run/postgresql", ("/run/postgresql", "", "", "farm")),
            ("postgresql://ann@%2Frun%2Fpostgresql/farm", ("/run/postgresql", "", "ann", "farm")),
            ("postgresql://[::1]:6000/farm", ("::1", "6000", "", "farm")),
            ("postgresql://a:1,b:2/farm", ("a,b", "1,2", "", "farm")),
        ],
    )
    def test_may_name_its_server_in_every_way_of_libpq(self, url: str, expected: tuple[str, ...]) -> None:
        found = database(url)
        assert (found["HOST"], found["PORT"], found["USER"], found["NAME"]) == expected

    def test_of_several_hosts_means_the_one_that_writes_and_has_3_s_for_each(self) -> None:
        options = database("postgresql://db1,db2/farm")["OPTIONS"]
        assert (options["target_session_attrs"], options["connect_timeout"]) == ("read-write", 3)
        own = database("postgresql://db1,db2/farm?target_session_attrs=any&connect_timeout=9")["OPTIONS"]
        assert (own["target_session_attrs"], own["connect_timeout"]) == ("any", 9)

    def test_keeps_its_own_options_beside_ours(self) -> None:
        url = "postgresql://db/farm?options=-c%20search_path%3Dx&connect_timeout=9&tcp_user_timeout=0"
        options = database(url)["OPTIONS"]
        assert options["tcp_user_timeout"] == "0"
        assert options["options"] == f"{configuration.STARTUP_OPTIONS} -c search_path=x"
        assert options["connect_timeout"] == 9

    @looped(
        ("url", "reason"),
        [
            ("mysql://ann:s3cret@db/farm", "it does not begin with postgresql:// or postgres://"),
            ("postgresql://ann:s3cret@db", "it names no database"),
            ("postgresql://ann:s3cret@db/", "it names no database"),
            ("postgresql://ann:s3cret@half@db/farm", "there is an unencoded @ in it (write %40)"),
            ("postgresql://ann:s3cret@db/farm?colour=red", "PostgreSQL cannot read it"),
            ("postgresql://ann:s3cret%zz@db/farm", "PostgreSQL cannot read it"),
            ("postgresql://ann:s3cret@db/farm?connect_timeout=soon", "its connect_timeout is no number of seconds"),
        ],
    )
    def test_that_is_wrong_is_refused_without_being_repeated(self, url: str, reason: str) -> None:
        with pytest.raises(InvalidDatabaseUrl) as caught:
            database(url)
        assert isinstance(caught.value, ImproperlyConfigured)
        assert caught.value.reason == reason
        assert str(caught.value).startswith(f"DATABASE_URL is not usable: {reason}. Write it as postgresql://")
        assert "s3cret" not in str(caught.value)


class TestNoUrl:
    def test_means_the_embedded_server(self) -> None:
        assert (
            database(None)
            == database("")
            == {
                "ENGINE": "postgres.backend",
                "NAME": "jobfarm",
                "USER": "jobfarm",
                "PASSWORD": "",
                "HOST": str(embedded.location(DATA).socket_folder),
                "PORT": "5432",
                "EMBEDDED": str(DATA),
                "OPTIONS": OPTIONS,
                "CONN_MAX_AGE": 0,
                "CONN_HEALTH_CHECKS": True,
                "DISABLE_SERVER_SIDE_CURSORS": False,
            }
        )


class TestWhatASettingSays:
    def test_is_the_size_of_the_pool(self) -> None:
        assert database(None, pool_max=7)["OPTIONS"]["pool"]["max_size"] == 7

    def test_makes_peace_with_poolers(self) -> None:
        without = database(None, prepares=False, startup_options=False)
        assert without["OPTIONS"]["prepare_threshold"] is None
        assert "options" not in without["OPTIONS"]
        assert without["DISABLE_SERVER_SIDE_CURSORS"] is True
        assert database(None, direct_url="postgresql://db/farm")["DISABLE_SERVER_SIDE_CURSORS"] is True

    def test_is_where_the_socket_of_another_process_lies(self) -> None:
        entry = database(None, socket_folder="/run/theirs")
        assert (entry["HOST"], "EMBEDDED" in entry) == ("/run/theirs", False)
