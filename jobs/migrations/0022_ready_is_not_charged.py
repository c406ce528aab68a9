from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    is_safe_because = 'a trigger is replaced: that waits for who writes to the table, and moves no row'

    dependencies = [
        ('jobs', '0021_ends_close_edges'),
    ]

    operations = [
        sql_file('jobs', '0022_ready_is_not_charged'),
    ]
