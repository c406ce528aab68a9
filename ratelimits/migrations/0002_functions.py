"""The decision as functions of the database, and room on each page for HOT updates."""

from importlib import resources

from django.db import migrations

FUNCTIONS = resources.files("ratelimits").joinpath("sql", "functions_0001.sql").read_text(encoding="utf-8")

NO_FUNCTIONS = """
DROP FUNCTION ratelimits_take_sharded(ratelimits_request, bigint, float8, integer, integer);
DROP FUNCTION ratelimits_take(text, text, integer, integer, boolean, float8, float8, float8, float8, bigint, float8,
                              bigint, float8);
DROP FUNCTION ratelimits_take_all(ratelimits_request[], bigint, float8);
DROP FUNCTION ratelimits_lock(ratelimits_request, bigint, float8);
DROP FUNCTION ratelimits_look(ratelimits_request, bigint, float8);
DROP FUNCTION ratelimits_spread(ratelimits_request, float8[], bigint[], bigint);
DROP FUNCTION ratelimits_until(ratelimits_request, float8[], bigint[], bigint);
DROP FUNCTION ratelimits_wait(float8, bigint, bigint, boolean, float8, float8);
DROP FUNCTION ratelimits_first_moment(bigint, boolean, float8, bigint, float8);
DROP FUNCTION ratelimits_moment(bigint, bigint, boolean, float8);
DROP FUNCTION ratelimits_value(float8, bigint, bigint, boolean, float8, float8, float8);
DROP FUNCTION ratelimits_moved(bigint, bigint, float8);
DROP FUNCTION ratelimits_grown(float8, bigint, bigint, float8, float8, float8, float8);
DROP TYPE ratelimits_plan;
DROP TYPE ratelimits_request;
DROP TYPE ratelimits_config;
"""

# Every decision rewrites its row: half of each page stays free, so that the new version finds room beside the old one and
# no index is written. A hot key leaves a dead version per decision, so vacuum comes at 1,000 of them.
STORAGE = """
ALTER TABLE ratelimits_bucket SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
                                   autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
"""


class Migration(migrations.Migration):
    """See above."""

    dependencies = [("ratelimits", "0001_initial")]

    operations = [
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(FUNCTIONS, NO_FUNCTIONS),
    ]
