from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    is_safe_because = 'uploads are few beside jobs: who writes one waits while they are read once, and none has such a name'

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('jobs', '0023_steps_of_a_call'),
    ]

    operations = [
        migrations.AddConstraint(
            model_name='upload',
            constraint=models.UniqueConstraint(condition=models.Q(('stored_as__startswith', 'jobs/parts/')), fields=('owner', 'sha256'), name='a_part_is_stored_once'),
        ),
    ]
