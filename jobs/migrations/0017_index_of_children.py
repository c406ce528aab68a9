from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('jobs', '0016_suspended'),
    ]

    operations = [
        AddIndexInUse(
            model_name='step',
            index=models.Index(models.F('parent'), models.F('position'), condition=models.Q(('parent__isnull', False)), name='jobs_steps_of_parent'),
        ),
    ]
