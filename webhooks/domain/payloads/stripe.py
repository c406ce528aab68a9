"""Stripe: an envelope with `data.object`; times in seconds, amounts in the smallest unit of the currency.

Needed is the id of what is kept.
"""

from typing import Generic, TypeVar

from webhooks.domain.payloads.base import Amount, Id, IdOrResource, Many, Maybe, Number, Payload, Seconds

O = TypeVar("O", bound=Payload)  # noqa: E741 (an object)


class Data(Payload, Generic[O]):
    """What holds the object."""

    object: O


class Envelope(Payload, Generic[O]):
    """What every event is wrapped in."""

    created: Seconds | None = None
    livemode: bool = False
    data: Data[O]


class Customer(Payload):
    """Who pays."""

    id: Id
    name: Maybe = ""
    email: Maybe = ""
    description: Maybe = ""
    currency: Maybe = ""
    balance: Amount = 0
    delinquent: bool | None = None
    created: Seconds | None = None

    @property
    def label(self) -> str:
        return self.name or self.email or self.id


class Recurring(Payload):
    """How often a price is due."""

    interval: Maybe = ""


class Price(Payload):
    """What an item costs."""

    id: Maybe = ""
    unit_amount: Amount | None = None
    currency: Maybe = ""
    recurring: Recurring | None = None


class Item(Payload):
    """One price of a subscription. From API version 2025-03-31 on the period is here."""

    price: Price | None = None
    quantity: Number | None = None
    current_period_end: Seconds | None = None


class Items(Payload):
    """The list of them."""

    data: Many[Item] = []


class Subscription(Payload):
    """What a customer pays for again and again."""

    id: Id
    customer: IdOrResource | None = None
    status: Maybe = ""
    items: Items = Items()
    cancel_at_period_end: bool = False
    current_period_end: Seconds | None = None
    trial_end: Seconds | None = None
    canceled_at: Seconds | None = None
    ended_at: Seconds | None = None
    created: Seconds | None = None

    @property
    def item(self) -> Item | None:
        return self.items.data[0] if self.items.data else None


class SubscriptionDetails(Payload):
    """Which subscription an invoice is for, from API version 2025-03-31 on."""

    subscription: IdOrResource | None = None


class Parent(Payload):
    """What an invoice came from."""

    subscription_details: SubscriptionDetails | None = None


class Upcoming(Payload):
    """An invoice that does not exist yet, and has no id."""

    customer: IdOrResource | None = None
    currency: Maybe = ""
    amount_due: Amount | None = None
    amount_paid: Amount = 0
    total: Amount = 0
    number: Maybe = ""
    subscription: IdOrResource | None = None
    parent: Parent | None = None
    due_date: Seconds | None = None
    created: Seconds | None = None

    @property
    def subscription_id(self) -> str | None:
        """Its subscription, in whichever place this API version says it."""
        details = self.parent.subscription_details if self.parent else None
        return self.subscription or (details.subscription if details else None)


class Invoice(Upcoming):
    """What a customer is to pay."""

    id: Id
    status: Maybe = ""
    billing_reason: Maybe = ""


class Checkout(Payload):
    """A visit to the page where one pays."""

    customer: IdOrResource | None = None
    amount_total: Amount | None = None
    currency: Maybe = ""
    mode: Maybe = ""


class Money(Payload):
    """A charge, a dispute or a payout."""

    id: Id | None = None
    amount: Amount | None = None
    currency: Maybe = ""
    amount_refunded: Amount = 0
