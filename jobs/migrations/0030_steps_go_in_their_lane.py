from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0029_redacted_content'),
    ]

    operations = [
        sql_file('jobs', '0030_steps_go_in_their_lane'),
        migrations.RunSQL(
            migrations.RunSQL.noop,
            functions_of('jobs', '0008_shares_and_keys', 'jobs_keep_lane')
            + functions_of('jobs', '0015_flows_go_on', 'jobs_let_go')
            + functions_of('jobs', '0023_steps_of_a_call', 'jobs_close_edges'),
        ),
    ]
