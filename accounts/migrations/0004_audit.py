"""The audit log: events of people beside Django's own log, whose sequence they share, and both as one list."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now

ONE_SEQUENCE = """
    ALTER TABLE accounts_auditevent ALTER COLUMN id DROP IDENTITY;
    ALTER TABLE accounts_auditevent ALTER COLUMN id SET DEFAULT nextval('django_admin_log_id_seq');
"""
LINES = """
    CREATE VIEW accounts_audit_line AS
    SELECT id, at, event::text, by_id, person_id::text AS object_id, about::text, address::text, detail,
           CASE WHEN person_id IS NOT NULL THEN
               (SELECT id FROM django_content_type WHERE app_label = 'auth' AND model = 'user')
           END AS content_type_id
    FROM accounts_auditevent
    UNION ALL
    SELECT id, action_time, CASE action_flag WHEN 1 THEN 'added' WHEN 2 THEN 'changed' ELSE 'deleted' END, user_id,
           object_id, object_repr::text, '', change_message, content_type_id
    FROM django_admin_log
"""


class Migration(migrations.Migration):
    dependencies = [
        ('accounts', '0003_cache'),
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('contenttypes', '0002_remove_content_type_name'),
    ]

    operations = [
        migrations.AddField(
            'apitoken', 'addresses',
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=60), db_default=[], editable=False
            ),
        ),
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=Now(), db_index=True, editable=False)),
                ('event', models.CharField(max_length=30)),
                ('about', models.CharField(max_length=200)),
                ('address', models.CharField(blank=True, max_length=60)),
                ('detail', models.TextField(blank=True)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={'verbose_name': 'event of people', 'verbose_name_plural': 'events of people'},
        ),
        migrations.CreateModel(
            name='AuditLine',
            fields=[
                ('id', models.IntegerField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('event', models.TextField()),
                ('object_id', models.TextField()),
                ('about', models.TextField()),
                ('address', models.TextField()),
                ('detail', models.TextField()),
            ],
            options={
                'verbose_name': 'audit log', 'verbose_name_plural': 'audit log', 'db_table': 'accounts_audit_line',
                'managed': False,
            },
        ),
        migrations.RunSQL(ONE_SEQUENCE, migrations.RunSQL.noop),
        migrations.RunSQL(LINES, "DROP VIEW accounts_audit_line"),
    ]
