"""Stripe: customers, what they subscribed to, and what they are to pay. Amounts are in the currency's smallest unit."""

from django.db import models

from webhooks.models.resources import Resource, indexes_by, member_of, moment, short


class StripeCustomer(Resource):
    """Who pays."""

    name = short()
    email = short()
    description = short()
    currency = short()
    balance = models.BigIntegerField(default=0, help_text="Below 0 is credit.")
    is_delinquent = models.BooleanField(default=False)
    is_live = models.BooleanField(default=False, help_text="Real money, not a test.")
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Stripe customer"

    def __str__(self) -> str:
        return self.name or self.email or self.external_id


class StripeSubscription(Resource):
    """What a customer pays for again and again."""

    customer = member_of("StripeCustomer", related_name="subscriptions")
    status = short()
    price = short(help_text="Of its first item.")
    amount = models.BigIntegerField(null=True, blank=True, help_text="Of one unit of its first item.")
    currency = short()
    interval = short()
    quantity = models.PositiveBigIntegerField(null=True, blank=True)
    ends_with_period = models.BooleanField(default=False)
    period_ends_at = moment()
    trial_ends_at = moment()
    canceled_at = moment()
    ended_at = moment()
    is_live = models.BooleanField(default=False, help_text="Real money, not a test.")
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Stripe subscription"
        indexes = indexes_by("customer")


class StripeInvoice(Resource):
    """What a customer is to pay."""

    customer = member_of("StripeCustomer", related_name="invoices")
    subscription = member_of("StripeSubscription", related_name="invoices")
    number = short()
    status = short()
    reason = short(help_text="Why it was created.")
    currency = short()
    amount_due = models.BigIntegerField(default=0)
    amount_paid = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    due_at = moment()
    is_live = models.BooleanField(default=False, help_text="Real money, not a test.")
    created_at = moment()

    class Meta(Resource.Meta):
        verbose_name = "Stripe invoice"
        indexes = indexes_by("customer", "subscription")

    def __str__(self) -> str:
        return self.number or self.external_id
