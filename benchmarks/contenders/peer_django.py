"""A small Django for the peers that need one."""

import os

import django
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict


def set_up(*apps: str, **more: object) -> None:
    """Django with these apps on the database of the benchmark."""
    if settings.configured:  # a worker imports the script once more, by the name of its module
        return
    given = conninfo_to_dict(os.environ["BENCH_CONNINFO"])
    names = {"NAME": "dbname", "USER": "user", "HOST": "host", "PORT": "port", "PASSWORD": "password"}
    place = {key: str(given.get(name) or "") for key, name in names.items()}
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", *apps],
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **place, "CONN_MAX_AGE": None}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        SECRET_KEY="of a benchmark",  # noqa: S106
        **more,
    )
    django.setup()
