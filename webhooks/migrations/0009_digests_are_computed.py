from django.db import migrations


class Migration(migrations.Migration):

    is_safe_because = "no farm is released with the table that goes, and nobody read its rows"

    dependencies = [
        ('webhooks', '0008_rounds_are_results'),
    ]

    operations = [
        migrations.DeleteModel(name='ActivityDigest'),
    ]
