from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('jobs', '0005_followers'),
    ]

    operations = [
        AddIndexInUse(
            model_name='uniquekey',
            index=models.Index(models.F('follower'), condition=models.Q(('follower__isnull', False)), name='jobs_followers'),
        ),
    ]
