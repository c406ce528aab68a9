"""The state of each limit, and the decision as functions of the database (docs/adr/0014)."""

from django.db import migrations, models

from postgres.schema import sql_file


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name='Bucket',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(db_collation='C', editable=False, max_length=100)),
                ('key', models.CharField(db_collation='C', editable=False, help_text='Empty: one state is shared by all.', max_length=300)),
                ('shard', models.SmallIntegerField(editable=False)),
                ('shards', models.SmallIntegerField(editable=False)),
                ('is_window', models.BooleanField(editable=False, verbose_name='fixed window')),
                ('rate', models.FloatField(editable=False, help_text='Tokens added per period.')),
                ('period_ms', models.FloatField(editable=False, help_text='Milliseconds.', verbose_name='period')),
                ('most', models.FloatField(editable=False, help_text='The most tokens it can hold.', verbose_name='capacity')),
                ('value', models.FloatField(editable=False, help_text='Tokens at the moment `ts`; below 0: reserved ahead of time.')),
                ('ts', models.BigIntegerField(editable=False, help_text='Milliseconds since the Unix epoch.')),
                ('used', models.FloatField(editable=False, help_text='Tokens taken since the row was created.')),
            ],
            options={
                'verbose_name': 'limit',
                'ordering': ['name', 'key', 'shard'],
                'constraints': [
                    models.UniqueConstraint(fields=('name', 'key', 'shard'), name='one_state_per_name_key_and_shard'),
                ],
            },
        ),
        sql_file('ratelimits', '0001_functions'),
    ]
