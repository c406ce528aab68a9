"""A decision that never comes ends with an error, after a hundred turns."""

from importlib import resources

from django.db import migrations

SQL = resources.files("ratelimits").joinpath("sql")
BOUNDED = SQL.joinpath("functions_0004.sql").read_text(encoding="utf-8")
# The two functions as migration 0002 made them, each up to the caption of the next.
BEFORE = SQL.joinpath("functions_0001.sql").read_text(encoding="utf-8")


def _before(name: str, end: str) -> str:
    start = BEFORE.index(f"CREATE FUNCTION {name}(")
    return BEFORE[start : BEFORE.index(end, start)].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)


BACK = f"""
{_before("ratelimits_lock", "-- Several limits")}
{_before("ratelimits_take", "-- A limit with shards")}
DROP FUNCTION ratelimits_no_decision(text);
"""


class Migration(migrations.Migration):
    """See above."""

    dependencies = [("ratelimits", "0003_free_shards")]

    operations = [migrations.RunSQL(BOUNDED, BACK)]
