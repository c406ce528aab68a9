import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

from postgres.schema import sql_file


class Migration(migrations.Migration):

    is_safe_because = 'what looks like statements on tables in use are bodies of functions'

    dependencies = [
        ('jobs', '0004_bulks_begin'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='replaced_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='When a newer submit of its unique_key replaced its payload.', null=True),
        ),
        migrations.AddField(
            model_name='idempotencykey',
            name='replaced',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), help_text='Places of the entries that replaced a job that waited.', null=True, size=None),
        ),
        migrations.AddField(
            model_name='uniquekey',
            name='follower',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='It waits behind, and has the key next.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.job'),
        ),
        migrations.AddField(
            model_name='uniquekey',
            name='follower_due_at',
            field=models.DateTimeField(blank=True, help_text='Not before this moment, even then.', null=True),
        ),
        sql_file('jobs', '0005_followers'),
    ]
