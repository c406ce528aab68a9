from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):

    is_safe_because = 'what looks like statements on tables in use are bodies of functions'

    dependencies = [
        ('jobs', '0014_index_of_held_lanes'),
    ]

    operations = [
        migrations.RunSQL(migrations.RunSQL.noop, functions_of('jobs', '0010_flows', 'jobs_close_edges')),
        sql_file('jobs', '0015_flows_go_on'),
    ]
