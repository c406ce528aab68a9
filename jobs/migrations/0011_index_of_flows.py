from django.db import migrations, models

from postgres.schema import AddIndexInUse


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('jobs', '0010_flows'),
    ]

    operations = [
        AddIndexInUse(
            model_name='job',
            index=models.Index(models.F('flow'), models.F('id'), condition=models.Q(('flow__isnull', False)), name='jobs_of_flow'),
        ),
    ]
