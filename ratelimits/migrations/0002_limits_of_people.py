"""Named limits that people make."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ('ratelimits', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('name', models.CharField(db_collation='C', help_text='Letters, digits, spaces inside and _ . : / -', max_length=100, primary_key=True, serialize=False)),
                ('is_window', models.BooleanField(default=False, help_text='All tokens come in at once when a period ends; otherwise evenly.', verbose_name='fixed window')),
                ('rate', models.FloatField(help_text='Tokens that come in every period.')),
                ('period_s', models.FloatField(default=60, help_text='Seconds.', verbose_name='period')),
                ('capacity', models.FloatField(blank=True, help_text='The most tokens it ever holds. Empty: as many as the rate.', null=True)),
                ('max_reserved', models.FloatField(blank=True, help_text='How many tokens jobs that wait may take ahead of time. Empty: any number.', null=True, verbose_name='most reserved')),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                'verbose_name': 'named limit',
                'ordering': ['name'],
            },
        ),
    ]
