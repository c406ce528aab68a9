from typing import Any, Final

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin, UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.admin import ModelAdmin, StackedInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from accounts import domain, operations, queries
from accounts.errors import InactiveUser
from accounts.models import ApiToken, AuditLine, MemberGroup
from core import administration, pages

for model in (User, Group, EmailAddress, UserSession, Authenticator, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(model):  # of these people have pages
        admin.site.unregister(model)

_ITSELF: Final = "you yourself, which another administrator may do"


def _forget_second_factors(_: HttpRequest, person: User) -> str:
    operations.forget_second_factors(person)
    return "by password alone, or with a new one"


@admin.register(User)
class UserAdmin(administration.Paged, DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]  # unfold ships no types
    """People, with a way to let somebody in who has no password."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "email", "is_active", "is_staff", "is_superuser", "last_login"]
    list_filter = [
        "is_active", "is_staff", "is_superuser", ("as_guest", admin.EmptyFieldListFilter),
        administration.known("staff group", "groups__name", queries.groups_of_staff),
        administration.by_day("date_joined"),
    ]  # fmt: skip
    filter_horizontal = ["user_permissions"]
    autocomplete_fields = ["groups"]
    readonly_fields = ["last_login", "date_joined"]
    actions = ["make_login_link", "forget_second_factors"]

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Only superusers: a link to a superuser's account would make its maker one."""
        return bool(request.user.is_superuser)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Nobody deletes themselves here: it would log them out, and may leave the site to nobody."""
        *rest, protected = administration.deleted_objects(objs, request)
        itself = [_ITSELF] if request.user in objs else []
        return *rest, [*protected, *itself]

    @admin.action(description="Create a one-time log-in link", permissions=["operate"])
    def make_login_link(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for person in queryset:
            try:
                link = request.build_absolute_uri(operations.one_time_link(person))
            except InactiveUser as refusal:
                self.message_user(request, refusal.message, messages.ERROR)
                continue
            self.message_user(request, f"Logs {person} in once, within a day: {link}", messages.SUCCESS)

    forget_second_factors = administration.on_each(
        "Let {} in without second factors (a lost device)", _forget_second_factors, line=str
    )


class InvitationInline(StackedInline):  # type: ignore[misc]
    """Who made a group of members, and whether its invitation opens it."""

    model = MemberGroup
    fields = ["maker", "created_at", "is_inviting"]
    readonly_fields = ["maker", "created_at"]
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's signature
        """Never: a group is made by members or by staff, and stays so."""
        return False


def _maker(group: Group) -> str:
    by_members = getattr(group, "by_members", None)
    return str(by_members.maker or "a deleted account") if by_members else "staff"


@admin.register(Group)
class GroupAdmin(administration.Paged, DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    """Groups: whoever is in one sees its jobs. Where members made it, its invitation can be closed here."""

    list_display = ["name", "size", "maker"]
    list_filter = [("by_members", admin.EmptyFieldListFilter)]
    inlines = [InvitationInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        of_group = User.groups.through.objects.filter(group_id=OuterRef("pk")).order_by()
        people = Subquery(of_group.values("group_id").annotate(n=Count("pk")).values("n"))  # type: ignore[misc]  # an annotation that the plugin misses
        return super().get_queryset(request).select_related("by_members__maker").annotate(people=people)

    def get_inline_instances(self, request: HttpRequest, obj: Group | None = None) -> list[Any]:
        """None for a group of staff: it has no invitation, and gets none here."""
        has_invitation = obj is not None and MemberGroup.objects.filter(pk=obj.pk).exists()
        return super().get_inline_instances(request, obj) if has_invitation else []

    size = administration.shown("Members", lambda group: group.people or 0)
    maker = administration.shown("Created by", _maker)


def _revoke(_: HttpRequest, token: ApiToken) -> str:
    operations.revoke_token(token.pk, by=None)
    return "revoked"


@admin.register(ApiToken)
class ApiTokenAdmin(administration.Operated, administration.Paged, ModelAdmin):  # type: ignore[misc]
    """Whose programs may call. Keys are not here: they are shown once, to the person who makes them."""

    operate = "accounts.delete_apitoken"
    list_display = ["name", "user", "key_hint", "scopes", "created_at", "expires_at", "last_used_at", "status"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), administration.by_day("created_at")]
    list_select_related = ["user"]
    search_fields = ["name", "user__username", "key_hint"]
    fields = ["name", "user", "key_hint", "scopes", "keep_content"]
    fields += ["created_at", "expires_at", "last_used_at", "revoked_at"]
    readonly_fields = fields
    actions = ["revoke"]

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Without Django's own: a token that is revoked says when, one that is deleted says nothing."""
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # the admin's signature
        """Never: people make their own on their account page, operators with `manage.py create_token`."""
        return False

    status = administration.shown(
        "Status", lambda token: "revoked" if token.revoked_at else "active",
        label={"revoked": "danger", "active": "success"},
    )  # fmt: skip
    revoke = administration.on_each("Revoke {}", _revoke, line=lambda token: f"{token} of {token.user}")


def _object_link(line: AuditLine) -> SafeString | str:
    kind = line.content_type
    about = LogEntry(content_type=kind, object_id=line.object_id) if kind and line.event != "deleted" else None
    url = about and about.get_admin_url()
    return format_html('<a href="{}">{}</a>', url, line.about) if url else line.about


@admin.register(AuditLine)
class AuditAdmin(administration.BoundedList):
    """Who did what: how people came in and went, what became of their rights and tokens, and what staff did."""

    list_display = ["at", "event_name", "by", "object_link", "address", "excerpt"]
    list_display_links = ["at"]
    list_filter = [administration.known("event", "event", lambda: domain.EVENTS), administration.by_day("at")]
    list_select_related = ["by", "content_type"]
    list_after_template = "admin/audit.html"
    search_fields = ["=by__username", "=about", "=object_id", "=address"]
    search_help_text = "A username, an address, or the id of the object"
    fields = ["at", "event_name", "by", "object_link", "address", "summary"]
    event_name = administration.shown("Event", lambda line: line.event.replace("_", " ").capitalize())
    object_link = administration.shown("About", _object_link)
    excerpt = administration.shown("Summary", lambda line: Truncator(line.summary).chars(300))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.export)
        files = [path(f"audit.{kind}", view, {"kind": kind}, name=f"audit_{kind}") for kind in ("csv", "jsonl")]
        return [*files, *super().get_urls()]

    def export(self, request: HttpRequest, kind: str) -> HttpResponse:
        """The lines that the list would show as a file, newest first; `before` stands in the Link to the next one."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        changes = self.get_changelist_instance(request)
        lines = list(changes.get_queryset(request)[: administration.COUNTED])
        headings = [name.replace("_", " ").capitalize() for name in AuditLine.COLUMNS]
        older = lines[-1].pk if len(lines) == administration.COUNTED else changes.floor
        return pages.export(request, kind, headings, (line.row for line in lines), name="audit", older=older)
