from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0037_what_it_may_take'),
    ]

    operations = [
        sql_file('jobs', '0038_rows_that_can_be_read'),
    ]
