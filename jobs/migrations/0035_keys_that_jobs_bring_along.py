from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_key_at_a_place")]
    operations = [
        sql_file("jobs", "0035_keys_that_jobs_bring_along"),
        migrations.RunSQL(migrations.RunSQL.noop, functions_of("jobs", "0008_shares_and_keys", "jobs_key_in")),
    ]
