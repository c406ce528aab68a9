from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0036_plain_farms_pay_less'),
    ]

    operations = [
        sql_file('jobs', '0037_what_it_may_take'),
        migrations.RunSQL(
            migrations.RunSQL.noop,
            functions_of('jobs', '0008_shares_and_keys', 'jobs_pick_fairly'),
        ),
    ]
