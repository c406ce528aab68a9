from django.db import migrations

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0033_cache_of_prompts'),
    ]

    operations = [
        sql_file('jobs', '0034_key_at_a_place'),
    ]
