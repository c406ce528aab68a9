"""Alerts over the network: what fires, and the rules, for programs of who may see and change them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from accounts import operations as accounts
from alerts import operations
from alerts.models import Alert, Rule
from postgres import clock
from tests import farm
from tests.alerts import watching

pytestmark = pytest.mark.django_db
AT = "/api/v1/alerts"
NEW = {"name": "Waits", "condition": "jobs_wait", "mail_to": ["ops@example.org"]}
Call = Callable[..., Any]


def program(of: User) -> Call:
    """A call of a program of somebody's, answered with this status; its JSON."""
    _, key = accounts.create_token(of, name="program")
    client = Client(headers={"Authorization": f"Bearer {key}"})

    def ask(method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = getattr(client, method)(f"{AT}{path}", body, content_type="application/json")
        assert answer.status_code == status, answer.content
        return answer.json()

    return ask


@pytest.fixture
def call() -> Call:
    return program(User.objects.create_superuser("root"))


class TestARule:
    def test_is_made_with_the_threshold_of_its_condition_unless_one_is_named(self, call: Call) -> None:
        made = call("post", "/rules", NEW, status=201)
        assert (made["threshold"], made["mail_to"], made["is_enabled"]) == (900, ["ops@example.org"], True)
        other = call("post", "/rules", NEW | {"name": "Long", "threshold": 3600.5}, status=201)
        assert other["threshold"] == 3600.5
        assert [row["name"] for row in call("get", "/rules")["rules"]] == ["Long", "Waits"]

    def test_is_changed_where_the_call_says_so_and_stays_as_it_was_elsewhere(self, call: Call) -> None:
        url = "https://hooks.example/services/secret"
        made = call("post", "/rules", NEW | {"webhook_url": url}, status=201)
        changed = call("patch", f"/rules/{made['id']}", {"severity": "critical"})
        assert changed == made | {"severity": "critical"}
        assert changed["webhook_host"] == "hooks.example"
        assert "secret" not in str(changed)
        without = call("patch", f"/rules/{made['id']}", {"webhook_url": "", "mail_to": []})
        assert (without["webhook_host"], without["mail_to"], without["severity"]) == ("", [], "critical")

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            pytest.param({"condition": "burns"}, "bad_rule", id="no condition"),
            pytest.param({"repeat_s": 60}, "bad_rule", id="repeated each minute"),
            pytest.param({"mail_to": ["nobody"]}, "bad_rule", id="no address"),
            pytest.param({"webhook_url": "ftp://x.example/"}, "bad_rule", id="ftp"),
            pytest.param({"threshold": -1}, "invalid", id="a negative threshold"),
            pytest.param({"name": ""}, "invalid", id="no name"),
            pytest.param({"colour": "red"}, "invalid", id="an unknown field"),
        ],
    )
    def test_that_cannot_be_is_refused_with_the_reason(self, call: Call, change: dict[str, Any], code: str) -> None:
        assert call("post", "/rules", NEW | change, status=422)["error"] == code
        assert not Rule.objects.exists()

    def test_is_muted_unmuted_and_deleted(self, call: Call) -> None:
        pk = call("post", "/rules", NEW, status=201)["id"]
        assert call("post", f"/rules/{pk}/mute", {"for_s": 3600})["muted_until"] is not None
        assert call("post", f"/rules/{pk}/mute", {"for_s": 0}, status=422)["error"] == "invalid"
        assert call("post", f"/rules/{pk}/unmute")["muted_until"] is None
        assert call("delete", f"/rules/{pk}") == {"id": pk, "deleted": True}
        for method, path in (("get", ""), ("patch", ""), ("delete", ""), ("post", "/unmute")):
            assert call(method, f"/rules/{pk}{path}", {} if method == "patch" else None, status=404)

    @pytest.mark.parametrize("right", ["view", "add", "change", "delete"])
    def test_takes_the_right_for_each_call(self, right: str) -> None:
        row = watching.make("jobs_wait")
        ann = farm.user("ann", is_staff=True)
        ann.user_permissions.add(Permission.objects.get(content_type__app_label="alerts", codename=f"{right}_rule"))
        call = program(ann)
        calls = {
            "view": ("get", f"/rules/{row.pk}", None, 200), "add": ("post", "/rules", NEW, 201),
            "change": ("patch", f"/rules/{row.pk}", {}, 200), "delete": ("delete", f"/rules/{row.pk}", None, 200),
        }  # fmt: skip
        for needed, (method, path, body, _) in calls.items():
            if needed != right:
                refused = call(method, path, body, status=403)
                assert (refused["error"], refused["right"]) == ("forbidden", f"alerts.{needed}_rule")
        method, path, body, status = calls[right]
        assert call(method, path, body, status=status)


def test_what_fires_is_there_with_the_moment_of_the_judgement(call: Call) -> None:
    row = watching.make("jobs_wait", name="Waits", severity="critical")
    assert call("get", "") == {"firing": 0, "pending": 0, "judged_at": None, "alerts": []}
    now = clock.now()
    for subject, state in (("chat", "firing"), ("images", "pending"), ("old", "resolved")):
        Alert.objects.create(rule=row, subject=subject, state=state, value=1000, since=now, known_at=now)
    Rule.objects.update(observed_at=now)
    shown = call("get", "")
    assert (shown["firing"], shown["pending"], shown["judged_at"] is not None) == (1, 1, True)
    assert [(one["rule"], one["subject"], one["state"]) for one in shown["alerts"]] == [
        (row.pk, "chat", "firing"), (row.pk, "images", "pending"),
    ]  # fmt: skip
    operations.change(row.pk, {**watching.VALUES, "is_enabled": False}, by=User.objects.get(username="root"))
    assert call("get", "")["alerts"] == []


def test_conditions_are_listed_with_their_units(call: Call) -> None:
    by_code = {one["code"]: one for one in call("get", "/conditions")["conditions"]}
    assert by_code["jobs_wait"]["unit"] == "seconds"
    assert by_code["kind_failure_share"] == {
        "code": "kind_failure_share", "title": "Share of jobs that failed or timed out, of at least 5, by kind",
        "unit": "percent", "target": "kind", "threshold": 20, "is_windowed": True,
    }  # fmt: skip
