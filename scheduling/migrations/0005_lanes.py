"""The lanes of the queue, for all who read it by them."""

from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('scheduling', '0004_cron_pause_reason'),
    ]

    operations = [
        sql_file('scheduling', '0005_lanes'),
    ]
