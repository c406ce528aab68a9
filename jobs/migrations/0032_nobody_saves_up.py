from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0031_steps_after_as_a_value'),
    ]

    operations = [
        sql_file('jobs', '0032_nobody_saves_up'),
    ]
