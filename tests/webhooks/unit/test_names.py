"""What things are called where they are listed: a name is a link's text, so it is never empty."""

from tests.looped import looped
from webhooks.models import SandboxTelemetry
from webhooks.models.resources import JiraIssue, SandboxToolUse


class TestNames:
    @looped(
        ("resource", "name"),
        [
            (JiraIssue(external_id="7", document={"key": "FARM-1", "summary": "It rains"}), "FARM-1 It rains"),
            (JiraIssue(external_id="7"), "7"),
            (SandboxToolUse(external_id="8", document={"tool": "Bash"}), "Bash"),
            (SandboxToolUse(external_id="8"), "8"),
            (SandboxTelemetry(external_id="9.0", script="gate", subject="/in"), "gate /in"),
            (SandboxTelemetry(external_id="9.0"), "9.0"),
        ],
    )
    def test_are_the_sources_id_where_it_has_no_words(self, resource: object, name: str) -> None:
        assert str(resource) == name
