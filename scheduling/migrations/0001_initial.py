"""Scheduled functions with their queue, crons and clusters, and the guards of ended functions."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models.functions import Now

from postgres.schema import sql_file


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name='Cron',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('function', models.CharField(max_length=200)),
                ('args', models.JSONField(default=dict, verbose_name='arguments')),
                ('schedule', models.CharField(max_length=200)),
                ('missed', models.CharField(choices=[('skip', 'skip'), ('once', 'once'), ('catch_up', 'catch up')], max_length=8, verbose_name='missed firings')),
                ('at_most', models.PositiveSmallIntegerField(default=1, help_text='How many missed firings are made up for at most.')),
                ('overlap', models.CharField(choices=[('skip', 'skip'), ('allow', 'allow')], max_length=5)),
                ('next_at', models.DateTimeField(blank=True, help_text='Empty: it never fires again.', null=True, verbose_name='next firing')),
                ('last_fire_at', models.DateTimeField(blank=True, null=True, verbose_name='last firing')),
                ('missed_count', models.BigIntegerField(default=0, help_text='Fire times that were skipped because no cluster was running.', verbose_name='missed')),
                ('skipped_count', models.BigIntegerField(default=0, help_text='Firings that were skipped because the one before had not ended.', verbose_name='skipped')),
                ('paused_at', models.DateTimeField(blank=True, null=True)),
                ('retired_at', models.DateTimeField(blank=True, help_text='Since then no crons.py declares it.', null=True)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                'ordering': ['name'],
                'indexes': [
                    models.Index(models.F('next_at'), condition=models.Q(('next_at__isnull', False), ('paused_at__isnull', True), ('retired_at__isnull', True)), name='scheduling_crons_due'),
                ],
            },
        ),
        migrations.CreateModel(
            name='ScheduledFunction',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('function', models.CharField(max_length=200)),
                ('kind', models.CharField(choices=[('mutation', 'mutation'), ('action', 'action')], max_length=8)),
                ('queue', models.CharField(default='default', max_length=100)),
                ('priority', models.SmallIntegerField(default=0, help_text='-100 to 100; higher goes first.')),
                ('args', models.JSONField(default=dict, verbose_name='arguments')),
                ('task_backend', models.CharField(blank=True, help_text='The alias in TASKS, for a @task of django-tasks.', max_length=100, null=True)),
                ('status', models.CharField(choices=[('pending', 'pending'), ('in_progress', 'in progress'), ('success', 'success'), ('failed', 'failed'), ('canceled', 'canceled'), ('unknown', 'unknown')], default='pending', max_length=11)),
                ('parent', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='The scheduled function that scheduled it.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='children', to='scheduling.scheduledfunction')),
                ('retry_of', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='The attempt that failed before this one.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='retries', to='scheduling.scheduledfunction')),
                ('run_again_of', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='The function that was run again by hand.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='runs_again', to='scheduling.scheduledfunction')),
                ('attempt', models.PositiveSmallIntegerField(default=1)),
                ('cron', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='firings', to='scheduling.cron')),
                ('fire_at', models.DateTimeField(blank=True, help_text="The fire time of its cron.", null=True)),
                ('created_at', models.DateTimeField(db_default=Now(), verbose_name='scheduled')),
                ('run_at', models.DateTimeField(db_default=Now(), verbose_name='due')),
                ('started_at', models.DateTimeField(blank=True, null=True, verbose_name='started')),
                ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
                ('cluster_id', models.UUIDField(blank=True, help_text='The cluster that ran it.', null=True)),
                ('ran_by', models.CharField(blank=True, help_text='Host and process.', max_length=200, null=True)),
                ('result', models.JSONField(blank=True, null=True)),
                ('error', models.TextField(blank=True, null=True)),
                ('error_class', models.CharField(blank=True, max_length=200, null=True)),
                ('traceback', models.TextField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-id'],
                'permissions': (('operate_scheduledfunction', 'Can cancel functions, run them again, and pause crons'),),
                'indexes': [
                    models.Index(models.F('function'), models.F('id'), name='scheduling_by_function'),
                    models.Index(models.F('ended_at'), models.F('id'), condition=models.Q(('ended_at__isnull', False)), name='scheduling_ended'),
                    models.Index(models.F('cluster_id'), condition=models.Q(('status', 'in_progress')), name='scheduling_running'),
                    models.Index(models.F('status'), models.F('id'), condition=models.Q(('status__in', ['canceled', 'failed', 'unknown'])), name='scheduling_unhappy'),
                    models.Index(models.F('cron'), condition=models.Q(('cron__isnull', False), ('status__in', ['in_progress', 'pending'])), name='scheduling_firings'),
                    models.Index(models.F('parent'), condition=models.Q(('parent__isnull', False)), name='scheduling_children'),
                    models.Index(models.F('retry_of'), condition=models.Q(('retry_of__isnull', False)), name='scheduling_retries'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('status__in', ['canceled', 'failed', 'in_progress', 'pending', 'success', 'unknown'])), name='scheduled_function_state_is_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('status__in', ['canceled', 'failed', 'success', 'unknown'])), models.Q(('ended_at__isnull', True), ('status__in', ['in_progress', 'pending'])), _connector='OR'), name='scheduled_function_has_an_end_exactly_when_it_ended'),
                    models.CheckConstraint(condition=models.Q(('kind', 'action'), models.Q(('status__in', ['in_progress', 'unknown']), _negated=True), _connector='OR'), name='only_an_action_is_in_progress_or_unknown'),
                    models.CheckConstraint(condition=models.Q(models.Q(('status', 'in_progress'), _negated=True), models.Q(('cluster_id__isnull', False), ('ran_by__isnull', False), ('started_at__isnull', False)), _connector='OR'), name='what_is_in_progress_has_a_start_and_a_cluster'),
                    models.CheckConstraint(condition=models.Q(('result__isnull', True), ('status', 'success'), _connector='OR'), name='only_a_success_has_a_result'),
                    models.CheckConstraint(condition=models.Q(models.Q(('status__in', ['failed', 'unknown']), _negated=True), ('error__isnull', False), _connector='OR'), name='what_failed_or_is_unknown_says_why'),
                    models.CheckConstraint(condition=models.Q(models.Q(('cron__isnull', True), ('fire_at__isnull', True)), models.Q(('cron__isnull', False), ('fire_at__isnull', False)), _connector='OR'), name='a_firing_has_a_cron_and_a_fire_time'),
                    models.CheckConstraint(condition=models.Q(('attempt__gte', 1)), name='scheduled_function_attempts_count_from_one'),
                    models.UniqueConstraint(condition=models.Q(('attempt', 1), ('cron__isnull', False)), fields=('cron', 'fire_at'), name='a_cron_fires_once_for_each_fire_time'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Due',
            fields=[
                ('function_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=8)),
                ('queue', models.CharField(max_length=100)),
                ('priority', models.SmallIntegerField()),
                ('run_at', models.DateTimeField()),
                ('next_at', models.DateTimeField(help_text='Not run before this moment: when it is due, or may be retried.')),
                ('collisions', models.PositiveIntegerField(db_default=0, help_text='Runs of a mutation that were rolled back because they collided.')),
                ('colliding_statement', models.TextField(blank=True, help_text='The statement that collided last.', null=True)),
                ('deaths', models.PositiveSmallIntegerField(db_default=0, help_text='How often the process that ran this mutation died.')),
            ],
            options={
                'indexes': [
                    models.Index(models.F('kind'), models.F('queue'), models.F('priority'), models.F('next_at'), models.F('function_id'), name='scheduling_due_lanes'),
                    models.Index(models.F('collisions'), condition=models.Q(('collisions__gt', 0)), name='scheduling_due_colliding'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Cluster',
            fields=[
                ('cluster_id', models.UUIDField(primary_key=True, serialize=False)),
                ('role', models.CharField(max_length=9)),
                ('host', models.CharField(max_length=200)),
                ('pid', models.IntegerField()),
                ('started_at', models.DateTimeField(db_default=Now(), verbose_name='started')),
                ('last_seen_at', models.DateTimeField(blank=True, help_text='Its last report; it reports once a second.', null=True, verbose_name='last seen')),
                ('workers', models.PositiveSmallIntegerField(default=0)),
                ('free', models.PositiveSmallIntegerField(default=0, help_text='Workers without a task.')),
                ('waits', models.BooleanField(default=False, help_text='A task is waiting although a worker is free.')),
                ('dispatched', models.BigIntegerField(db_default=0, help_text='How many tasks it has dispatched.')),
                ('stat', models.BinaryField(blank=True, help_text="What django-q2's own monitor shows.", null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
                ('ending', models.CharField(blank=True, choices=[('stopped', 'stopped'), ('died', 'died'), ('frozen', 'frozen'), ('lost', 'lost')], max_length=7, null=True)),
                ('why', models.CharField(blank=True, max_length=200, null=True, verbose_name='reason')),
            ],
            options={
                'ordering': ['-started_at'],
                'indexes': [
                    models.Index(models.F('ended_at'), name='scheduling_clusters_ended'),
                ],
            },
        ),
        sql_file('scheduling', '0001_guards'),
    ]
