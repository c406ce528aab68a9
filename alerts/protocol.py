"""What travels over the network: the bodies of requests about rules, and of answers about what fires."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, WithJsonSchema

from alerts import models
from alerts.domain import rules
from alerts.domain.judging import State
from alerts.domain.rules import Condition, Severity, Unit
from core.values import Body, Number, Text, Whole

# Inline in the document, whose definitions of all apps share their names.
AlertState = Annotated[State, WithJsonSchema({"type": "string", "enum": [State.FIRING, State.PENDING]})]
Name = Annotated[Text, Field(min_length=1, max_length=rules.LONGEST_NAME)]
Target = Annotated[
    Text, Field(max_length=rules.LONGEST_TARGET, description="One subject alone; empty: each has an alert.")
]
Threshold = Annotated[Number, Field(ge=0, description="It fires above this, in the unit of the condition.")]
Address = Annotated[Text, Field(max_length=254)]
MailTo = Annotated[list[Address], Field(max_length=rules.MOST_ADDRESSES)]
WebhookUrl = Annotated[
    Text, Field(max_length=2000, description="Takes what Slack's incoming webhooks take; empty: none. Never shown.")
]


Window = Annotated[
    Whole,
    Field(ge=rules.SHORTEST_WINDOW_S, le=rules.LONGEST_WINDOW_S, description="Seconds that are counted together."),
]
Hold = Annotated[Whole, Field(ge=0, le=rules.LONGEST_S, description="Seconds that it must hold before it fires.")]
KeepFiring = Annotated[
    Whole, Field(ge=0, le=rules.LONGEST_S, description="Seconds that it must not hold before it is resolved.")
]
Repeat = Annotated[
    Whole, Field(ge=0, le=rules.LONGEST_S, description="Seconds between two messages while it fires; 0: one message.")
]


class ChangedAlertRule(Body):
    """What is to be otherwise of a rule; what is left out stays."""

    name: Name = ""
    target: Target = ""
    threshold: Threshold = 0
    window_s: Window = 900
    hold_s: Hold = 300
    keep_firing_s: KeepFiring = 300
    repeat_s: Repeat = 4 * 3600
    severity: Severity = Severity.WARNING
    mail_to: MailTo = []
    webhook_url: WebhookUrl = ""
    is_enabled: bool = True

    def values(self, *, of: models.Rule | None) -> dict[str, Any]:
        """The values of a rule as operations take them: those of the rule `of` that are not named here stay."""
        named = self.model_dump(exclude={"condition"}, exclude_unset=of is not None)
        if "mail_to" in named:
            named["mail_to"] = ", ".join(named["mail_to"])
        kept = {} if of is None else {name: getattr(of, name) for name in type(self).model_fields if hasattr(of, name)}
        return kept | {"webhook_url": None} | named


class NewAlertRule(ChangedAlertRule):
    """A rule to make."""

    condition: Annotated[Text, Field(max_length=50, examples=["jobs_wait"])]
    name: Name
    threshold: Threshold | None = Field(None, description="Null: that of the condition.")  # type: ignore[assignment]


class NewAlertMute(Body):
    """For how long nothing of a rule is sent."""

    for_s: Annotated[Whole, Field(ge=1, le=rules.LONGEST_MUTE_S)]


class AlertRule(BaseModel):
    """What is watched, and who gets a message."""

    id: int
    name: str
    condition: str
    target: str
    threshold: float
    window_s: int
    hold_s: int
    keep_firing_s: int
    repeat_s: int
    severity: Severity
    mail_to: list[str]
    webhook_host: str = Field(description="Of its webhook; empty: none.")
    is_enabled: bool
    muted_until: datetime | None
    created_at: datetime
    firing: int = Field(description="Alerts that fire.")
    pending: int = Field(description="Alerts that hold, not yet long enough.")
    observed_at: datetime | None = Field(description="When it was judged last with something known.")
    notified_at: datetime | None
    unknown: str = Field(description="Why nothing is known now; empty: something is.")

    @classmethod
    def of(cls, row: Any) -> Self:
        """The wire form of a row of `queries.rules`."""
        same = {name: getattr(row, name) for name in cls.model_fields.keys() - {"mail_to"}}
        return cls(mail_to=rules.addresses(row.mail_to), **same)


class AlertRules(BaseModel):
    """All rules, by name."""

    rules: list[AlertRule]


class SentAlertTest(BaseModel):
    """What a test message came to."""

    messages: int = Field(description="Recipients; 0: the rule names none. What becomes of each is on its page.")


class Alert(BaseModel):
    """What fires, or is about to."""

    rule: int
    rule_name: str
    severity: Severity
    subject: str = Field(description="The queue, kind, cron ... it is about; empty: the farm.")
    state: AlertState
    value: float = Field(description="In the unit of the rule's condition.")
    since: datetime

    @classmethod
    def of(cls, row: models.Alert) -> Self:
        return cls(
            rule=row.rule_id, rule_name=row.rule.name, severity=Severity(row.rule.severity), subject=row.subject,
            state=State(row.state), value=row.value, since=row.since,
        )  # fmt: skip


class Alerts(BaseModel):
    """What fires now: firing first, the critical first."""

    firing: int
    pending: int
    judged_at: datetime | None = Field(description="When a rule was judged last; null: none was.")
    alerts: list[Alert] = Field(description="The first 100.")

    @classmethod
    def of(cls, alerts: list[models.Alert], counts: Mapping[str, int], *, judged_at: datetime | None) -> Self:
        return cls(
            firing=counts.get(State.FIRING, 0), pending=counts.get(State.PENDING, 0), judged_at=judged_at,
            alerts=[Alert.of(row) for row in alerts],
        )  # fmt: skip


class AlertCondition(BaseModel):
    """A condition that a rule may watch."""

    code: str
    title: str
    unit: Unit
    target: str = Field(description="What its subjects are; empty: it has none.")
    threshold: float = Field(description="Of a rule that names none.")
    is_windowed: bool = Field(description="Whether `window_s` has an effect.")

    @classmethod
    def of(cls, condition: Condition) -> Self:
        return cls(**{name: getattr(condition, name) for name in cls.model_fields})


class AlertConditions(BaseModel):
    """All conditions."""

    conditions: list[AlertCondition]
