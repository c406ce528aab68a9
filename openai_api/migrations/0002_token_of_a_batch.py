"""The API token that a batch came with, whose budgets bound its jobs. No row is rewritten."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
        ('openai_api', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='token',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken'),
        ),
    ]
