"""Stripe: customers, subscriptions and invoices.

A state is as new as its event's `created`, which has whole seconds; within one second the kind of event decides, then
the status, in the order that it usually takes. A canceled subscription never comes back: its end counts as a deletion.
"""

from datetime import datetime
from typing import Any

from webhooks.domain import links, money
from webhooks.domain.payloads import stripe
from webhooks.domain.payloads.base import ABSENT
from webhooks.domain.staleness import Version
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models import StripeCustomer, StripeInvoice, StripeSubscription
from webhooks.queries.upserts import tombstone, upsert

_SUBSCRIPTION = "customer.subscription."
_STATUSES = {
    "incomplete": 1, "trialing": 2, "active": 3, "past_due": 4, "unpaid": 5, "paused": 5, "incomplete_expired": 7,
    "canceled": 7, "draft": 1, "open": 2, "uncollectible": 4, "paid": 5, "void": 5,
}  # fmt: skip
_INVOICES = {
    "created": "drafted", "finalized": "sent", "paid": "paid", "payment_failed": "could not be charged for",
    "payment_action_required": "has to confirm the payment of", "voided": "voided", "deleted": "deleted",
    "marked_uncollectible": "gave up on", "upcoming": "is soon to get", "overdue": "did not pay in time",
}  # fmt: skip
_OTHERS_OF_INVOICES = (
    "updated", "sent", "payment_succeeded", "finalization_failed", "overpaid", "payment_attempt_required",
    "will_be_due",
)  # fmt: skip
_BY_CUSTOMER = frozenset({"paid", "payment_failed", "payment_action_required", "upcoming", "overdue"})
_SUBSCRIPTIONS = {
    "created": "began", "deleted": "ended", "paused": "paused", "resumed": "resumed",
    "trial_will_end": "soon ends the trial of",
}  # fmt: skip


@handles("stripe", "customer.created", "customer.updated", "customer.deleted")
def customer(event: Event) -> None:
    """A customer came, changed or went."""
    payload = event.read(stripe.Envelope[stripe.Customer])
    customer = payload.data.object
    upsert(
        StripeCustomer,
        customer.id,
        _version(event, payload.created),
        is_delinquent=customer.sent("delinquent", bool(customer.delinquent)),
        is_live=payload.sent("livemode"),
        **customer.columns("name", "email", "description", "currency", "balance", created_at="created"),
    )
    if event.action == "deleted":
        tombstone(StripeCustomer, customer.id, at=payload.created or event.occurred_at)
    if event.action != "updated":
        entry = ActivityEntry(
            verb=event.action,
            object=f"customer {customer.label}",
            at=payload.created,
            kind="stripecustomer",
            resource=customer.id,
            link=_link("customers", customer.id, is_live=payload.livemode),
        )
        emit(event, entry)


@handles("stripe", *(
    _SUBSCRIPTION + action
    for action in (*_SUBSCRIPTIONS, "updated", "pending_update_applied", "pending_update_expired")
))  # fmt: skip
def subscription(event: Event) -> None:
    """A subscription began, changed or ended."""
    payload = event.read(stripe.Envelope[stripe.Subscription])
    subscription = payload.data.object
    _upsert_subscription(event, payload)
    if event.action == "deleted":
        tombstone(StripeSubscription, subscription.id, at=payload.created or event.occurred_at)
    if event.action in _SUBSCRIPTIONS:
        price = subscription.item.price if subscription.item else None
        amount = _money(price.unit_amount, price.currency) if price else ""
        emit(
            event,
            ActivityEntry(
                actor=subscription.customer or "",
                verb=_SUBSCRIPTIONS[event.action],
                object=f"subscription {subscription.id}{amount}",
                at=payload.created,
                kind="stripesubscription",
                resource=subscription.id,
                link=_link("subscriptions", subscription.id, is_live=payload.livemode),
            ),
        )


@handles("stripe", *(f"invoice.{action}" for action in (*_INVOICES, *_OTHERS_OF_INVOICES)))
def invoice(event: Event) -> None:
    """An invoice was made, sent, paid or not. One that is only announced has no id, and is not kept."""
    if event.action == "upcoming":
        _announce(event)
        return
    payload = event.read(stripe.Envelope[stripe.Invoice])
    invoice = payload.data.object
    upsert(
        StripeInvoice,
        invoice.id,
        _version(event, payload.created, invoice.status),
        subscription_id=_subscription_id(invoice),
        amount_due=ABSENT if invoice.amount_due is None else invoice.amount_due,
        is_live=payload.sent("livemode"),
        **invoice.columns(
            "number",
            "status",
            "currency",
            "amount_paid",
            "total",
            parent="customer",
            reason="billing_reason",
            due_at="due_date",
            created_at="created",
        ),
    )
    if event.action == "deleted":
        tombstone(StripeInvoice, invoice.id, at=payload.created or event.occurred_at)
    if event.action in _INVOICES:
        emit(event, _about_invoice(event, invoice, invoice.id, at=payload.created, is_live=payload.livemode))


