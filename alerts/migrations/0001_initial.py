"""Rules, what fires of each, and the messages that were sent."""

import alerts.domain.judging
import alerts.domain.rules
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('condition', models.CharField(editable=False, max_length=50)),
                ('target', models.CharField(blank=True, default='', max_length=300)),
                ('threshold', models.FloatField(default=0)),
                ('window_s', models.PositiveIntegerField(default=900, verbose_name='window')),
                ('hold_s', models.PositiveIntegerField(default=0, verbose_name='for')),
                ('keep_firing_s', models.PositiveIntegerField(default=300, verbose_name='keep firing for')),
                ('repeat_s', models.PositiveIntegerField(default=14400, verbose_name='repeat every')),
                ('severity', models.CharField(choices=[(alerts.domain.rules.Severity['WARNING'], 'warning'), (alerts.domain.rules.Severity['CRITICAL'], 'critical')], default=alerts.domain.rules.Severity['WARNING'], max_length=8)),
                ('mail_to', models.TextField(blank=True, default='', verbose_name='mail to')),
                ('sealed_url', models.BinaryField(null=True)),
                ('webhook_host', models.CharField(default='', editable=False, max_length=255, verbose_name='webhook')),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('muted_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('observed_at', models.DateTimeField(editable=False, null=True)),
                ('notified_at', models.DateTimeField(editable=False, null=True)),
                ('unknown', models.CharField(default='', editable=False, help_text='Why nothing is known of its condition now.', max_length=200)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.CharField(choices=[('mail', 'Mail'), ('webhook', 'Webhook')], max_length=10)),
                ('recipient', models.CharField(max_length=300)),
                ('title', models.CharField(max_length=200)),
                ('body', models.TextField()),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('sent', 'Sent'), ('failed', 'Failed')], default='pending', max_length=8)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('error', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('rule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='notifications', to='alerts.rule')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(models.F('created_at'), name='alerts_notifications_by_age')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('status', 'pending')), models.Q(models.Q(('status', 'pending'), _negated=True), ('ended_at__isnull', False)), _connector='OR'), name='notification_has_an_end_exactly_when_it_was_sent_or_failed')],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(blank=True, max_length=500)),
                ('state', models.CharField(choices=[(alerts.domain.judging.State['PENDING'], 'pending'), (alerts.domain.judging.State['FIRING'], 'firing'), (alerts.domain.judging.State['RESOLVED'], 'resolved')], max_length=8)),
                ('value', models.FloatField()),
                ('since', models.DateTimeField()),
                ('known_at', models.DateTimeField()),
                ('below_since', models.DateTimeField(null=True)),
                ('is_notified', models.BooleanField(default=False, verbose_name='notified')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='alerts.rule')),
            ],
            options={
                'ordering': ['rule', '-value', 'subject'],
                'constraints': [models.UniqueConstraint(fields=('rule', 'subject'), name='a_rule_has_one_alert_per_subject')],
            },
        ),
    ]
