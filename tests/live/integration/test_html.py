"""The first rendering in a page: by the same code as every later one."""

import json
import re

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.template import Context, Template, engines
from django.test import RequestFactory
from django.utils import timezone

from live import errors, html, rendering
from tests.live.integration import support
from tests.live.integration.support import write

pytestmark = pytest.mark.django_db(transaction=True)


def render(source: str, *, user: User | AnonymousUser | None = None, **more: object) -> str:
    """What a page's template makes of it."""
    request = RequestFactory().get("/")
    request.user = user or AnonymousUser()
    template: Template = engines["django"].engine.from_string(source)  # type: ignore[attr-defined]
    return template.render(Context({"request": request, **more}))


def attributes(element: str) -> dict[str, str]:
    """The attributes of the first element, unescaped."""
    return {name: value.replace("&quot;", '"') for name, value in re.findall(r'([\w-]+)="([^"]*)"', element)}


class TestState:
    def test_is_filled_with_what_the_viewer_may_see_now(self) -> None:
        group = Group.objects.create(name="open <&>")
        markup = render('{% live "test-group" group_id=group.pk %}', group=group)
        expected = rendering.state(support.group, {"group_id": group.pk}, audience="public", language="en-gb")
        assert expected is not None
        assert '><b class="public">open &lt;&amp;&gt;</b></div>' in markup
        assert attributes(markup.split(">")[0]) == {
            "data-live": "test-group",
            "data-live-version": expected.version,
            "data-live-args": json.dumps({"group_id": group.pk}),
        }

    def test_is_nothing_for_who_may_not_see_it(self) -> None:
        group = Group.objects.create(name="closed")
        assert render('{% live "test-group" group_id=group.pk %}', group=group) == ""

    def test_is_nothing_when_it_is_gone(self) -> None:
        assert html.wrapper("test-group", {"group_id": 7}, audience="member") == ""

    def test_is_what_the_members_see_for_a_member(self) -> None:
        group = Group.objects.create(name="closed")
        user = User.objects.create_user("ada")
        user.groups.add(group)
        assert '<b class="member">closed</b>' in render('{% live "test-group" group_id=g %}', g=group.pk, user=user)

    def test_takes_a_ticket_along(self) -> None:
        group = Group.objects.create(name="closed")
        Group.objects.create(name=f'ticket:{group.pk}:se"same')
        markup = render('{% live "test-group" group_id=g %}', g=group.pk, live_ticket='se"same')
        assert attributes(markup.split(">")[0])["data-live-ticket"] == 'se"same'

    def test_has_the_element_and_the_classes_that_were_asked_for(self) -> None:
        group = Group.objects.create(name="open")
        markup = render('{% live "test-group" group_id=g element="td" css=css %}', g=group.pk, css="wide &")
        assert markup.startswith("<td ")
        assert markup.endswith("</td>")
        assert 'class="wide &amp;"' in markup

    def test_refuses_an_element_that_is_not_in_the_list(self) -> None:
        group = Group.objects.create(name="open")
        with pytest.raises(ValueError, match="script"):
            render('{% live "test-group" group_id=g element="script" %}', g=group.pk)

    def test_refuses_bad_arguments_loudly(self) -> None:
        with pytest.raises(errors.BadArguments):
            render('{% live "test-group" group_id="seven" %}')

    def test_of_data_leaves_the_first_answer_to_the_socket(self) -> None:
        markup = render('{% live "test-count" %}')
        assert markup == ('<div data-live="test-count" data-live-args="{&quot;prefix&quot;: &quot;&quot;}"></div>')

    def test_is_for_an_audience_where_the_page_has_decided(self) -> None:
        group = Group.objects.create(name="closed")
        markup = html.wrapper("test-group", {"group_id": group.pk}, audience="member", element="span")
        assert '<b class="member">closed</b>' in markup

    def test_is_the_same_in_every_time_zone(self) -> None:
        """One rendering serves all viewers, so none may show a local time."""
        group = Group.objects.create(name="open")
        versions = set()
        for zone in ("Asia/Tokyo", "America/New_York"):
            with timezone.override(zone):
                markup = rendering.state(support.group, {"group_id": group.pk}, audience="public", language="en-gb")
                versions.add(markup and markup.version)
        assert len(versions) == 1


class TestStream:
    def test_is_filled_with_the_text_so_far(self) -> None:
        Group.objects.create(name="log:1")
        write(1, *(f"<line> {n}" for n in range(20)))
        markup = render('{% live_stream "test-log" log_id=1 %}')
        last = Group.objects.order_by("pk").last()
        assert last is not None
        assert attributes(markup.split(">")[0])["data-live-cursor"] == str(last.pk)
        assert markup.split(">", 1)[1] == "\n" + "".join(f"&lt;line&gt; {n}\n" for n in range(20)) + "</pre>"

    def test_that_scrolls_is_reached_by_the_keyboard(self) -> None:
        found = attributes(render('{% live_stream "test-log" log_id=1 %}').split(">")[0])
        reached = {name: found.get(name) for name in ("tabindex", "role", "aria-label")}
        assert reached == {"tabindex": "0", "role": "group", "aria-label": "Output"}

    def test_is_empty_and_without_a_cursor_before_it_begins(self) -> None:
        markup = render('{% live_stream "test-log" log_id=1 element="div" %}')
        assert markup == (
            '<div data-live="test-log" data-live-stream="" data-live-cursor=""'
            ' data-live-args="{&quot;log_id&quot;: 1}"></div>'
        )
