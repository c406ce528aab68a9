"""Games, their players and rounds, and the pictures that are painted for them."""

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
            name='Game',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('code', models.CharField(editable=False, max_length=5, unique=True)),
                ('host', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('group', models.ForeignKey(blank=True, help_text='Empty: everybody can join.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group')),
                ('theme', models.CharField(max_length=60)),
                ('stage', models.CharField(choices=[('lobby', 'lobby'), ('painting', 'painting'), ('naming', 'naming'), ('guessing', 'guessing'), ('reveal', 'reveal'), ('over', 'over'), ('abandoned', 'abandoned')], default='lobby', max_length=9)),
                ('step', models.PositiveIntegerField(default=0)),
                ('round', models.PositiveSmallIntegerField(default=0, help_text='The number of the picture on the table, from 0.')),
                ('version', models.PositiveIntegerField(default=0, editable=False)),
                ('deadline_at', models.DateTimeField(blank=True, help_text='When its stage ends automatically.', null=True)),
                ('next_game', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='previous_game', to='imagegame.game')),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [
                    models.Index(models.F('group'), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('stage__in', ['abandoned', 'over']), _negated=True), name='imagegame_live_games'),
                    models.Index(models.F('ended_at'), condition=models.Q(('ended_at__isnull', False)), name='imagegame_ended_games'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('stage__in', ['abandoned', 'guessing', 'lobby', 'naming', 'over', 'painting', 'reveal'])), name='game_stage_is_known'),
                    models.CheckConstraint(condition=models.Q(models.Q(('stage__in', ['abandoned', 'over']), ('deadline_at__isnull', True), ('ended_at__isnull', False)), models.Q(models.Q(('stage__in', ['abandoned', 'over']), _negated=True), ('deadline_at__isnull', False), ('ended_at__isnull', True)), _connector='OR'), name='game_has_a_deadline_until_it_has_an_end'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Submission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('prompt', models.CharField(max_length=100)),
                ('job_id', models.BigIntegerField(help_text='The job that paints it.', unique=True)),
                ('state', models.CharField(choices=[('painting', 'painting'), ('saved', 'saved'), ('failed', 'failed'), ('canceled', 'canceled')], default='painting', max_length=8)),
                ('reason', models.CharField(blank=True, help_text='The reason why there is no picture.', max_length=300)),
                ('file', models.CharField(blank=True, help_text='The picture, among the files of the job.', max_length=100)),
                ('attempt', models.BigIntegerField(blank=True, help_text='The attempt of the job that stored it.', null=True)),
                ('created_at', models.DateTimeField(db_default=Now(), editable=False)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [
                    models.Index(models.F('owner'), models.OrderBy(models.F('id'), descending=True), name='imagegame_pictures_of_owner'),
                    models.Index(models.OrderBy(models.F('ended_at'), descending=True), condition=models.Q(('state__in', ['saved', 'failed'])), name='imagegame_ended_pictures'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', True), ('state', 'painting')), models.Q(('ended_at__isnull', False), ('state__in', ['saved', 'failed', 'canceled'])), _connector='OR'), name='submission_has_an_end_exactly_when_it_is_not_painted_any_more'),
                    models.CheckConstraint(condition=models.Q(models.Q(('attempt__isnull', False), ('state', 'saved'), models.Q(('file', ''), _negated=True)), models.Q(models.Q(('state', 'saved'), _negated=True), ('attempt__isnull', True), ('file', '')), _connector='OR'), name='submission_has_a_file_exactly_when_it_is_saved'),
                    models.UniqueConstraint(condition=models.Q(('state', 'painting')), fields=('owner',), name='one_picture_in_the_making_for_each_person'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Player',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('game', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='players', to='imagegame.game')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('joined_at', models.DateTimeField(db_default=Now(), editable=False)),
            ],
            options={
                'ordering': ['id'],
                'constraints': [
                    models.UniqueConstraint(fields=('game', 'user'), name='a_person_plays_once_in_a_game'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Round',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('game', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rounds', to='imagegame.game')),
                ('number', models.PositiveSmallIntegerField()),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('submission', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='round', to='imagegame.submission')),
            ],
            options={
                'ordering': ['game', 'number'],
                'constraints': [
                    models.UniqueConstraint(fields=('game', 'number'), name='rounds_are_numbered'),
                    models.UniqueConstraint(fields=('game', 'author'), name='a_player_plays_one_picture_in_a_game'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Title',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('round', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='titles', to='imagegame.round')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('text', models.CharField(max_length=100)),
                ('is_true', models.BooleanField(default=False)),
                ('place', models.PositiveSmallIntegerField(help_text='Its place among the choices, at random.', null=True)),
            ],
            options={
                'ordering': ['round', 'place', 'id'],
                'constraints': [
                    models.UniqueConstraint(fields=('round', 'author'), name='a_player_names_a_picture_once'),
                    models.UniqueConstraint(condition=models.Q(('is_true', True)), fields=('round',), name='a_picture_has_one_true_title'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Guess',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('round', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='guesses', to='imagegame.round')),
                ('player', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('title', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='guesses', to='imagegame.title')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [
                    models.UniqueConstraint(fields=('round', 'player'), name='a_player_guesses_once_for_a_picture'),
                ],
            },
        ),
    ]
