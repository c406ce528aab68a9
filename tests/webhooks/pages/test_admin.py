"""The administration of the inbox: to look at, to search, and to replay."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from core.administration import registered
from tests.webhook_samples import FOLDER
from tests.webhooks.inbox.support import pass_time, receive
from webhooks import operations
from webhooks.domain.deliveries import Source
from webhooks.models import Activity, ActivityDigest, Delivery, DeliveryAttempt, Resource, Rule, Secret
from webhooks.models.resources import CatalogModel, GithubIssue, GithubReview

pytestmark = pytest.mark.usefixtures("transactional_db")

LIST = "/admin/webhooks/delivery/"
ELSEWHERE = {DeliveryAttempt, CatalogModel}  # shown as parts of what they belong to
NOWHERE = {ActivityDigest, Resource}  # a cache; a table whose types have pages each


def tables() -> list[Any]:
    return [model for model in apps.get_app_config("webhooks").get_models() if model not in ELSEWHERE | NOWHERE]


def do(client: Client, pks: list[int], **further: str) -> str:
    data = {"action": "replay_selected", "_selected_action": [str(pk) for pk in pks], **further}
    return client.post(LIST, data, follow=True).content.decode()


def test_has_every_table_to_look_at_and_none_but_rules_to_change(operator: Client) -> None:
    pages = registered()
    assert [model.__name__ for model in tables() if model not in pages] == []
    for model in tables():
        url = reverse(f"admin:webhooks_{model._meta.model_name}_changelist")
        assert operator.get(url, {"q": "x"}).status_code == 200, url
        assert operator.get(f"{url}add/").status_code == (200 if model is Rule else 403), url


def test_shows_things_with_what_they_belong_to(operator: Client) -> None:
    """Also when that never came: a review whose pull request nobody told of."""
    samples = {"pull_request.opened": "pull_request.opened.1.json", "issues.opened": "issues.opened.1.json"}
    for event_type, name in samples.items():
        receive(body=(FOLDER / "github" / name).read_bytes(), event_type=event_type, delivery_id=name)
    pass_time()
    assert set(Delivery.objects.values_list("status", flat=True)) == {"processed"}
    document = {"parent": "nobody told of it", "state": "approved", "author": "ada"}
    GithubReview.objects.create(type="githubreview", external_id="9", document=document)
    for model in ("githubpullrequest", "githubissue", "githubrepository", "githubreview"):
        listed = operator.get(f"/admin/webhooks/{model}/")
        assert listed.status_code == 200
        pk = apps.get_model("webhooks", model).objects.values_list("pk", flat=True).first()
        assert operator.get(f"/admin/webhooks/{model}/{pk}/change/").status_code == 200
    repository = apps.get_model("webhooks", "githubrepository").objects.get()
    page = operator.get("/admin/webhooks/githubissue/").content.decode()
    assert repository.document["full_name"] in page
    assert "nobody told of it" in operator.get("/admin/webhooks/githubreview/").content.decode()


def test_lists_all_that_belongs_to_one_thing_by_the_link_of_its_name(operator: Client) -> None:
    for number, parent in enumerate(["1/a&b", "1/a&b", "2"]):
        document = {"number": number, "title": f"issue-{number}", "parent": parent}
        GithubIssue.objects.create(type="githubissue", external_id=str(number), document=document)
    everything = operator.get("/admin/webhooks/githubissue/").content.decode()
    assert 'href="/admin/webhooks/githubissue/?parent=1%2Fa%26b"' in everything
    page = operator.get("/admin/webhooks/githubissue/?parent=1%2Fa%26b").content.decode()
    assert [f"issue-{number}" in page for number in range(3)] == [True, True, False]


class TestDeliveries:
    def test_are_found_by_words_ids_types_and_numbers(self, operator: Client) -> None:
        one = receive({"repo": "sandcastle"}, delivery_id="first", event_type="push")
        other = receive(delivery_id="second")
        pass_time()
        for term in ("sandcastle", "first", "push", str(one.pk)):
            page = operator.get(LIST, {"q": term}).content.decode()
            links = [f"{LIST}{row.pk}/change/" in page for row in (one, other)]
            assert (term, links) == (term, [True, False])

    def test_show_body_headers_attempts_and_activity(self, operator: Client) -> None:
        delivery = receive({"shown": "in the body"}, delivery_id="first")
        Delivery.objects.filter(pk=delivery.pk).update(headers={"user-agent": "probe", "cookie": "(kept out)"})
        Activity.objects.create(
            delivery_id=delivery.pk, n=0, source="github", at=delivery.received_at, verb="answer", object="of it"
        )
        pass_time()
        page = operator.get(f"{LIST}{delivery.pk}/change/", follow=True).content.decode()
        for sentence in (
            "in the body",
            "user-agent",
            "(kept out)",
            "Processed by",
            "answer",
            "of it",
            'data-live="delivery"',
        ):
            assert sentence in page

    def test_are_replayed_after_a_question(self, operator: Client) -> None:
        done, waits = receive(delivery_id="a"), receive(delivery_id="b")
        Delivery.objects.filter(pk=done.pk).update(status="ignored", ended_at=done.received_at)
        confirmation = do(operator, [done.pk, waits.pk])
        assert "<li>1 ignored</li><li>1 received</li>" in confirmation
        assert Delivery.objects.get(pk=done.pk).status == "ignored"
        answer = do(operator, [done.pk, waits.pk], confirmed="yes")
        assert "1 processed again" in answer
        assert "it waits to be processed already" in answer
        assert Delivery.objects.get(pk=done.pk).status == "received"
        assert LogEntry.objects.get().object_id == str(done.pk)

    def test_are_not_replayed_by_who_may_only_look(self, watcher: Client) -> None:
        delivery = receive()
        pass_time()
        do(watcher, [delivery.pk], confirmed="yes")
        assert Delivery.objects.get().status == "ignored"
        assert watcher.get(f"{LIST}{delivery.pk}/change/", follow=True).status_code == 200


class TestSecrets:
    def test_are_never_shown(self, operator: Client) -> None:
        row, secret = operations.add(Source.GITHUB)
        _, token = operations.create_token("box-1")
        sealed = bytes(Secret.objects.get().sealed).decode()
        urls = ["/admin/webhooks/secret/", f"/admin/webhooks/secret/{row.pk}/change/", "/admin/webhooks/sandboxtoken/"]
        for url in urls:
            page = operator.get(url).content.decode()
            assert [word in page for word in (secret, sealed, token)] == [False] * 3

    def test_are_retired_after_a_question(self, operator: Client) -> None:
        row, _ = operations.add(Source.GITHUB)
        data = {"action": "retire_selected", "_selected_action": str(row.pk)}
        confirmation = operator.post("/admin/webhooks/secret/", data).content.decode()
        assert f"GitHub {row.fingerprint}" in confirmation
        assert Secret.objects.get().retired_at is None
        operator.post("/admin/webhooks/secret/", {**data, "confirmed": "yes"})
        assert Secret.objects.get().retired_at is not None
