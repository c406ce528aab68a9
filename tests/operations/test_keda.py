"""deploy/keda: its fields are those of /api/v1/scale."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from django.test import Client
from pytest_django import Settings

from jobs.protocol.fleet import QueueScale
from tests import farm

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-prometheus"
FILE = Path(__file__).parents[2] / "deploy" / "keda" / "scaledobject.yaml"


@pytest.fixture(autouse=True)
def _with_a_token(settings: Settings) -> None:
    settings.METRICS_TOKEN = TOKEN


def scale(**params: Any) -> Any:
    """The answer's JSON."""
    return Client().get("/api/v1/scale", params, headers={"Authorization": f"Bearer {TOKEN}"}).json()


class TestKeda:
    """deploy/keda asks what there is, in the way that is answered."""

    documents = list(yaml.safe_load_all(FILE.read_text()))

    def test_asks_the_route_for_a_number_that_it_has(self) -> None:
        farm.kind("images")
        farm.submit(3, "images")
        [trigger] = self._scaled()["triggers"]
        metadata = trigger["metadata"]
        url = urlsplit(metadata["url"])
        assert trigger["type"] == "metrics-api"
        assert url.path == "/api/v1/scale"
        params = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert scale(**params)[metadata["valueLocation"]] == 3
        assert metadata["valueLocation"] in QueueScale.model_fields
        assert (metadata["targetValue"], trigger["metricType"]) == ("1", "AverageValue")

    def test_shows_its_token_as_the_route_wants_it(self) -> None:
        [trigger] = self._scaled()["triggers"]
        authentication = self._of_kind("TriggerAuthentication")
        assert trigger["metadata"]["authMode"] == "bearer"
        assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
        [secret] = authentication["spec"]["secretTargetRef"]
        assert secret["parameter"] == "token"

    def test_is_what_the_document_of_the_api_has(self) -> None:
        document = Client().get("/api/v1/openapi.json").json()
        parameters = {each["name"] for each in document["paths"]["/api/v1/scale"]["get"]["parameters"]}
        [trigger] = self._scaled()["triggers"]
        assert parse_qs(urlsplit(trigger["metadata"]["url"]).query).keys() <= parameters
        named = document["components"]["schemas"]["QueueScale"]["properties"]
        assert trigger["metadata"]["valueLocation"] in named

    def _scaled(self) -> Any:
        return self._of_kind("ScaledObject")["spec"]

    def _of_kind(self, kind: str) -> Any:
        [only] = [document for document in self.documents if document["kind"] == kind]
        assert only["apiVersion"] == "keda.sh/v1alpha1"
        return only
