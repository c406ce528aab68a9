"""A line of the audit log that is kept of somebody who was deleted says what it is about, as Django's own did."""

import django.db.models.deletion
from django.db import migrations, models

LINES = """
    CREATE OR REPLACE VIEW accounts_audit_line AS
    SELECT id, at, event::text, by_id, {object_id} AS object_id, about::text, address::text, detail,
           {content_type_id} AS content_type_id
    FROM accounts_auditevent
    UNION ALL
    SELECT id, action_time, CASE action_flag WHEN 1 THEN 'added' WHEN 2 THEN 'changed' ELSE 'deleted' END, user_id,
           object_id, object_repr::text, '', change_message, content_type_id
    FROM django_admin_log
"""
PERSON = """
    CASE WHEN person_id IS NOT NULL THEN
        (SELECT id FROM django_content_type WHERE app_label = 'auth' AND model = 'user')
    END
"""
AFTER = LINES.format(
    object_id='coalesce(object_id, person_id::text)', content_type_id=f'coalesce(content_type_id, {PERSON})'
)
BEFORE = LINES.format(object_id='person_id::text', content_type_id=PERSON)


class Migration(migrations.Migration):
    dependencies = [
        ('accounts', '0005_content_that_is_not_kept'),
        ('contenttypes', '0002_remove_content_type_name'),
    ]

    operations = [
        migrations.AddField(
            'auditevent', 'content_type',
            models.ForeignKey(db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='contenttypes.contenttype'),
        ),
        migrations.AddField('auditevent', 'object_id', models.TextField(editable=False, null=True)),
        migrations.RunSQL(AFTER, BEFORE),
    ]
