from django.db import migrations


class Migration(migrations.Migration):

    is_safe_because = "no farm is released with the table that goes, and each round's result is its function's"

    dependencies = [
        ('webhooks', '0007_rules_send_signals'),
    ]

    operations = [
        migrations.DeleteModel(name='Reconciliation'),
    ]
