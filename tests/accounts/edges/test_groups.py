"""The pages of groups: who sees what, what every button does, and what an invitation shows to whom."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from accounts import operations
from ratelimits import operations as ratelimits
from tests.accounts.edges.test_login import ELSEWHERE
from tests.looped import looped

pytestmark = pytest.mark.django_db
GROUPS = "/accounts/groups/"


@pytest.fixture
def group(ada: User) -> Group:
    """Ada's group."""
    return operations.create_group("Painters <b>", by=ada)


def browser(user: User) -> Client:
    """Somebody's browser."""
    client = Client()
    client.force_login(user)
    return client


def join_path(group: Group, by: User) -> str:
    """Where the invitation leads."""
    return f"/accounts/join/{operations.invitation(group, by=by)}/"


def page(group: Group, action: str = "") -> str:
    """A group's address."""
    return f"{GROUPS}{group.pk}/{action}"


class TestTheList:
    def test_shows_ones_own_groups_with_how_many_are_in_them(self, ada: User, bob: User, group: Group) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        operations.create_group("Another", by=bob)
        ada.groups.add(Group.objects.create(name="operators"))
        shown = browser(ada).get(GROUPS).context["groups"]
        assert [(each.name, each.size, each.is_kept) for each in shown] == [
            ("Painters <b>", 2, True),
            ("operators", 1, False),
        ]

    def test_costs_the_same_reads_however_many_groups(
        self, ada: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        ada.groups.add(*(Group.objects.create(name=f"group {n}") for n in range(20)))
        client = browser(ada)
        client.get(GROUPS)
        with django_assert_num_queries(5):  # session, person, groups, and two for what the person may look at
            client.get(GROUPS)

    @pytest.mark.parametrize("path", [GROUPS, f"{GROUPS}1/"])
    def test_is_for_people_who_are_logged_in(self, client: Client, path: str) -> None:
        assert client.get(path).headers["Location"] == f"/accounts/login/?next={path}"

    def test_makes_a_group_and_shows_it(self, ada: User) -> None:
        answer = browser(ada).post(GROUPS, {"name": "Poets"}, follow=True)
        made = Group.objects.get()
        assert answer.redirect_chain == [(page(made), 302)]
        assert "Send its link to the people who should join" in answer.text

    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("", "This field is required."),
            ("x" * 61, "Ensure this value has at most 60 characters"),
            ("turned\u202e", "A group needs a name of 1 to 60 characters that can be printed."),
            ("Painters <b>", "There is already a group called Painters <b>: choose another name."),
        ],
    )
    def test_says_at_the_field_what_is_wrong(self, bob: User, group: Group, name: str, sentence: str) -> None:
        answer = browser(bob).post(GROUPS, {"name": name})
        assert answer.status_code == 422
        assert answer.context["form"].errors["name"][0].startswith(sentence)
        assert Group.objects.count() == 1

    def test_answers_429_to_who_makes_many(self, ada: User) -> None:
        client = browser(ada)
        answers = [client.post(GROUPS, {"name": f"group {n}"}) for n in range(3)]
        assert [answer.status_code for answer in answers] == [302, 302, 429]
        assert int(answers[2].headers["Retry-After"]) <= 60


