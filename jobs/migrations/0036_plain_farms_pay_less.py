from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):

    is_safe_because = 'triggers are replaced: that waits for who writes to the table, and moves no row'

    dependencies = [
        ('jobs', '0035_keys_that_jobs_bring_along'),
    ]

    operations = [
        sql_file('jobs', '0036_plain_farms_pay_less'),
        migrations.RunSQL(
            migrations.RunSQL.noop,
            '\n'.join([
                functions_of('jobs', '0001_guards', 'jobs_keep_live'),
                functions_of('jobs', '0001_usage', 'jobs_charge_output'),
                functions_of('jobs', '0005_followers', 'jobs_free_key'),
            ]),
        ),
    ]
