from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0030_steps_go_in_their_lane'),
    ]

    operations = [
        sql_file('jobs', '0031_steps_after_as_a_value'),
    ]
