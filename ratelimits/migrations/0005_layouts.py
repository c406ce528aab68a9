"""The number of shards of a limit may change while it is used."""

from importlib import resources

from django.db import migrations

SQL = resources.files("ratelimits").joinpath("sql")
LAID_OUT = SQL.joinpath("functions_0005.sql").read_text(encoding="utf-8")


def _before(file: str, name: str) -> str:
    """A function as an earlier migration made it."""
    text = SQL.joinpath(file).read_text(encoding="utf-8")
    start = text.index(f"FUNCTION {name}(")
    return f"CREATE OR REPLACE {text[start : text.index('END $$;', start)]}END $$;"


BACK = f"""
{_before("functions_0001.sql", "ratelimits_look")}
{_before("functions_0004.sql", "ratelimits_lock")}
{_before("functions_0004.sql", "ratelimits_take")}
{_before("functions_0003.sql", "ratelimits_take_sharded")}
DROP FUNCTION ratelimits_give_back(ratelimits_request, bigint);
DROP FUNCTION ratelimits_lay_out(ratelimits_request, bigint);
DROP FUNCTION ratelimits_together(text, text, bigint);
DROP FUNCTION ratelimits_lies_otherwise(text, text, integer);
"""


class Migration(migrations.Migration):
    """See above."""

    dependencies = [("ratelimits", "0004_turns")]

    operations = [migrations.RunSQL(LAID_OUT, BACK)]
