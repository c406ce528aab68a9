"""People, groups and API tokens in the admin."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin, StackedInline
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from accounts import operations, queries
from accounts.errors import InactiveUser, NotFound
from accounts.models import ApiToken, MemberGroup
from core import administration

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]  # unfold ships no types
    """People, with a way to let somebody in who has no password."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "email", "is_active", "is_staff", "is_superuser", "last_login"]
    list_filter = [
        "is_active",
        "is_staff",
        "is_superuser",
        ("as_guest", admin.EmptyFieldListFilter),
        administration.known("staff group", "groups__name", queries.groups_of_staff),
        administration.by_day("date_joined"),
    ]
    filter_horizontal = ["user_permissions"]
    autocomplete_fields = ["groups"]
    paginator = administration.Counted
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    readonly_fields = ["last_login", "date_joined"]
    actions = ["make_login_link"]

    def has_login_link_permission(self, request: HttpRequest) -> bool:
        """Only superusers: a link to a superuser's account would make its maker one."""
        return bool(request.user.is_superuser)

    @admin.action(description="Create a one-time log-in link", permissions=["login_link"])
    def make_login_link(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Show a link for each person, and write into the log who made it."""
        for person in queryset:
            try:
                link = request.build_absolute_uri(operations.one_time_link(person))
            except InactiveUser as refusal:
                self.message_user(request, refusal.message, messages.ERROR)
                continue
            self.log_change(request, person, "Created a one-time log-in link.")
            self.message_user(request, f"Logs {person} in once, within a day: {link}", messages.SUCCESS)


class InvitationInline(StackedInline):  # type: ignore[misc]
    """Who made a group of members, and whether its invitation opens it."""

    model = MemberGroup
    fields = ["maker", "created_at", "is_inviting"]
    readonly_fields = ["maker", "created_at"]
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's signature
        """Never: a group is made by members or by staff, and stays so."""
        return False


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    """Groups: whoever is in one sees its jobs. Where members made it, its invitation can be closed here."""

    list_display = ["name", "size", "maker"]
    list_filter = [("by_members", admin.EmptyFieldListFilter)]
    inlines = [InvitationInline]
    paginator = administration.Counted
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        of_group = User.groups.through.objects.filter(group_id=OuterRef("pk")).order_by()
        people = Subquery(of_group.values("group_id").annotate(n=Count("pk")).values("n"))  # type: ignore[misc]  # an annotation that the plugin misses
        return super().get_queryset(request).select_related("by_members__maker").annotate(people=people)

    def get_inline_instances(self, request: HttpRequest, obj: Group | None = None) -> list[Any]:
        """None for a group of staff: it has no invitation, and gets none here."""
        has_invitation = obj is not None and MemberGroup.objects.filter(pk=obj.pk).exists()
        return super().get_inline_instances(request, obj) if has_invitation else []

    @display(description="Members")  # type: ignore[untyped-decorator]
    def size(self, group: Any) -> Any:
        return group.people or 0

    @display(description="Created by")  # type: ignore[untyped-decorator]
    def maker(self, group: Group) -> str:
        by_members = getattr(group, "by_members", None)
        return str(by_members.maker or "a deleted account") if by_members else "staff"


@admin.register(ApiToken)
class ApiTokenAdmin(ModelAdmin):  # type: ignore[misc]
    """Whose programs may call. Keys are not here: they are shown once, to the person who makes them."""

    list_display = ["name", "user", "key_hint", "scopes", "created_at", "expires_at", "last_used_at", "status"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), administration.by_day("created_at")]
    list_select_related = ["user"]
    paginator = administration.Counted
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    search_fields = ["name", "user__username", "key_hint"]
    fields = ["name", "user", "key_hint", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at"]
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

    @display(description="Status", label={"revoked": "danger", "active": "success"})  # type: ignore[untyped-decorator]
    def status(self, token: ApiToken) -> str:
        return "revoked" if token.revoked_at else "active"

    @admin.action(description="Revoke", permissions=["delete"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> HttpResponse | None:
        """Revoke each, after a question, and write into the log who did."""
        lines = [f"{token} of {token.user}" for token in queryset]
        wording = {"title": "Revoke these tokens?", "button": "Revoke them"}
        if question := administration.carry_out(self, request, lines=lines, **wording):
            return question
        revoked = sum(self._revoke(request, token) for token in queryset)
        self.message_user(request, f"Revoked: {revoked}.", messages.SUCCESS if revoked else messages.WARNING)
        return None

    def _revoke(self, request: HttpRequest, token: Any) -> bool:
        try:
            operations.revoke_token(token.pk, by=None)
        except NotFound:
            return False
        self.log_change(request, token, "Revoked.")
        return True


@admin.register(LogEntry)
class LogEntryAdmin(administration.BoundedList):
    """Who did what: all that was done here and on the farm's pages by who runs it."""

    list_display = ["action_time", "user", "action", "content_type", "object_link", "summary"]
    list_display_links = ["action_time"]
    list_filter = ["action_flag", administration.by_day("action_time")]
    list_select_related = ["user", "content_type"]
    search_fields = ["=user__username", "=object_id"]
    search_help_text = "A username, or the id of the object"
    fields = ["action_time", "user", "action", "content_type", "object_link", "summary"]
    readonly_fields = fields

    @display(description="Action", label={ADDITION: "success", CHANGE: "info", DELETION: "danger"})  # type: ignore[untyped-decorator]
    def action(self, entry: LogEntry) -> tuple[int, str]:
        return entry.action_flag, entry.get_action_flag_display()

    @display(description="Object")  # type: ignore[untyped-decorator]
    def object_link(self, entry: LogEntry) -> SafeString | str:
        url = None if entry.is_deletion() else entry.get_admin_url()
        return format_html('<a href="{}">{}</a>', url, entry.object_repr) if url else entry.object_repr

    @display(description="Change")  # type: ignore[untyped-decorator]
    def summary(self, entry: LogEntry) -> str:
        return entry.get_change_message()
