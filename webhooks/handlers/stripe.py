"""Stripe: customers, subscriptions and invoices.

A state is as new as its event's `created`, which has whole seconds; within one second the kind of event decides, then
the status, in the order that it usually takes. A canceled subscription never comes back: its end counts as a deletion.
"""

from datetime import datetime

from webhooks.domain import links, money
from webhooks.domain.payloads import stripe
from webhooks.domain.payloads.base import read
from webhooks.domain.staleness import Version
from webhooks.handlers.registry import Event, handles
from webhooks.handlers.telling import Line, tell
from webhooks.models import StripeCustomer, StripeInvoice, StripeSubscription
from webhooks.queries.keeping import bury, keep

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
_BY_CUSTOMER = frozenset({"paid", "payment_failed", "payment_action_required", "upcoming", "overdue"})
_SUBSCRIPTIONS = {
    "created": "began", "deleted": "ended", "paused": "paused", "resumed": "resumed",
    "trial_will_end": "soon ends the trial of",
}  # fmt: skip


@handles("stripe", "customer.created", "customer.updated", "customer.deleted")
def customer(event: Event) -> None:
    """A customer came, changed or went."""
    told = read(stripe.Envelope[stripe.Customer], event.body)
    given = told.data.object
    keep(
        StripeCustomer,
        given.id,
        _version(event, told.created),
        name=given.name,
        email=given.email,
        description=given.description,
        currency=given.currency,
        balance=given.balance,
        is_delinquent=bool(given.delinquent),
        is_live=told.livemode,
        created_at=given.created,
    )
    if _action(event) == "deleted":
        bury(StripeCustomer, given.id, at=told.created)
    if _action(event) != "updated":
        line = Line(
            verb=_action(event),
            object=f"customer {given.label}",
            at=told.created,
            kind="stripecustomer",
            thing=given.id,
            link=_link("customers", given.id, is_live=told.livemode),
        )
        tell(event, line)


@handles("stripe", *(
    _SUBSCRIPTION + action
    for action in (*_SUBSCRIPTIONS, "updated", "pending_update_applied", "pending_update_expired")
))  # fmt: skip
def subscription(event: Event) -> None:
    """A subscription began, changed or ended."""
    told = read(stripe.Envelope[stripe.Subscription], event.body)
    given = told.data.object
    _keep_subscription(event, told)
    if _action(event) == "deleted":
        bury(StripeSubscription, given.id, at=told.created)
    if _action(event) in _SUBSCRIPTIONS:
        price = given.item.price if given.item else None
        tell(
            event,
            Line(
                actor=given.customer,
                verb=_SUBSCRIPTIONS[_action(event)],
                object=f"subscription {given.id}{_money(price.unit_amount, price.currency) if price else ''}",
                at=told.created,
                kind="stripesubscription",
                thing=given.id,
                link=_link("subscriptions", given.id, is_live=told.livemode),
            ),
        )


@handles("stripe", "invoice.*")
def invoice(event: Event) -> None:
    """An invoice was made, sent, paid or not. One that is only announced has no id, and is not kept."""
    if _action(event) == "upcoming":
        _announce(event)
        return
    told = read(stripe.Envelope[stripe.Invoice], event.body)
    given = told.data.object
    keep(
        StripeInvoice,
        given.id,
        _version(event, told.created, given.status),
        customer_id=given.customer,
        subscription_id=given.subscription_id,
        number=given.number,
        status=given.status,
        reason=given.billing_reason,
        currency=given.currency,
        amount_due=given.amount_due,
        amount_paid=given.amount_paid,
        total=given.total,
        due_at=given.due_date,
        is_live=told.livemode,
        created_at=given.created,
    )
    if _action(event) == "deleted":
        bury(StripeInvoice, given.id, at=told.created)
    if _action(event) in _INVOICES:
        tell(event, _about_invoice(event, given, given.id, at=told.created, is_live=told.livemode))


@handles("stripe", "checkout.session.completed")
def checkout(event: Event) -> None:
    """Somebody paid on the page where one pays."""
    told = read(stripe.Envelope[stripe.Checkout], event.body)
    given = told.data.object
    line = Line(
        actor=given.customer or "",
        verb="completed",
        object=f"checkout ({given.mode}){_money(given.amount_total, given.currency)}",
        at=told.created,
        kind="stripecustomer" if given.customer else "",
        thing=given.customer or "",
    )
    tell(event, line)


@handles(
    "stripe",
    "payout.paid",
    "payout.failed",
    "charge.refunded",
    "charge.dispute.created",
    "charge.dispute.closed",
)
def movement(event: Event) -> None:
    """Money went out of the account, or may have to. Nothing is kept of it."""
    told = read(stripe.Envelope[stripe.Money], event.body)
    given = told.data.object
    what, _, verb = event.type.rpartition(".")
    amount = given.amount_refunded if verb == "refunded" else given.amount
    name = what.replace(".", " ")
    tell(event, Line(verb=verb, object=f"{name} {given.id}{_money(amount, given.currency)}", at=told.created))


def _keep_subscription(event: Event, told: stripe.Envelope[stripe.Subscription]) -> None:
    given = told.data.object
    item = given.item
    keep(
        StripeSubscription,
        given.id,
        _version(event, told.created, given.status),
        customer_id=given.customer,
        status=given.status,
        price=item.price.id if item else "",
        amount=item.price.unit_amount if item else None,
        currency=item.price.currency if item else "",
        interval=item.price.recurring.interval if item and item.price.recurring else "",
        quantity=item.quantity if item else None,
        ends_with_period=given.cancel_at_period_end,
        period_ends_at=given.period_end,
        trial_ends_at=given.trial_end,
        canceled_at=given.canceled_at,
        ended_at=given.ended_at,
        is_live=told.livemode,
        created_at=given.created,
    )


def _announce(event: Event) -> None:
    told = read(stripe.Envelope[stripe.Upcoming], event.body)
    tell(event, _about_invoice(event, told.data.object, "", at=told.created, is_live=told.livemode))


def _about_invoice(
    event: Event, given: stripe.Upcoming, invoice_id: str, *, at: datetime, is_live: bool
) -> Line:
    name = f"invoice {given.number or invoice_id}" if invoice_id else "an invoice"
    return Line(
        actor=(given.customer or "") if _action(event) in _BY_CUSTOMER else "",
        verb=_INVOICES[_action(event)],
        object=f"{name}{_money(given.amount_due, given.currency)}",
        at=at,
        kind="stripeinvoice" if invoice_id else "",
        thing=invoice_id,
        link=_link("invoices", invoice_id, is_live=is_live) if invoice_id else "",
    )


def _version(event: Event, created: datetime, status: str = "") -> Version:
    """Within a second: its creation first, its end last, and in between by the status."""
    ranks = {"created": 0, "payment_failed": 3, "payment_action_required": 3, "deleted": 9}
    return Version(at=created, rank=ranks.get(_action(event), _STATUSES.get(status, 3)))


def _money(amount: int | None, currency: str) -> str:
    return f" of {money.shown(amount, currency)}" if amount is not None else ""


def _link(what: str, thing: str, *, is_live: bool) -> str:
    base = "https://dashboard.stripe.com" + ("" if is_live else "/test")
    return links.under(base, what, thing)


def _action(event: Event) -> str:
    return event.type.rpartition(".")[2]
