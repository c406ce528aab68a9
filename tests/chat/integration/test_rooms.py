"""Rooms: who is in, who instructs, whose workers answer."""

import pytest

from accounts import operations as accounts
from examples.chat import operations, queries
from examples.chat.errors import InstructionsTooLong, NoSuchRoom, NotYourInstructions
from jobs import operations as jobs
from jobs.errors import InvalidValue
from jobs.models import Worker
from tests import farm
from tests.chat.integration import people

pytestmark = pytest.mark.django_db


class TestRooms:
    def test_are_those_of_ones_groups_the_liveliest_first(self) -> None:
        ada = farm.user("ada")
        quiet, lively = (accounts.create_group(name, by=ada) for name in ("quiet", "lively"))
        people.group("bob", name="others")
        message = people.say(lively, ada, "Hello")
        found = [(room.group, room.members, room.last) for room in operations.rooms_of(ada)]
        assert found == [(lively, 1, message), (quiet, 1, None)]

    def test_open_to_who_is_in_the_group_now(self) -> None:
        room, [ada] = people.group("ada")
        assert operations.room(room.pk, by=ada) == room
        ada.groups.remove(room)
        with pytest.raises(NoSuchRoom):
            operations.room(room.pk, by=ada)

    def test_of_a_new_farm_are_the_lobby(self) -> None:
        ada = farm.user("ada")
        lobby = operations.open_lobby(by=ada)
        assert [room.group for room in operations.rooms_of(ada)] == [lobby]
        assert operations.open_lobby(by=farm.user("bob")) is None


class TestInstructions:
    def test_are_for_who_wrote_them_and_who_keeps_the_group(self) -> None:
        owner, ada, bob = farm.user("owner"), farm.user("ada"), farm.user("bob")
        room = accounts.create_group("friends", by=owner)
        for person in (ada, bob):
            person.groups.add(room)
        operations.instruct(room.pk, "Be brief.", by=ada)
        with pytest.raises(NotYourInstructions):
            operations.instruct(room.pk, "Be long.", by=bob)
        operations.instruct(room.pk, "Be kind.", by=owner)
        with pytest.raises(NotYourInstructions):
            operations.instruct(room.pk, "Be brief.", by=ada)
        present = queries.instructions(room.pk)
        assert present is not None
        assert (present.text, present.author) == ("Be kind.", owner)

    def test_are_anybodys_again_once_their_author_is_gone(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        operations.instruct(room.pk, "Be brief.", by=ada)
        ada.delete()
        operations.instruct(room.pk, "Be long.", by=bob)
        assert operations.may_instruct(room, user=bob, present=queries.instructions(room.pk))

    def test_are_kept_once(self) -> None:
        room, [ada] = people.group("ada")
        operations.instruct(room.pk, "", by=ada)
        assert queries.instructions(room.pk) is None
        operations.instruct(room.pk, "Be brief.\r\n", by=ada)
        first = queries.instructions(room.pk)
        operations.instruct(room.pk, "Be brief.", by=ada)
        assert queries.instructions(room.pk) == first

    def test_are_for_members_and_have_an_end(self) -> None:
        room, [ada] = people.group("ada")
        with pytest.raises(NoSuchRoom):
            operations.instruct(room.pk, "Hi", by=farm.user("eve"))
        with pytest.raises(InstructionsTooLong):
            operations.instruct(room.pk, "x" * 2001, by=ada)


class TestAWorkerOfOnesOwn:
    def test_comes_with_a_key_that_works(self) -> None:
        room, [ada] = people.group("ada")
        name, key = operations.connect_worker(room.pk, "  my   laptop ", by=ada)
        worker = jobs.authenticate(key)
        assert (name, worker.name, worker.owner, worker.queues) == ("my laptop", "my laptop", ada, ["chat"])
        assert [serving.name for serving in jobs.workers_for("chat", group_id=room.pk)] == ["my laptop"]

    def test_has_a_name_also_where_none_was_given(self) -> None:
        room, [ada] = people.group("ada")
        assert operations.connect_worker(room.pk, " ", by=ada)[0] == "ada's worker"

    @pytest.mark.parametrize("name", ["x" * 61, "a\x00b", "a\u202eb"])
    def test_is_refused_a_name_that_is_none(self, name: str) -> None:
        room, [ada] = people.group("ada")
        with pytest.raises(InvalidValue):
            operations.connect_worker(room.pk, name, by=ada)
        assert Worker.objects.count() == 0

    def test_is_for_members(self) -> None:
        room, _ = people.group("ada")
        with pytest.raises(NoSuchRoom):
            operations.connect_worker(room.pk, "w", by=farm.user("eve"))


class TestWorkersFor:
    def test_are_those_who_live_look_there_and_serve_the_group(self) -> None:
        room, [ada, bob] = people.group("ada", "bob")
        people.worker("of the farm")
        farm.worker("a thief", "image", steals=["*"])
        farm.worker("elsewhere", "image")
        people.worker("of ada", owner=ada)
        people.worker("of eve", owner=farm.user("eve"))
        bob.is_active = False
        bob.save()
        people.worker("of bob", owner=bob)
        jobs.revoke(people.worker("revoked"))
        silent = people.worker("silent")
        Worker.objects.filter(pk=silent.pk).update(last_seen_at=None)
        found = [(worker.name, worker.owner) for worker in jobs.workers_for("chat", group_id=room.pk)]
        assert found == [("a thief", None), ("of the farm", None), ("of ada", "ada")]
