"""The table of Django's cache (`createcachetable` makes the same)."""

from django.db import migrations

TABLE = """
    CREATE TABLE jobfarm_cache (
        cache_key varchar(255) PRIMARY KEY, value text NOT NULL, expires timestamp with time zone NOT NULL
    );
    CREATE INDEX jobfarm_cache_expires ON jobfarm_cache (expires);
"""


class Migration(migrations.Migration):
    dependencies = [('accounts', '0002_email_addresses')]

    operations = [migrations.RunSQL(TABLE, "DROP TABLE jobfarm_cache")]
