from django.db import migrations, models

from postgres.schema import sql_file


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0001_initial'),
    ]

    operations = [
        migrations.AlterField(
            model_name='healthscore',
            name='latency_p50_s',
            field=models.FloatField(help_text='Of a queue the wait, of a worker the run.', null=True),
        ),
        sql_file('jobs', '0002_reads'),
    ]
