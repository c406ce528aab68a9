"""Stripe's events: what they write and how they read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webhook_samples import all_stored, changed, fields, line, lines, report, stored
from webhooks.models import Activity
from webhooks.models.resources import StripeCustomer, StripeInvoice, StripeSubscription

pytestmark = pytest.mark.django_db

CUSTOMER = "stripe/customer.created.1.json"
SUBSCRIPTION = "stripe/customer.subscription.created.1.json"
INVOICE = "stripe/invoice.finalized.1.json"


def at(file: str, second: int, **changes: Any) -> dict[str, Any]:
    """The body of a sample, as of another second."""
    return changed(file, created=1648320000 + second, **changes)


class TestCustomers:
    def test_are_kept(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(2):  # the customer, the line
            report(CUSTOMER)
        customer = stored(StripeCustomer)
        assert (str(customer), customer.description) == ("cus_00000000000000", "(created by Stripe CLI)")
        assert (customer.is_delinquent, customer.is_live, customer.balance) == (False, False, 0)
        assert line() == (
            "created customer cus_00000000000000",
            "https://dashboard.stripe.com/test/customers/cus_00000000000000",
            "stripecustomer cus_00000000000000",
        )

    def test_that_were_deleted_stay_so(self) -> None:
        report(CUSTOMER, type="customer.deleted", body=at(CUSTOMER, 200))
        report(CUSTOMER, type="customer.updated", body=at(CUSTOMER, 201, data__object__name="Ada"))
        assert fields(StripeCustomer, "name", "deleted_at") == (
            "Ada", datetime(2022, 3, 26, 18, 43, 20, tzinfo=UTC),
        )  # fmt: skip
        assert lines() == ["deleted customer cus_00000000000000"]

    def test_link_to_the_live_dashboard_where_money_is_real(self) -> None:
        report(CUSTOMER, body=changed(CUSTOMER, livemode=True))
        assert line()[1] == "https://dashboard.stripe.com/customers/cus_00000000000000"


class TestSubscriptions:
    def test_are_kept(self) -> None:
        report(SUBSCRIPTION)
        kept = stored(StripeSubscription)
        assert (kept.parent, kept.status, kept.amount, kept.currency) == ("cus_00000000000000", "active", 1500, "usd")
        assert (kept.interval, kept.quantity, kept.ends_with_period) == ("month", 1, False)
        assert kept.period_ends_at == datetime(2022, 4, 26, 18, 41, 50, tzinfo=UTC)
        assert line()[0] == "cus_00000000000000 began subscription sub_000000000000000000000000 of 15.00 USD"

    def test_of_newer_versions_have_their_period_on_the_item(self) -> None:
        report("stripe/customer.subscription.updated.2.json")
        kept = stored(StripeSubscription)
        assert kept.period_ends_at == datetime(2000, 12, 8, 15, 2, 53, tzinfo=UTC)
        assert not Activity.objects.exists()

    def test_that_ended_stay_so_within_one_second(self) -> None:
        ended = at(SUBSCRIPTION, 0, data__object__status="canceled")
        report(SUBSCRIPTION, type="customer.subscription.deleted", body=ended)
        report(SUBSCRIPTION, type="customer.subscription.updated", body=at(SUBSCRIPTION, 0))
        report(SUBSCRIPTION, body=at(SUBSCRIPTION, 0))
        kept = stored(StripeSubscription)
        assert (kept.status, kept.deleted_at) == ("canceled", datetime(2022, 3, 26, 18, 40, tzinfo=UTC))

    def test_get_on_within_one_second(self) -> None:
        updated = {status: at(SUBSCRIPTION, 0, data__object__status=status) for status in ("past_due", "active")}
        for body in updated.values():
            report(SUBSCRIPTION, type="customer.subscription.updated", body=body)
        assert stored(StripeSubscription).status == "past_due"

    def test_without_items_have_no_price(self) -> None:
        report(SUBSCRIPTION, body=changed(SUBSCRIPTION, data__object__items={"data": []}))
        assert fields(StripeSubscription, "price", "amount") == ("", None)
        assert line()[0] == "cus_00000000000000 began subscription sub_000000000000000000000000"


class TestInvoices:
    def test_are_kept(self) -> None:
        report(INVOICE)
        kept = stored(StripeInvoice)
        assert (kept.number, kept.status, kept.currency, kept.amount_due) == ("EE1DF78D-0001", "paid", "usd", 2000)
        assert line()[0] == "sent invoice EE1DF78D-0001 of 20.00 USD"

    def test_know_their_subscription_in_both_shapes(self) -> None:
        report("stripe/invoice.created.1.json")
        report("stripe/invoice.paid.2.json")
        known = [getattr(invoice, "subscription_id", None) for invoice in all_stored(StripeInvoice)]
        assert sorted(filter(None, known)) == ["sub_000000000000000000000000", "subscription"]

    def test_of_one_second_end_paid(self) -> None:
        paid = at(INVOICE, 0, data__object__status="paid", data__object__amount_paid=2000)
        report(INVOICE, type="invoice.paid", body=paid)
        opened = {"data__object__status": "open", "data__object__amount_paid": 0}
        for event in ("payment_failed", "finalized", "updated", "created"):
            report(INVOICE, type=f"invoice.{event}", body=at(INVOICE, 0, **opened))
        assert fields(StripeInvoice, "status", "amount_paid") == ("paid", 2000)

    def test_that_are_announced_are_told_and_not_kept(self) -> None:
        body = changed(INVOICE, data__object__number=None)
        del body["data"]["object"]["id"], body["data"]["object"]["status"]
        report(INVOICE, type="invoice.upcoming", body=body)
        assert not StripeInvoice.objects.exists()
        assert line() == ("cus_00000000000000 is soon to get an invoice of 20.00 USD", "", "")

    def test_that_were_deleted_stay_so(self) -> None:
        report(INVOICE, type="invoice.deleted")
        report(INVOICE, type="invoice.created")
        assert stored(StripeInvoice).deleted_at is not None

    @pytest.mark.parametrize(
        ("event", "text"),
        [
            ("paid", "cus_00000000000000 paid"),
            ("payment_failed", "cus_00000000000000 could not be charged for"),
            ("voided", "voided"),
            ("marked_uncollectible", "gave up on"),
        ],
    )
    def test_tell_what_became_of_them(self, event: str, text: str) -> None:
        report(INVOICE, type=f"invoice.{event}")
        assert line()[0] == f"{text} invoice EE1DF78D-0001 of 20.00 USD"

    @pytest.mark.parametrize("event", ["updated", "sent", "payment_succeeded"])
    def test_say_nothing_of_what_is_told_otherwise(self, event: str) -> None:
        report(INVOICE, type=f"invoice.{event}")
        assert (StripeInvoice.objects.count(), Activity.objects.count()) == (1, 0)


class TestMoney:
    @pytest.mark.parametrize(
        ("file", "event", "text"),
        [
            ("payout.paid.1", "payout.paid", "paid payout po_000000000000000000000000 of 11.00 USD"),
            ("charge.succeeded.1", "charge.refunded", "refunded charge ch_000000000000000000000000 of 0.00 USD"),
            ("payout.paid.1", "charge.dispute.created",
             "created charge dispute po_000000000000000000000000 of 11.00 USD"),
            ("checkout.session.completed.1", "checkout.session.completed",
             "cus_00000000000000 completed checkout (payment) of 30.00 USD"),
        ],
    )  # fmt: skip
    def test_that_moves_is_told(self, file: str, event: str, text: str) -> None:
        report(f"stripe/{file}.json", type=event)
        assert line()[0] == text
