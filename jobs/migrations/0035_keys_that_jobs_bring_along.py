from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_key_at_a_place")]
    operations = [sql_file("jobs", "0035_keys_that_jobs_bring_along")]
