"""Messages of groups, and the answers that are being written."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='auth.group')),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='messages', to=settings.AUTH_USER_MODEL)),
                ('role', models.CharField(choices=[('system', 'system'), ('user', 'user'), ('assistant', 'assistant')], max_length=9)),
                ('question', models.ForeignKey(blank=True, help_text='The message that it answers.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='replies', to='chat.message')),
                ('text', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [
                    models.Index(condition=models.Q(('role', 'system'), _negated=True), fields=['group', 'id'], name='chat_said'),
                    models.Index(condition=models.Q(('role', 'system')), fields=['group', 'id'], name='chat_instructions'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('role__in', ('system', 'user', 'assistant'))), name='message_role_is_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('role', 'assistant'), _negated=True), ('author__isnull', True), _connector='OR'), name='the_assistant_is_nobody'),
                    models.CheckConstraint(condition=models.Q(models.Q(('question__isnull', False), ('role', 'assistant')), models.Q(models.Q(('role', 'assistant'), _negated=True), ('question__isnull', True)), _connector='OR'), name='the_assistant_only_answers'),
                    models.CheckConstraint(condition=models.Q(models.Q(('role', 'user'), _negated=True), models.Q(('text', ''), _negated=True), _connector='OR'), name='people_say_something'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Answer',
            fields=[
                ('message', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='answer', serialize=False, to='chat.message')),
                ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group')),
                ('asker', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('job_id', models.BigIntegerField(help_text='The job that writes it.', unique=True)),
                ('state', models.CharField(choices=[('waiting', 'pending'), ('writing', 'being written'), ('retrying', 'being retried'), ('finished', 'answered'), ('failed', 'failed'), ('timed_out', 'timed out'), ('canceled', 'canceled')], default='waiting', max_length=9)),
                ('attempt', models.BigIntegerField(default=0, help_text="The fencing token of its job's claim.")),
                ('worker_name', models.CharField(blank=True, max_length=100)),
                ('error', models.CharField(blank=True, help_text='How the last attempt failed.', max_length=300)),
                ('starts_at', models.DateTimeField(blank=True, help_text='It does not start before this moment.', null=True)),
                ('tokens', models.PositiveIntegerField(default=0, help_text='The most tokens that it is estimated to use.')),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('state__in', ['canceled', 'failed', 'finished', 'retrying', 'timed_out', 'waiting', 'writing'])), name='answer_state_is_known'),
                    models.UniqueConstraint(condition=models.Q(('state__in', ['retrying', 'waiting', 'writing'])), fields=('group', 'asker'), name='one_unanswered_question_for_each_person_in_a_group'),
                ],
            },
        ),
    ]
