"""Since when a game is at its stage. No row is rewritten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('imagegame', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='game',
            name='stage_began_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
