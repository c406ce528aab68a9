from django.db import migrations

# What no call writes, and SQL may: values by which a claim of all, a hand-in of several or a list failed for everybody.
# Short, for each is read from its text in each statement (docs/adr/0037). What records and lanes hold already is not looked
# at (NOT VALID): no large table is read for it, and no migration fails.
CHECKS = (
    # A claim number follows, as the text of a lease holds it, and so do an attempt and the output of several.
    ("jobs_live", "a_job_can_be_claimed_again", """
        greatest(fence, output_bytes, earlier_output_bytes) < 999999999999999999
        AND least(fence, output_bytes, earlier_output_bytes, worker_id) >= 0 AND failures < 32767"""),
    ("jobs_job", "a_record_can_be_shown", """
        queue <> '' AND flow_id >= 0 AND timeout_s < 1e9 AND array_position(tags, NULL) IS NULL
        AND NOT inputs @? 'strict $ ? (@.type() != "array" || exists (@[*] ? ((exists (@.name)) is unknown)))'"""),
    ("jobs_lane", "who_avoids_a_lane_is_known", "array_position(avoid, NULL) IS NULL"),
)

# Among the living such a row would now make each claim fail that takes it, whatever it holds and whoever else waits.
MENDED = f"""
    UPDATE jobs_live
    SET fence = greatest(least(fence, 99999999999999999), 0), failures = least(failures, 32766),
        confirmed_fence = greatest(least(confirmed_fence, 99999999999999999), 0),
        output_bytes = greatest(least(output_bytes, 99999999999999999), 0),
        earlier_output_bytes = greatest(least(earlier_output_bytes, 99999999999999999), 0),
        worker_id = CASE WHEN worker_id < 0 THEN 0 ELSE worker_id END
    WHERE NOT ({CHECKS[0][2]})"""


def _checked(table: str, name: str, condition: str) -> migrations.RunSQL:
    """It may be run again: where a later table was in use, the earlier ones have theirs."""
    dropped = f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}"
    return migrations.RunSQL(f"{dropped}, ADD CONSTRAINT {name} CHECK ({condition}) NOT VALID", dropped)


class Migration(migrations.Migration):

    atomic = False  # one table at a time: submits lock them in one order and claims in the other

    dependencies = [
        ('jobs', '0037_what_it_may_take'),
    ]

    is_safe_because = "the living are few, and of them it changes those that no call writes"

    operations = [migrations.RunSQL(MENDED, migrations.RunSQL.noop), *[_checked(*check) for check in CHECKS]]
