"""API tokens, one-time links, groups that members make, and guests."""

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
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
                ('name', models.CharField(help_text='What it is for.', max_length=100)),
                ('key_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('key_hint', models.CharField(editable=False, help_text='The first characters of its key.', max_length=8, verbose_name='key')),
                ('scopes', models.CharField(db_default='submit read operate', editable=False, help_text='Its scopes, separated by spaces.', max_length=100)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False, verbose_name='created')),
                ('expires_at', models.DateTimeField(blank=True, editable=False, help_text='It is not valid from then on; empty: until it is revoked.', null=True, verbose_name='expires')),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, help_text='To the minute, so that not every call writes.', null=True, verbose_name='last used')),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'verbose_name': 'API token',
                'ordering': ['-id'],
                'indexes': [
                    models.Index(condition=models.Q(('expires_at__isnull', False), ('revoked_at__isnull', True)), fields=['expires_at'], name='accounts_tokens_that_end'),
                ],
            },
        ),
        migrations.CreateModel(
            name='OneTimeLink',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='one_time_links', to=settings.AUTH_USER_MODEL)),
                ('token_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-id'],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('used_at__isnull', True), ('used_at__lt', models.F('expires_at')), _connector='OR'), name='one_time_link_is_used_before_it_expires'),
                ],
            },
        ),
        migrations.CreateModel(
            name='MemberGroup',
            fields=[
                ('group', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='by_members', serialize=False, to='auth.group')),
                ('maker', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='groups_made', to=settings.AUTH_USER_MODEL)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
                ('invitation', models.PositiveIntegerField(default=1, editable=False, help_text='The number of its valid invitation; earlier ones are not valid.')),
                ('is_inviting', models.BooleanField(default=True, help_text='Whether its invitation is valid.')),
            ],
            options={
                'verbose_name': 'group of members',
                'verbose_name_plural': 'groups of members',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='Guest',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='as_guest', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('session_id', models.CharField(editable=False, help_text='The key of their rate limits.', max_length=16, unique=True)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
                ('expires_at', models.DateTimeField(db_index=True)),
                ('retired_at', models.DateTimeField(blank=True, editable=False, help_text='The account was kept for the rows that refer to it; nobody can log in.', null=True)),
            ],
            options={
                'ordering': ['-created_at'],
            },
        ),
    ]
