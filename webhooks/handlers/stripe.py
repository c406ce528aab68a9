"""Stripe: customers, subscriptions and invoices.

A state is as new as its event's `created`, which has whole seconds; within one second the kind of event decides, then
the status, in the order that it usually takes. A canceled subscription never comes back: its end counts as a deletion.
"""

from typing import Any

from webhooks.domain import parts
from webhooks.domain.parts import ABSENT, AMOUNT, FLAG, ID, MOMENT, OBJECTS, REFERENCE, Part, fields
from webhooks.handlers.activity import Line, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models.resources import Resource, StripeCustomer, StripeInvoice, StripeSubscription
from webhooks.queries.results import tombstone, upsert

_CUSTOMER = fields(
    text="name email description currency", amount="balance", flag="is_delinquent=delinquent",
    moment="created_at=created",
)  # fmt: skip
_SUBSCRIPTION = fields(
    text="status",
    reference="parent=customer",
    flag="ends_with_period=cancel_at_period_end",
    moment="canceled_at ended_at trial_ends_at=trial_end created_at=created",
)
_ITEM = fields(
    text="price=price.id currency=price.currency interval=price.recurring.interval", amount="amount=price.unit_amount",
    number="quantity",
)  # fmt: skip
_NO_ITEM = {"price": "", "currency": "", "interval": "", "amount": None, "quantity": None}
_INVOICE = fields(
    text="number status currency reason=billing_reason",
    reference="parent=customer",
    amount="amount_due amount_paid total",
    moment="due_at=due_date created_at=created",
)
_STATUSES = {
    "incomplete": 1, "trialing": 2, "active": 3, "past_due": 4, "unpaid": 5, "paused": 5, "incomplete_expired": 7,
    "canceled": 7, "draft": 1, "open": 2, "uncollectible": 4, "paid": 5, "void": 5,
}  # fmt: skip
# Within a second: its creation first, its end last, and in between by the status.
_RANKS = {"created": 0, "payment_failed": 3, "payment_action_required": 3, "deleted": 9}
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
_OTHERS_OF_SUBSCRIPTIONS = ("updated", "pending_update_applied", "pending_update_expired")


class _Report:
    def __init__(self, event: Event) -> None:
        self.event, self.body = event, event.read()
        self.object = self.body.need_part("data.object")
        self.at = self.body.moment("created")

    def keep(self, table: type[Resource], document: dict[str, Any]) -> str:
        external_id = self.object.need("id", ID)
        rank = _RANKS.get(self.event.action, _STATUSES.get(self.object.text("status"), 3))
        version = self.event.version(self.at, rank=rank)
        upsert(table, external_id, version, is_live=self.body.look("livemode", FLAG), **document)
        if self.event.action == "deleted":
            tombstone(table, external_id, at=version.at)
        return external_id

    def emit(
        self, verb: str, target: str, *, actor: str = "", about: tuple[type[Resource], str] | None = None,
        section: str = "",
    ) -> None:  # fmt: skip
        """A line; where it is of a resource it leads to that, in a section of Stripe's own pages."""
        base = "https://dashboard.stripe.com" + ("" if self.body.get("livemode", FLAG) else "/test")
        link = parts.under(base, section, about[1]) if about and section else ""
        emit(self.event, Line(verb, target, actor=actor, at=self.at, about=about, link=link))


@handles("stripe", "customer.created", "customer.updated", "customer.deleted")
def customer(event: Event) -> None:
    report = _Report(event)
    customer = report.object
    customer_id = report.keep(StripeCustomer, customer.document(_CUSTOMER))
    if event.action != "updated":
        label = customer.text("name") or customer.text("email") or customer_id
        report.emit(event.action, f"customer {label}", about=(StripeCustomer, customer_id), section="customers")


