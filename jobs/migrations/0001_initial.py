import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
from django.conf import settings
from django.db import migrations, models

from postgres.schema import sql_file


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=100)),
                ('queue', models.CharField(max_length=100)),
                ('priority', models.SmallIntegerField(default=0, help_text='-100 to 100; higher goes first.')),
                ('unique_key', models.CharField(blank=True, max_length=200, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='submitted at')),
                ('expires_at', models.DateTimeField(blank=True, help_text='Not started by then: timed out.', null=True)),
                ('max_attempts', models.PositiveSmallIntegerField(default=3)),
                ('timeout_s', models.FloatField(blank=True, null=True)),
                ('retry_when_lost', models.BooleanField(db_default=True, default=True)),
                ('retry_on_timeout', models.BooleanField(default=False)),
                ('limit_name', models.CharField(blank=True, editable=False, max_length=100, null=True)),
                ('limit_key', models.CharField(blank=True, editable=False, max_length=50, null=True)),
                ('limit_count', models.FloatField(blank=True, editable=False, null=True)),
                ('limit_until', models.DateTimeField(blank=True, editable=False, help_text='When the tokens it reserved have come in.', null=True)),
                ('is_metered', models.BooleanField(db_default=False, default=False, editable=False)),
                ('payload', models.JSONField()),
                ('traceparent', models.CharField(blank=True, editable=False, help_text='The trace that it was submitted in.', max_length=55, null=True)),
                ('inputs', models.JSONField(blank=True, editable=False, null=True)),
                ('group', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to='auth.group')),
                ('owner', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='jobs', to=settings.AUTH_USER_MODEL)),
                ('retry_of', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='retries', to='jobs.job')),
                ('token', models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'ordering': ['-id'],
                'permissions': [('operate_job', 'Can cancel, retry and move any job'), ('raise_priority', 'Can give jobs any priority'), ('choose_queue', 'Can put jobs into any queue')],
            },
        ),
        migrations.CreateModel(
            name='Process',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('part', models.CharField(max_length=7)),
                ('host', models.CharField(max_length=200)),
                ('pid', models.IntegerField()),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(help_text='When it reported that it ends.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Usage',
            fields=[
                ('owner', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('waiting', models.BigIntegerField(db_default=0, default=0, verbose_name='waiting jobs')),
                ('output_bytes', models.BigIntegerField(db_default=0, default=0, verbose_name='bytes of output')),
                ('files', models.BigIntegerField(db_default=0, default=0)),
                ('file_bytes', models.BigIntegerField(db_default=0, default=0, verbose_name='bytes of files')),
                ('waiting_at', models.DateTimeField(help_text="When waiting jobs were counted; on the farm's row.", null=True)),
                ('recounted_at', models.DateTimeField(help_text="When all was counted anew; on the farm's row.", null=True)),
            ],
            options={
                'verbose_name_plural': 'usage',
                'ordering': ['pk'],
            },
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('queues', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), help_text='Home queues, in the order they are served.', size=None)),
                ('steals', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, help_text='Queues it takes from when idle; * means every other queue.', size=None)),
                ('polled_queues', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), editable=False, null=True, size=None)),
                ('polled_at', django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), editable=False, null=True, size=None)),
                ('labels', models.JSONField(blank=True, db_default={}, default=dict, help_text='Labels that win over what it announces; an empty value takes one away.')),
                ('satisfies', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), db_default=[], default=list, editable=False, help_text='The requirements of jobs that its labels meet, with all that is preferred.', size=None)),
                ('key_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('key_hint', models.CharField(editable=False, help_text='How its key begins.', max_length=12)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('connected_at', models.DateTimeField(editable=False, help_text='Since when it is there without a gap of WORKER_ALIVE_S.', null=True)),
                ('last_seen_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('drained_at', models.DateTimeField(blank=True, editable=False, help_text='While drained, it claims nothing.', null=True)),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('drained_by', models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('owner', models.ForeignKey(blank=True, help_text="Empty: it serves everybody. Otherwise: its owner's jobs, and those of the groups the owner is in.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='workers', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name', 'id'],
            },
        ),
        migrations.CreateModel(
            name='Bulk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('action', models.CharField(choices=[('cancel', 'cancel'), ('retry', 'retry'), ('change_queue', 'change queue'), ('change_priority', 'change priority'), ('run_now', 'run now'), ('undo', 'undo')], max_length=15)),
                ('value', models.CharField(blank=True, help_text='The new queue or priority.', max_length=100)),
                ('filters', models.JSONField(help_text='The filters of the list.')),
                ('back', models.TextField(blank=True, db_default='', default='', help_text='The page that it was asked on.')),
                ('error', models.TextField(blank=True, db_default='', default='', help_text='What all of the jobs failed of.')),
                ('phase', models.CharField(choices=[('counting', 'counting'), ('ready', 'ready'), ('running', 'running'), ('done', 'done'), ('stopped', 'stopped')], default='counting', max_length=8)),
                ('top_id', models.BigIntegerField(help_text='Jobs with greater ids were submitted later, and are not changed.')),
                ('next_id', models.BigIntegerField(help_text='Jobs below this id are still to be handled.')),
                ('matched', models.BigIntegerField(default=0)),
                ('handled', models.BigIntegerField(default=0)),
                ('changed', models.BigIntegerField(default=0)),
                ('results', models.JSONField(default=dict, help_text='How many jobs had which result.')),
                ('why', models.CharField(blank=True, help_text='Why it stopped.', max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('began_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='bulks', to=settings.AUTH_USER_MODEL, verbose_name='created by')),
                ('undoes', models.OneToOneField(blank=True, help_text='The bulk action that this one undoes.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='undone_by', to='jobs.bulk')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='BulkItem',
            fields=[
                ('pk', models.CompositePrimaryKey('bulk_id', 'job_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('job_id', models.BigIntegerField()),
                ('was', models.JSONField(help_text='Its value before, or the id of the new job.')),
                ('bulk', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='jobs.bulk')),
            ],
        ),
        migrations.CreateModel(
            name='HealthScore',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('subject', models.CharField(help_text='What it is about: a queue, a worker, a source.', max_length=20)),
                ('name', models.CharField(max_length=255)),
                ('ended', models.PositiveBigIntegerField(help_text='Jobs or deliveries that ended on that day.')),
                ('succeeded', models.PositiveBigIntegerField()),
                ('score', models.FloatField(help_text='The share that succeeded, 0 to 1; empty if nothing ended.', null=True)),
                ('latency_p50_s', models.FloatField(help_text='From due (or received) to the end.', null=True)),
                ('latency_p95_s', models.FloatField(null=True)),
                ('backlog', models.PositiveBigIntegerField(help_text='Pending jobs or deliveries when the score was computed.')),
                ('computed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ['-day', 'subject', 'name'],
                'constraints': [models.UniqueConstraint(fields=('day', 'subject', 'name'), name='one_health_score_a_day'), models.CheckConstraint(condition=models.Q(models.Q(('ended', 0), ('score__isnull', True)), models.Q(('ended__gt', 0), ('score__gte', 0), ('score__lte', 1)), _connector='OR'), name='a_health_score_is_a_share_of_what_ended')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('pk', models.CompositePrimaryKey('owner_id', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(db_collation='C', max_length=255)),
                ('fingerprint', models.BinaryField(help_text='SHA-256 of the request.')),
                ('created_at', models.DateTimeField()),
                ('job_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), default=list, help_text='The job of each entry; of one left out, its twin.', size=None)),
                ('skipped', django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), default=list, help_text='Places of the entries that had a twin, from 0.', size=None)),
                ('owner', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Live',
            fields=[
                ('kind', models.CharField(max_length=100)),
                ('queue', models.CharField(max_length=100)),
                ('run_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Since when it is due, or was for the last time.', verbose_name='not before')),
                ('failures', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Attempts that failed, were lost or timed out so far.')),
                ('fence', models.BigIntegerField(db_default=0, default=0, help_text='How often it was claimed; only ever grows.')),
                ('confirmed_fence', models.BigIntegerField(db_default=0, default=0, help_text='Number of the last confirmed claim; 0: none was confirmed.')),
                ('worker_name', models.CharField(blank=True, max_length=100, null=True)),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('progress', models.FloatField(blank=True, null=True)),
                ('detail', models.CharField(blank=True, max_length=200, null=True)),
                ('next_seq', models.IntegerField(db_default=0, default=0, help_text='Number of the next piece of output of this attempt.')),
                ('output_bytes', models.BigIntegerField(db_default=0, default=0, help_text='Written by this attempt.')),
                ('earlier_output_bytes', models.BigIntegerField(db_default=0, default=0, help_text='Written by the attempts before it.')),
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='live', serialize=False, to='jobs.job')),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('timeout_s', models.FloatField(blank=True, null=True)),
                ('is_metered', models.BooleanField(db_default=False, default=False)),
                ('has_key', models.BooleanField(db_default=False, default=False, help_text='It has a row of UniqueKey.')),
                ('releases', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='How often in a row it was released.')),
                ('unconfirmed', models.SmallIntegerField(db_default=0, default=0, help_text='How often in a row no call named its lease.')),
                ('request', models.UUIDField(blank=True, help_text='Which call of its worker claimed it.', null=True)),
                ('lease_secret', models.UUIDField(blank=True, null=True)),
                ('lease_expires_at', models.DateTimeField(blank=True, null=True)),
                ('deadline_at', models.DateTimeField(blank=True, help_text='When this run times out.', null=True)),
                ('counted_in', models.CharField(blank=True, help_text='The queue whose ceiling this run counts against.', max_length=100, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Origin',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='origin', serialize=False, to='jobs.job')),
                ('function_id', models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='Outcome',
            fields=[
                ('kind', models.CharField(max_length=100)),
                ('queue', models.CharField(max_length=100)),
                ('run_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='Since when it is due, or was for the last time.', verbose_name='not before')),
                ('failures', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Attempts that failed, were lost or timed out so far.')),
                ('fence', models.BigIntegerField(db_default=0, default=0, help_text='How often it was claimed; only ever grows.')),
                ('confirmed_fence', models.BigIntegerField(db_default=0, default=0, help_text='Number of the last confirmed claim; 0: none was confirmed.')),
                ('worker_name', models.CharField(blank=True, max_length=100, null=True)),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('progress', models.FloatField(blank=True, null=True)),
                ('detail', models.CharField(blank=True, max_length=200, null=True)),
                ('next_seq', models.IntegerField(db_default=0, default=0, help_text='Number of the next piece of output of this attempt.')),
                ('output_bytes', models.BigIntegerField(db_default=0, default=0, help_text='Written by this attempt.')),
                ('earlier_output_bytes', models.BigIntegerField(db_default=0, default=0, help_text='Written by the attempts before it.')),
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='outcome', serialize=False, to='jobs.job')),
                ('status', models.CharField(choices=[('canceled', 'canceled'), ('failed', 'failed'), ('success', 'success'), ('timed_out', 'timed out')], max_length=9)),
                ('ended_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('attempt', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Number of the last attempt.')),
                ('last_secret', models.UUIDField(blank=True, help_text='Secret of the lease that ended last.', null=True)),
                ('result', models.JSONField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Share',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='share', serialize=False, to='jobs.job')),
                ('token', models.CharField(editable=False, max_length=43, unique=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='UniqueKey',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='+', serialize=False, to='jobs.job')),
                ('kind', models.CharField(max_length=100)),
                ('unique_key', models.CharField(max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='Kind',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False, validators=[django.core.validators.RegexValidator('\\A[a-z0-9][a-z0-9_.-]{0,99}\\Z', 'Use a-z 0-9 _ . - and at most 100 of them.')])),
                ('queue', models.CharField(help_text='The queue of its jobs.', max_length=100, validators=[django.core.validators.RegexValidator('\\A[a-z0-9][a-z0-9_.-]{0,99}\\Z', 'Use a-z 0-9 _ . - and at most 100 of them.')])),
                ('max_attempts', models.PositiveSmallIntegerField(default=3, validators=[django.core.validators.MinValueValidator(1)])),
                ('backoff_first_s', models.FloatField(default=1, help_text='Seconds before the second attempt.', verbose_name='first backoff')),
                ('backoff_base', models.FloatField(default=2, help_text='Each further backoff is this many times longer.')),
                ('backoff_cap_s', models.FloatField(default=3600, help_text='Seconds.', verbose_name='longest backoff')),
                ('timeout_s', models.FloatField(blank=True, help_text='Longest run, in seconds.', null=True, verbose_name='timeout')),
                ('expires_s', models.FloatField(blank=True, help_text='Longest time as pending, in seconds.', null=True, verbose_name='expires')),
                ('retry_when_lost', models.BooleanField(db_default=True, default=True, help_text='Retry on another worker when the lease of an attempt ran out.')),
                ('retry_on_timeout', models.BooleanField(default=False, help_text='Retry when a run took longer than its timeout.')),
                ('priority', models.SmallIntegerField(default=0, validators=[django.core.validators.MinValueValidator(-100), django.core.validators.MaxValueValidator(100)])),
                ('requires', models.JSONField(blank=True, db_default={}, default=dict, help_text='What its jobs require of a worker\'s labels, such as {"vram": ">=16"}.')),
                ('limit', models.CharField(blank=True, help_text='The rate limit that each of its jobs takes from.', max_length=100, null=True)),
                ('limit_count', models.FloatField(default=1, help_text='How many tokens of it a job takes.')),
                ('limit_key', models.CharField(blank=True, choices=[('', 'everybody'), ('owner', 'owner')], default='', help_text='Whose tokens a job takes: everybody shares them, or each owner has as many.', max_length=10, verbose_name='limit per')),
            ],
            options={
                'ordering': ['name'],
                'constraints': [models.CheckConstraint(condition=models.Q(('max_attempts__range', (1, 1000)), ('priority__range', (-100, 100)), ('backoff_cap_s__range', (0, 158112000)), ('backoff_first_s__range', (0, 158112000)), ('backoff_base__range', (1, 1000))), name='kind_numbers_are_within_their_bounds', violation_error_message="Attempts go from 1 to 1000, priority from -100 to 100, a backoff's base from 1 to 1000, its waits from 0 to five years."), models.CheckConstraint(condition=models.Q(models.Q(('timeout_s__isnull', True), models.Q(('timeout_s__gt', 0), ('timeout_s__lt', 158112000)), _connector='OR'), models.Q(('expires_s__isnull', True), models.Q(('expires_s__gt', 0), ('expires_s__lt', 158112000)), _connector='OR')), name='kind_times_are_positive_and_under_five_years', violation_error_message='Timeout and expiry are positive and under five years.'), models.CheckConstraint(condition=models.Q(('limit_count__gt', 0), ('limit_count__lt', 1000000000000000.0), ('limit_key__in', ['', 'owner'])), name='kind_takes_a_positive_number_of_its_limit', violation_error_message='The number of tokens is positive and finite.')],
            },
        ),
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('queue', models.CharField(max_length=100)),
                ('priority', models.SmallIntegerField()),
                ('owner_id', models.IntegerField(default=0, help_text='Whose jobs, where the queue keeps owners apart.')),
                ('group_id', models.IntegerField(default=0)),
                ('requirement_id', models.IntegerField(default=0)),
                ('required_id', models.IntegerField(default=0, help_text='What of the requirement is no mere preference.')),
                ('avoid', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text='Workers that failed its jobs.', size=None)),
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('is_apart', models.BooleanField(default=False, help_text='Owners and groups have lanes of their own.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'indexes': [models.Index(models.F('queue'), models.F('priority'), models.F('is_apart'), models.F('owner_id'), models.F('group_id'), models.F('requirement_id'), models.Func('avoid', function='hash_array'), name='jobs_lane_by_attributes')],
            },
        ),
        migrations.CreateModel(
            name='Mark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queue', models.CharField(max_length=100)),
                ('priority', models.SmallIntegerField()),
                ('owner_id', models.IntegerField(default=0, help_text='Whose jobs, where the queue keeps owners apart.')),
                ('group_id', models.IntegerField(default=0)),
                ('requirement_id', models.IntegerField(default=0)),
                ('required_id', models.IntegerField(default=0, help_text='What of the requirement is no mere preference.')),
                ('avoid', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, help_text='Workers that failed its jobs.', size=None)),
                ('lane_id', models.IntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(models.F('queue'), models.OrderBy(models.F('priority'), descending=True), models.F('at'), models.F('id'), name='jobs_marks_in_order'), models.Index(models.F('lane_id'), models.F('at'), models.F('id'), name='jobs_marks_of_lane'), models.Index(models.F('queue'), models.F('owner_id'), condition=models.Q(('owner_id', 0), _negated=True), name='jobs_marks_of_owner'), models.Index(models.F('lane_id'), condition=models.Q(('group_id', 0), ('owner_id', 0)), name='jobs_marks_of_all'), models.Index(models.F('queue'), models.F('group_id'), condition=models.Q(('group_id', 0), _negated=True), name='jobs_marks_of_group')],
            },
        ),
        migrations.CreateModel(
            name='Offspring',
            fields=[
                ('function_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('job', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='offspring', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='OutputChunk',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'attempt', 'seq', blank=True, editable=False, primary_key=True, serialize=False)),
                ('attempt', models.BigIntegerField()),
                ('seq', models.IntegerField()),
                ('text', models.TextField()),
                ('written_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='output', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False, validators=[django.core.validators.RegexValidator('\\A[a-z0-9][a-z0-9_.-]{0,99}\\Z', 'Use a-z 0-9 _ . - and at most 100 of them.')])),
                ('paused_at', models.DateTimeField(blank=True, help_text='While paused, nothing of it is claimed.', null=True)),
                ('ceiling', models.PositiveSmallIntegerField(blank=True, help_text='How many of its jobs may run at the same time; empty means any number.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('by_owner', models.BooleanField(db_default=False, default=False, editable=False, help_text='Its jobs wait in lanes of their owners and groups.')),
                ('made_by', models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('paused_by', models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Reachability',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='there_is_one_reachability')],
            },
        ),
        migrations.CreateModel(
            name='Requirement',
            fields=[
                ('id', models.AutoField(primary_key=True, serialize=False)),
                ('text', models.TextField(help_text='The set in its one spelling.', unique=True)),
                ('requires', models.JSONField()),
                ('prefers', models.JSONField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('retired_at', models.DateTimeField(help_text='Since then no living job has it.', null=True)),
                ('base', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.requirement')),
            ],
        ),
        migrations.AddField(
            model_name='job',
            name='requirement',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.requirement'),
        ),
        migrations.CreateModel(
            name='ResultFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('attempt', models.BigIntegerField()),
                ('name', models.CharField(max_length=100)),
                ('stored_as', models.CharField(editable=False, max_length=255)),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='files', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='Rollup',
            fields=[
                ('pk', models.CompositePrimaryKey('step_s', 'at', 'queue', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('step_s', models.SmallIntegerField()),
                ('at', models.DateTimeField()),
                ('queue', models.CharField(max_length=100)),
                ('kind', models.CharField(db_default='', max_length=100)),
                ('arrived', models.IntegerField()),
                ('success', models.IntegerField()),
                ('failed', models.IntegerField()),
                ('canceled', models.IntegerField()),
                ('timed_out', models.IntegerField()),
                ('ran', models.JSONField()),
                ('waited', models.JSONField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('step_s__in', [60, 600, 3600])), name='a_rollup_has_a_known_step')],
            },
        ),
        migrations.CreateModel(
            name='RollupWatermark',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('settled_until', models.DateTimeField()),
                ('counted_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='there_is_one_rollup_watermark')],
            },
        ),
        migrations.CreateModel(
            name='SavedFilter',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('query', models.JSONField(help_text="The filters and the order, as the list's address has them.")),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='saved_filters', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Stage',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'attempt', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('attempt', models.BigIntegerField()),
                ('number', models.SmallIntegerField()),
                ('detail', models.CharField(max_length=200)),
                ('progress', models.FloatField(null=True)),
                ('began_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='stages', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='Upload',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('stored_as', models.CharField(editable=False, max_length=255)),
                ('size', models.BigIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('kept_until', models.DateTimeField(blank=True, editable=False, help_text='Until then it stays for what it was uploaded for.', null=True)),
                ('owner', models.ForeignKey(blank=True, db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Input',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='input_files', to='jobs.job')),
                ('upload', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='uses', to='jobs.upload')),
            ],
        ),
        migrations.CreateModel(
            name='UsageDelta',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner_id', models.IntegerField(null=True)),
                ('output_bytes', models.BigIntegerField(db_default=0)),
                ('files', models.BigIntegerField(db_default=0)),
                ('file_bytes', models.BigIntegerField(db_default=0)),
            ],
            options={
                'indexes': [models.Index(models.F('owner_id'), name='jobs_usage_deltas_of')],
            },
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
                ('reported_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When it last reported something new.')),
                ('labels', models.JSONField(db_default={}, default=dict, help_text='The labels that it announces.')),
                ('loaded', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), db_default=[], default=list, help_text='Those of its models that are in memory.', size=None)),
                ('stuck', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), db_default=[], default=list, help_text='Jobs that were taken from it and whose handlers run on in their slots.', size=None)),
                ('leaving', models.BooleanField(db_default=False, default=False, help_text='It ended, as it said itself.')),
                ('models', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), db_default=[], help_text="The models that it serves: names of OpenAI's API.", size=None)),
            ],
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.BigIntegerField(help_text='The claim number.')),
                ('attempt', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('secret', models.UUIDField(blank=True, editable=False, null=True)),
                ('outcome', models.CharField(choices=[('failed', 'failed'), ('lost', 'lost'), ('timed_out', 'timed out'), ('released', 'released'), ('canceled', 'canceled'), ('unconfirmed', 'unconfirmed')], max_length=13)),
                ('worker_name', models.CharField(max_length=100)),
                ('claimed_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField()),
                ('error', models.TextField(blank=True, help_text='The error, with its traceback if there is one.')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='jobs.job')),
                ('worker', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='attempts', to='jobs.worker')),
            ],
            options={
                'ordering': ['job', 'number'],
            },
        ),
        migrations.AddIndex(
            model_name='bulk',
            index=models.Index(models.F('by'), models.F('id'), name='jobs_bulks_of'),
        ),
        migrations.AddIndex(
            model_name='idempotencykey',
            index=models.Index(models.F('created_at'), name='jobs_idempotency_keys_by_age'),
        ),
        migrations.AddField(
            model_name='live',
            name='group',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='auth.group'),
        ),
        migrations.AddField(
            model_name='live',
            name='lane',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.lane'),
        ),
        migrations.AddField(
            model_name='live',
            name='owner',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='live',
            name='requirement',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.requirement'),
        ),
        migrations.AddField(
            model_name='live',
            name='worker',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.worker'),
        ),
        migrations.AddField(
            model_name='outcome',
            name='worker',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.worker'),
        ),
        migrations.AddField(
            model_name='share',
            name='created_by',
            field=models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='uniquekey',
            name='owner',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='requirement',
            index=models.Index(condition=models.Q(('retired_at__isnull', True)), fields=['id'], name='jobs_requirements_in_use'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('owner'), models.F('id'), condition=models.Q(('owner__isnull', False)), name='jobs_of_owner'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('group'), models.F('id'), condition=models.Q(('group__isnull', False)), name='jobs_of_group'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('retry_of'), condition=models.Q(('retry_of__isnull', False)), name='jobs_retries'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('requirement'), condition=models.Q(('requirement__isnull', False)), name='jobs_of_requirement'),
        ),
        migrations.AddConstraint(
            model_name='resultfile',
            constraint=models.UniqueConstraint(fields=('job', 'attempt', 'name'), name='a_file_name_is_used_once'),
        ),
        migrations.AddConstraint(
            model_name='savedfilter',
            constraint=models.UniqueConstraint(models.F('owner'), models.F('name'), name='jobs_saved_filter_has_one_name'),
        ),
        migrations.AddIndex(
            model_name='upload',
            index=models.Index(models.F('created_at'), name='jobs_uploads_by_age'),
        ),
        migrations.AddConstraint(
            model_name='input',
            constraint=models.UniqueConstraint(fields=('job', 'name'), name='an_input_name_is_used_once'),
        ),
        migrations.AddIndex(
            model_name='attempt',
            index=models.Index(models.F('worker'), models.F('ended_at'), name='jobs_attempts_of_worker'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('job', 'number'), name='an_attempt_ends_once'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('lane'), models.F('run_at'), models.F('job'), condition=models.Q(('lease_secret__isnull', True)), name='jobs_waiting'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('worker'), models.F('job'), condition=models.Q(('lease_secret__isnull', False)), name='jobs_running'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('owner'), models.F('queue'), models.F('lane'), condition=models.Q(('lease_secret__isnull', True), ('owner__isnull', False)), name='jobs_waiting_of_owner'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('group'), models.F('queue'), models.F('lane'), condition=models.Q(('lease_secret__isnull', True), ('group__isnull', False)), name='jobs_waiting_of_group'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('expires_at'), condition=models.Q(('lease_secret__isnull', True), ('expires_at__isnull', False)), name='jobs_expiring'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('counted_in'), condition=models.Q(('counted_in__isnull', False)), name='jobs_counted'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('requirement'), models.F('owner'), condition=models.Q(('requirement__isnull', False)), name='jobs_living_of_requirement'),
        ),
        migrations.AddIndex(
            model_name='live',
            index=models.Index(models.F('job'), condition=models.Q(('unconfirmed__gte', 2)), name='jobs_unconfirmed'),
        ),
        migrations.AddConstraint(
            model_name='live',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('lease_expires_at__isnull', True), ('lease_secret__isnull', True)), models.Q(('claimed_at__isnull', False), ('fence__gte', 1), ('lease_expires_at__isnull', False), ('lease_secret__isnull', False), ('worker__isnull', False)), _connector='OR'), name='job_has_a_lease_exactly_while_in_progress'),
        ),
        migrations.AddIndex(
            model_name='outcome',
            index=models.Index(models.F('ended_at'), models.F('job'), name='jobs_ended'),
        ),
        migrations.AddIndex(
            model_name='outcome',
            index=models.Index(models.F('status'), models.F('job'), condition=models.Q(('status__in', ['canceled', 'failed', 'timed_out'])), name='jobs_unhappy'),
        ),
        migrations.AddConstraint(
            model_name='outcome',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['canceled', 'failed', 'success', 'timed_out'])), name='an_outcome_is_an_end'),
        ),
        migrations.AddConstraint(
            model_name='uniquekey',
            constraint=models.UniqueConstraint(fields=('kind', 'unique_key', 'owner'), name='only_one_live_job_per_owner_kind_and_unique_key', nulls_distinct=False),
        ),
        sql_file('jobs', '0001_guards'),
        sql_file('jobs', '0001_lanes'),
        sql_file('jobs', '0001_usage'),
    ]