@handles("stripe", "checkout.session.completed")
def checkout(event: Event) -> None:
    """Somebody paid on the page where one pays."""
    payload = event.read(stripe.Envelope[stripe.Checkout])
    checkout = payload.data.object
    mode = f" ({checkout.mode})" if checkout.mode else ""
    entry = ActivityEntry(
        actor=checkout.customer or "",
        verb="completed",
        object=f"checkout{mode}{_money(checkout.amount_total, checkout.currency)}",
        at=payload.created,
        kind="stripecustomer" if checkout.customer else "",
        resource=checkout.customer or "",
    )
    emit(event, entry)


@handles("stripe", "payout.paid", "payout.failed", "charge.refunded", "charge.dispute.created", "charge.dispute.closed")
def movement(event: Event) -> None:
    """Money went out of the account, or may have to. Nothing is kept of it."""
    payload = event.read(stripe.Envelope[stripe.Money])
    movement = payload.data.object
    target, _, verb = event.type.rpartition(".")
    amount = movement.amount_refunded if verb == "refunded" else movement.amount
    name = " ".join((*target.split("."), *([movement.id] if movement.id else ())))
    emit(event, ActivityEntry(verb=verb, object=f"{name}{_money(amount, movement.currency)}", at=payload.created))


def _upsert_subscription(event: Event, payload: stripe.Envelope[stripe.Subscription]) -> None:
    subscription = payload.data.object
    upsert(
        StripeSubscription,
        subscription.id,
        _version(event, payload.created, subscription.status),
        period_ends_at=_period_ends_at(subscription),
        is_live=payload.sent("livemode"),
        **subscription.columns(
            "status",
            "canceled_at",
            "ended_at",
            parent="customer",
            ends_with_period="cancel_at_period_end",
            trial_ends_at="trial_end",
            created_at="created",
        ),
        **_priced(subscription),
    )


def _priced(subscription: stripe.Subscription) -> dict[str, Any]:
    """The values of the first of its items; blank where it has none."""
    if not subscription.items.data:
        price = subscription.items.sent("data", "")
        nothing = ABSENT if price is ABSENT else None
        return {"price": price, "amount": nothing, "currency": price, "interval": price, "quantity": nothing}
    item, price = subscription.items.data[0], subscription.items.data[0].price or stripe.Price()
    recurring = price.recurring
    return {
        "interval": recurring.sent("interval") if recurring else price.sent("recurring", ""),
        "quantity": item.sent("quantity"),
        **price.columns("currency", price="id", amount="unit_amount"),
    }


def _period_ends_at(subscription: stripe.Subscription) -> Any:
    """In whichever place this API version says it."""
    at_top = subscription.sent("current_period_end")
    of_item = subscription.item.sent("current_period_end") if subscription.item else ABSENT
    return of_item if at_top in {ABSENT, None} and of_item is not ABSENT else at_top


def _subscription_id(invoice: stripe.Invoice) -> Any:
    """The same of an invoice's subscription: newer versions say null where it is for none."""
    if invoice.subscription_id:
        return invoice.subscription_id
    parent = invoice.parent
    details = parent.subscription_details if parent else None
    of_parent = parent.sent("subscription_details") if parent else invoice.sent("parent")
    stated = (invoice.sent("subscription"), details.sent("subscription") if details else of_parent)
    return None if None in stated else ABSENT


def _announce(event: Event) -> None:
    payload = event.read(stripe.Envelope[stripe.Upcoming])
    emit(event, _about_invoice(event, payload.data.object, "", at=payload.created, is_live=payload.livemode))


def _about_invoice(
    event: Event, invoice: stripe.Upcoming, invoice_id: str, *, at: datetime | None, is_live: bool
) -> ActivityEntry:
    name = f"invoice {invoice.number or invoice_id}" if invoice_id else "an invoice"
    return ActivityEntry(
        actor=(invoice.customer or "") if event.action in _BY_CUSTOMER else "",
        verb=_INVOICES[event.action],
        object=f"{name}{_money(invoice.amount_due, invoice.currency)}",
        at=at,
        kind="stripeinvoice" if invoice_id else "",
        resource=invoice_id,
        link=_link("invoices", invoice_id, is_live=is_live) if invoice_id else "",
    )


def _version(event: Event, created: datetime | None, status: str = "") -> Version:
    """Within a second: its creation first, its end last, and in between by the status."""
    ranks = {"created": 0, "payment_failed": 3, "payment_action_required": 3, "deleted": 9}
    return event.version(created, rank=ranks.get(event.action, _STATUSES.get(status, 3)))


def _money(amount: int | None, currency: str) -> str:
    return f" of {money.shown(amount, currency)}" if amount is not None else ""


def _link(section: str, resource: str, *, is_live: bool) -> str:
    base = "https://dashboard.stripe.com" + ("" if is_live else "/test")
    return links.under(base, section, resource)
