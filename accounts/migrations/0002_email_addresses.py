"""The e-mail addresses that people have, where django-allauth keeps them. Nobody has proved one yet."""

from django.db import migrations

ADDRESSES = """
    INSERT INTO account_emailaddress (user_id, email, verified, "primary")
    SELECT id, lower(email), false, true FROM auth_user
    WHERE email <> '' AND NOT EXISTS (SELECT FROM account_emailaddress WHERE user_id = auth_user.id)
"""


class Migration(migrations.Migration):
    dependencies = [('accounts', '0001_initial'), ('account', '0009_emailaddress_unique_primary_email')]

    operations = [migrations.RunSQL(ADDRESSES, migrations.RunSQL.noop)]
