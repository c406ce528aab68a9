"""What workers report about themselves, since when each is there, and whether it is drained. No row is rewritten."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ('jobs', '0002_saved_filters'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='worker',
            name='connected_at',
            field=models.DateTimeField(editable=False, help_text='Since when it is there without a gap of WORKER_ALIVE_S.', null=True),
        ),
        migrations.AddField(
            model_name='worker',
            name='drained_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='While drained, it claims nothing.', null=True),
        ),
        migrations.AddField(
            model_name='worker',
            name='drained_by',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='WorkerFacts',
            fields=[
                ('worker', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='facts', serialize=False, to='jobs.worker')),
                ('version', models.CharField(max_length=100)),
                ('host', models.CharField(max_length=255)),
                ('platform', models.CharField(max_length=200)),
                ('handlers', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), help_text='The kinds that it has a handler for.', size=None)),
                ('concurrency', models.IntegerField(help_text='How many jobs it runs at a time.', null=True)),
                ('cpus', models.IntegerField(null=True)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('gpus', models.JSONField(default=list, help_text='Of each its name and, if known, its memory in bytes.')),
                ('reported_at', models.DateTimeField(db_default=Now(), help_text='When it last reported something new.')),
            ],
        ),
    ]
