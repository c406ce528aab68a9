from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('ratelimits', '0002_limits_of_people'),
    ]

    operations = [
        sql_file('ratelimits', '0003_several_by_their_updates'),
    ]
