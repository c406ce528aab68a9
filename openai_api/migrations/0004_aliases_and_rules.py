"""Aliases, rules of calls, and calls that go to another model in time. New tables: no row is rewritten."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0004_audit'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('openai_api', '0003_left_calls'),
    ]

    operations = [
        migrations.CreateModel(
            name='Fallback',
            fields=[
                ('job_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('steps', models.JSONField()),
                ('due_at', models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='Alias',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='As callers write it. Of rows with one name each is a model that may answer.', max_length=200)),
                ('model', models.CharField(help_text='As a worker announces it.', max_length=200)),
                ('after_s', models.FloatField(default=0, help_text='Seconds that a call waits before it comes here; 0: at once.', validators=[django.core.validators.MinValueValidator(0)], verbose_name='after')),
                ('is_only_way', models.BooleanField(default=False, help_text='The model is not listed, and cannot be called by its own name: of a provider who costs money.', verbose_name='by alias alone')),
            ],
            options={
                'verbose_name_plural': 'aliases',
                'ordering': ['name', 'after_s'],
                'constraints': [models.UniqueConstraint(fields=('name', 'after_s'), name='one_model_of_an_alias_comes_at_a_time', violation_error_message='There is a model for this moment already.')],
            },
        ),
        migrations.CreateModel(
            name='CallRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('names', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), blank=True, default=list, help_text='Models and aliases that may be called, with commas between them; empty: all.', size=None, verbose_name='models')),
                ('requests_per_minute', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('tokens_per_minute', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1)])),
                ('group', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group')),
                ('token', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.apitoken', verbose_name='API token')),
            ],
            options={
                'verbose_name': 'rule of calls',
                'verbose_name_plural': 'rules of calls',
                'ordering': ['id'],
                'constraints': [models.CheckConstraint(condition=models.Q(('token__isnull', True), ('group__isnull', True), _connector='XOR'), name='call_rule_has_one_subject', violation_error_message='Of an API token or of a group: one of them.')],
            },
        ),
    ]