class TestAGroup:
    def test_is_not_there_for_who_is_not_in_it(self, bob: User, group: Group) -> None:
        client = browser(bob)
        answers = [client.get(page(group)), client.get(f"{GROUPS}999999999999/")]
        answers += [client.post(page(group, f"{way}/")) for way in ("invite", "withdraw", "remove", "leave")]
        assert [answer.status_code for answer in answers] == [404] * 6
        assert operations.members(group) == [operations.owner(group)]

    def test_shows_its_members_and_its_link(self, ada: User, bob: User, group: Group) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        for person, may_change in ((ada, True), (bob, False)):
            text = browser(person).get(page(group)).text
            assert f"http://testserver{join_path(group, ada)}" in text
            assert re.search(r"ada\s*<span class=\"badge\">owner", text)
            assert ("bob" in text, "2 of 25 members" in text) == (True, True)
            assert ("Replace the link" in text, "Remove a member" in text) == (may_change, may_change)

    def test_of_staff_has_neither_link_nor_way_out(self, ada: User) -> None:
        operators = Group.objects.create(name="operators")
        ada.groups.add(operators)
        client = browser(ada)
        text = client.get(page(operators)).text
        assert ("Invitation" in text, "Leave" in text) == (False, False)
        assert client.post(page(operators, "leave/"), follow=True).text.count("Only an administrator") == 1
        assert operations.is_member(ada, operators)

    def test_gets_a_new_link_and_none(self, ada: User, group: Group) -> None:
        client, first = browser(ada), join_path(group, ada)
        assert "The link was replaced" in client.post(page(group, "invite/"), follow=True).text
        assert join_path(group, ada) != first
        text = client.post(page(group, "withdraw/"), follow=True).text
        assert ("There is no link:" in text, "Create a link" in text) == (True, True)

    @pytest.mark.parametrize("way", ["invite", "withdraw"])
    def test_is_changed_by_its_owner_alone(self, ada: User, bob: User, group: Group, way: str) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        before = join_path(group, ada)
        assert "Only the owner of this group can do that" in browser(bob).post(page(group, f"{way}/"), follow=True).text
        assert join_path(group, ada) == before

    def test_lets_its_owner_take_somebody_out(self, ada: User, bob: User, group: Group) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        client, known = browser(ada), join_path(group, bob)
        text = client.post(page(group, "remove/"), {"member": bob.pk}, follow=True).text
        assert "bob was removed, and the link they knew was replaced." in text
        assert operations.members(group) == [ada]
        assert join_path(group, ada) != known

    @pytest.mark.parametrize("member", ["", "nobody", "999999999", "999999999999999999999"])
    def test_takes_nobody_out_who_is_not_in_it(self, ada: User, bob: User, group: Group, member: str) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        for who in (member, str(ada.pk)):
            text = browser(ada).post(page(group, "remove/"), {"member": who}, follow=True).text
            assert "No member was chosen" in text
        assert operations.members(group) == [ada, bob]

    def test_takes_nobody_out_for_who_does_not_keep_it(self, ada: User, bob: User, group: Group) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        text = browser(bob).post(page(group, "remove/"), {"member": ada.pk}, follow=True).text
        assert "Only the owner of this group can do that" in text
        assert operations.members(group) == [ada, bob]

    def test_is_left_by_a_button(self, ada: User, bob: User, group: Group) -> None:
        operations.join(operations.invite(group, by=ada), by=bob)
        client = browser(ada)
        assert "You left Painters &lt;b&gt;." in client.post(page(group, "leave/"), follow=True).text
        assert client.get(page(group)).status_code == 404
        assert operations.owner(group) == bob
        assert "the group is deleted with its messages and games" in browser(bob).get(page(group)).text

    @pytest.mark.parametrize("way", ["invite", "withdraw", "remove", "leave"])
    def test_is_changed_by_forms_alone(self, ada: User, group: Group, way: str) -> None:
        assert browser(ada).get(page(group, f"{way}/")).status_code == 405
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(ada)
        assert strict.post(page(group, f"{way}/")).status_code == 403
        assert operations.is_member(ada, group)


class TestAnInvitation:
    def test_is_not_accepted_by_looking_at_it(self, ada: User, bob: User, group: Group) -> None:
        client = browser(bob)
        for look in (client.get, client.head, client.get):
            assert look(join_path(group, ada)).status_code == 200
        assert operations.members(group) == [ada]

    def test_leads_visitors_in_and_back(self, client: Client, ada: User, group: Group) -> None:
        path = join_path(group, ada)
        text = client.get(path).text
        assert "Join Painters &lt;b&gt;" in text
        for way in ("login", "sign-up", "guest"):
            assert f'href="/accounts/{way}/?next={path}"' in text
        assert client.post(path).headers["Location"] == path
        assert operations.members(group) == [ada]

    def test_names_no_way_in_that_is_closed(self, client: Client, ada: User, group: Group, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "SIGN_UP": False, "GUESTS": False}
        text = client.get(join_path(group, ada)).text
        assert [way in text for way in ("/login/", "/sign-up/", "/guest/")] == [True, False, False]

    def test_makes_a_member_when_the_button_is_pressed(self, ada: User, bob: User, group: Group) -> None:
        client, path = browser(bob), join_path(group, ada)
        assert client.post(path).headers["Location"] == page(group)
        assert operations.members(group) == [ada, bob]
        assert client.get(path).headers["Location"] == page(group)

    def test_goes_on_to_a_page_of_this_site_alone(self, ada: User, bob: User, group: Group) -> None:
        client, path = browser(bob), join_path(group, ada)
        assert client.post(path, {"next": "/jobs/"}).headers["Location"] == "/jobs/"
        assert client.get(f"{path}?next=/jobs/").headers["Location"] == "/jobs/"
        for target in ELSEWHERE:
            assert client.get(path, {"next": target}).headers["Location"] == page(group)

    def test_says_that_it_is_full(self, ada: User, bob: User, group: Group) -> None:
        group.user_set.add(*(User.objects.create_user(f"member{n}") for n in range(24)))
        client, path = browser(bob), join_path(group, ada)
        assert "This group is full" in client.get(path).text
        answer = client.post(path)
        assert (answer.status_code, "it has 25 members, the maximum" in answer.text) == (409, True)

    @looped("method", ["get", "post"])
    @looped("token", ["nonsense", "1-1.x", "0-0", "%00", "%ff", "%F0%9F%8E%A8"], rolled_back=True)
    def test_that_is_none_opens_nothing(self, bob: User, group: Group, method: str, token: str) -> None:
        answer = getattr(browser(bob), method)(f"/accounts/join/{token}/")
        assert (answer.status_code, "This invitation is not valid" in answer.text) == (404, True)

    def test_is_accepted_only_so_often(self, ada: User, bob: User, group: Group) -> None:
        ratelimits.limit("groups/join", key=f"user:{bob.pk}", count=3)
        answer = browser(bob).post(join_path(group, ada))
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")

    def test_needs_the_csrf_token(self, ada: User, bob: User, group: Group) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(bob)
        assert strict.post(join_path(group, ada)).status_code == 403
