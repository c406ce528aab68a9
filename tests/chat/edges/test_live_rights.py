"""What a socket may ask for of the chat, and what it is told."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User

from examples.chat import operations
from live import registry, rendering
from live.registry import StateQuery, Viewer
from tests import farm
from tests.chat.integration import people

pytestmark = pytest.mark.django_db
OF_A_ROOM = ("chat-room", "chat-workers", "chat-members", "chat-instructions")


def _audience(name: str, user: User | AnonymousUser, **arguments: int) -> str | None:
    query = registry.find(name)
    return query.audience(Viewer(user=user), query.checked(arguments))


def _html(name: str, **arguments: int) -> str:
    query = registry.find(name)
    assert isinstance(query, StateQuery)
    shown = rendering.state(query, query.checked(arguments), audience="member", language="en-gb")
    assert shown is not None
    return shown.body


@pytest.fixture
def room() -> Group:
    return Group.objects.create(name="friends")


class TestRights:
    @pytest.mark.parametrize("name", OF_A_ROOM)
    def test_of_a_room_are_its_members(self, room: Group, name: str) -> None:
        ada, eve = farm.user("ada", groups=[room]), farm.user("eve")
        gone = farm.user("gone", groups=[room], is_active=False)
        viewers: list[User | AnonymousUser] = [ada, eve, gone, AnonymousUser()]
        found = [_audience(name, viewer, group_id=room.pk) for viewer in viewers]
        assert found == ["member", None, None, None]
        ada.groups.remove(room)
        assert _audience(name, ada, group_id=room.pk) is None

    def test_of_a_list_of_rooms_are_ones_own(self, room: Group) -> None:
        ada, eve = farm.user("ada", groups=[room]), farm.user("eve")
        assert _audience("chat-rooms", ada, whose=ada.pk) == "member"
        assert _audience("chat-rooms", eve, whose=ada.pk) is None
        assert _audience("chat-rooms", AnonymousUser(), whose=ada.pk) is None


class TestARendering:
    def test_is_the_same_for_everybody_and_holds_no_token(self, room: Group) -> None:
        ada = farm.user("ada", groups=[room])
        people.ask(room, ada)
        first, second = (_html("chat-room", group_id=room.pk) for _ in range(2))
        assert first == second
        assert "csrf" not in first
        assert 'type="hidden"' not in first

    def test_names_the_topics_that_make_it_stale(self, room: Group) -> None:
        assert registry.find("chat-room").topics({"group_id": 7}) == {"chat:7"}
        assert registry.find("chat-workers").topics({"group_id": 7}) == {"workers", "group:7"}
        assert registry.find("chat-members").rights_topics({"group_id": 7}) == {"group:7"}

    def test_of_the_members_tells_who_keeps_the_group(self) -> None:
        room = operations.open_lobby(by=farm.user("ada"))
        assert room is not None
        farm.user("bob", groups=[room])
        html = " ".join(_html("chat-members", group_id=room.pk).split())
        assert '<span>ada</span><span class="soft small">owner</span>' in html
        assert "<span>bob</span> </li>" in html