@handles("stripe", *(f"customer.subscription.{action}" for action in (*_SUBSCRIPTIONS, *_OTHERS_OF_SUBSCRIPTIONS)))
def subscription(event: Event) -> None:
    """A subscription began, changed or ended. What it costs is what the first of its items does."""
    report = _Report(event)
    subscription, item = report.object, report.object.first("items.data")
    # From API version 2025-03-31 on the period is the item's.
    ends_at, of_item = subscription.look("current_period_end", MOMENT), item.look("current_period_end", MOMENT)
    document = subscription.document(_SUBSCRIPTION) | (
        _NO_ITEM if subscription.get("items.data", OBJECTS) == [] else item.document(_ITEM)
    )
    ends_at = of_item if ends_at in {ABSENT, None} and of_item is not ABSENT else ends_at
    subscription_id = report.keep(StripeSubscription, {"period_ends_at": ends_at, **document})
    if event.action in _SUBSCRIPTIONS:
        report.emit(
            _SUBSCRIPTIONS[event.action],
            f"subscription {subscription_id}{_money(item.part('price'), 'unit_amount')}",
            actor=subscription.get("customer", REFERENCE) or "",
            about=(StripeSubscription, subscription_id),
            section="subscriptions",
        )


@handles("stripe", *(f"invoice.{action}" for action in (*_INVOICES, *_OTHERS_OF_INVOICES)))
def invoice(event: Event) -> None:
    """An invoice was made, sent, paid or not. One that is only announced has no id, and is not kept."""
    report = _Report(event)
    invoice, about = report.object, None
    if event.action != "upcoming":
        document = {"subscription_id": _subscription_id(invoice), **invoice.document(_INVOICE)}
        about = StripeInvoice, report.keep(StripeInvoice, document)
    if event.action in _INVOICES:
        name = f"invoice {invoice.text('number') or about[1]}" if about else "an invoice"
        actor = invoice.get("customer", REFERENCE) if event.action in _BY_CUSTOMER else ""
        verb, target = _INVOICES[event.action], f"{name}{_money(invoice, 'amount_due')}"
        report.emit(verb, target, actor=actor or "", about=about, section="invoices")


@handles("stripe", "checkout.session.completed")
def checkout(event: Event) -> None:
    report = _Report(event)
    customer, mode = report.object.get("customer", REFERENCE), report.object.text("mode")
    target = f"checkout{f' ({mode})' if mode else ''}{_money(report.object, 'amount_total')}"
    report.emit("completed", target, actor=customer or "", about=(StripeCustomer, customer) if customer else None)


@handles("stripe", "payout.paid", "payout.failed", "charge.refunded", "charge.dispute.created", "charge.dispute.closed")
def movement(event: Event) -> None:
    """Money went out of the account, or may have to. Nothing is kept of it."""
    report = _Report(event)
    target, _, verb = event.type.rpartition(".")
    amount = _money(report.object, "amount_refunded" if verb == "refunded" else "amount")
    name = " ".join(filter(None, (*target.split("."), report.object.get("id", ID))))
    report.emit(verb, f"{name}{amount}")


def _money(part: Part, field: str) -> str:
    amount = part.get(field, AMOUNT)
    return "" if amount is None else f" of {price(amount, part.text('currency'))}"


def _subscription_id(invoice: Part) -> Any:
    """The subscription that an invoice is for, in whichever place this API version says it: newer ones say null where
    it is for none."""
    stated = [invoice.look(f"{place}subscription", REFERENCE) for place in ("", "parent.subscription_details.")]
    return next((one for one in stated if isinstance(one, str)), None if None in stated else ABSENT)


# How many digits follow the point: two, but for these. Stripe's list of zero-decimal and three-decimal currencies.
_NONE = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"}
)
_THREE = frozenset({"BHD", "JOD", "KWD", "OMR", "TND"})


def price(amount: int, currency: str) -> str:
    """`20.00 USD` for 2000 and "usd". Without a currency just the number: nobody knows its unit."""
    code = currency.upper()
    digits = 0 if code in _NONE or not code else 3 if code in _THREE else 2
    whole, rest = divmod(abs(amount), 10**digits)
    fraction = f".{rest:0{digits}d}" if digits else ""
    return f"{'-' if amount < 0 else ''}{whole}{fraction} {code}".rstrip()
