from django.db import migrations

from postgres.schema import functions_of, sql_file


class Migration(migrations.Migration):

    is_safe_because = 'what looks like statements on tables in use are bodies of functions'

    dependencies = [
        ('jobs', '0020_signals_by_key'),
    ]

    operations = [
        migrations.RunSQL(
            migrations.RunSQL.noop,
            functions_of('jobs', '0015_flows_go_on', 'jobs_close_edges', 'jobs_after_ends')
            + 'CREATE TRIGGER a_flow_goes_on_after_its_job AFTER DELETE ON jobs_live FOR EACH ROW'
            ' WHEN (OLD.in_flow) EXECUTE FUNCTION jobs_close_edges();',
        ),
        sql_file('jobs', '0021_ends_close_edges'),
    ]
