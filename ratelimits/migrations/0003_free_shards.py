"""A hot key with shards goes around rows that others have locked."""

from importlib import resources

from django.db import migrations

SQL = resources.files("ratelimits").joinpath("sql")
ANEW = SQL.joinpath("functions_0003.sql").read_text(encoding="utf-8")
# The function as migration 0002 made it is the last one of its file.
BEFORE = SQL.joinpath("functions_0001.sql").read_text(encoding="utf-8")
BACK = f"""
DROP FUNCTION ratelimits_take_sharded(text, text, ratelimits_config, float8, bigint, integer, integer,
                                      float8);
{BEFORE[BEFORE.index("CREATE FUNCTION ratelimits_take_sharded") :]}
"""


class Migration(migrations.Migration):
    """See above."""

    dependencies = [("ratelimits", "0002_functions")]

    operations = [migrations.RunSQL(ANEW, BACK)]
