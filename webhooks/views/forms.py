from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar, Final

from django import forms

from core.values import moment
from webhooks import live_queries
from webhooks.domain.deliveries import Source, Status
from webhooks.handlers import registry

_ANY: Final = [("", "Any")]
_SOURCES: Final = [*_ANY, *((source.value, source.label) for source in Source)]
_GRACES: Final = [("0", "at once"), ("1", "in an hour"), ("24", "in a day"), ("168", "in a week")]
LONGEST_BODY: Final = 200_000  # characters of a test delivery; `manage.py webhooks send` takes what is longer
BEFORE: Final = 100  # characters that the mark of a page of activity has at most


def _hours(text: str) -> timedelta:
    return timedelta(hours=int(text))


class Moment(forms.CharField):
    """A moment as `<input type="datetime-local">` says it, in UTC; kept as text."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        if text and moment(text) is None:
            raise forms.ValidationError("Enter a date and a time, like 2026-09-30T14:05.")
        return text


def _search(placeholder: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"type": "search", "placeholder": placeholder})
    return forms.CharField(required=False, max_length=200, label="Text", widget=widget)


class _Form(forms.Form):
    """A form whose fields have ids of its own on the page."""

    ids: ClassVar[str]

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, auto_id=f"{self.ids}-%s", **options)

    def shown(self) -> dict[str, str]:
        self.is_valid()
        return {name: value for name in self.fields if (value := self.cleaned_data.get(name))}


class FilterForm(_Form):
    ids = "filter"
    text = _search("words, an id, a type")
    source = forms.ChoiceField(required=False, choices=_SOURCES)
    _statuses = [(status.value, status.value) for status in Status]
    status = forms.ChoiceField(
        required=False, choices=[*_ANY, (live_queries.TROUBLE, "failed, dead or rejected"), *_statuses]
    )
    event = forms.CharField(
        required=False,
        max_length=255,
        label="Type",
        widget=forms.TextInput(attrs={"list": "known-types", "autocomplete": "off"}),
    )
    sandbox = forms.CharField(required=False, max_length=100)
    since = Moment(required=False, label="From (UTC)", max_length=40)
    until = Moment(required=False, label="Until (UTC)", max_length=40)
    before = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    further = ("event", "sandbox", "since", "until")

    def shown(self) -> dict[str, str]:
        return {name: value for name, value in super().shown().items() if name != "before"}

    def page(self) -> int:
        """The id before which the page begins; 0 for the newest."""
        self.is_valid()
        return self.cleaned_data.get("before") or 0

    def is_further(self) -> bool:
        """Whether a filter is set, or wrong, that stands folded away."""
        return any(self.data.get(name) for name in self.further)


class ActivityForm(_Form):
    ids = "filter"
    text = _search("in actors, actions, objects")
    source = forms.ChoiceField(required=False, choices=_SOURCES)
    kind = forms.SlugField(required=False, max_length=40, widget=forms.HiddenInput)
    resource = forms.CharField(required=False, max_length=255, widget=forms.HiddenInput)
    before = forms.CharField(required=False, max_length=BEFORE, widget=forms.HiddenInput)


class SecretForm(_Form):
    ids = "secret"
    secret = forms.CharField(
        required=False, max_length=255, strip=False, label="The sender's secret",
        help_text="Paste it if the sender created one (Clerk, Stripe). If empty, one is generated here and shown once.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip
    name = forms.CharField(required=False, max_length=100, label="Name", help_text="For people: where it is used.")
    grace = forms.TypedChoiceField(
        choices=[("", "stay live"), *((hours, f"retire {when}") for hours, when in _GRACES)], coerce=_hours,
        empty_value=None, required=False, label="Current secrets",
        help_text="A rotation: until then both are accepted, so no request is refused while you change the sender.",
    )  # fmt: skip


class RetireForm(forms.Form):
    grace = forms.TypedChoiceField(choices=_GRACES, coerce=_hours)


class TokenForm(_Form):
    ids = "token"
    sandbox = forms.CharField(max_length=100, help_text="Its name, as deliveries will show it.")
    days = forms.TypedChoiceField(
        choices=[("1", "a day"), ("7", "a week"), ("90", "90 days"), ("", "until revoked")],
        coerce=lambda days: timedelta(days=int(days)), empty_value=None, required=False, label="Valid for",
    )  # fmt: skip


class SendForm(_Form):
    ids = "test"
    event = forms.CharField(
        required=False, max_length=255, label="Type", widget=forms.TextInput(attrs={"list": "known-types"})
    )
    body = forms.CharField(
        max_length=LONGEST_BODY,
        strip=False,
        widget=forms.Textarea(attrs={"class": "mono", "rows": 14, "spellcheck": "false"}),
        help_text="Signed and posted byte for byte as written here.",
    )

    def bytes(self) -> bytes:
        """What is sent. Browsers end lines with CR LF."""
        body: str = self.cleaned_data["body"]
        return body.replace("\r\n", "\n").encode()


def known_types(source: str = "") -> list[str]:
    named = {event_type for at, event_type in registry.everything() if source in ("", at)}
    return sorted(name for name in named if not name.endswith(".*"))
