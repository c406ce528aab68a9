from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0024_parts'),
    ]

    operations = [
        sql_file('jobs', '0025_open_at_once'),
        migrations.RunSQL(migrations.RunSQL.noop, functions_of('jobs', '0008_shares_and_keys', 'jobs_open')),
    ]
