from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0025_open_at_once'),
    ]

    operations = [
        sql_file('jobs', '0026_marks_of_a_member'),
    ]
