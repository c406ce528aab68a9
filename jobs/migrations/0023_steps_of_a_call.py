from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0022_ready_is_not_charged'),
    ]

    operations = [
        sql_file('jobs', '0023_steps_of_a_call'),
    ]
