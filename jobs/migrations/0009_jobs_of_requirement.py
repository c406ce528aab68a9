"""The jobs of a requirement, to delete those without any. While the index is built, jobs go on."""

from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):
    atomic = False

    dependencies = [('jobs', '0008_labels')]

    operations = [
        AddIndexInUse(
            model_name='job',
            index=models.Index(models.F('requirement'), condition=models.Q(('requirement__isnull', False)), name='jobs_of_requirement'),
        ),
    ]
