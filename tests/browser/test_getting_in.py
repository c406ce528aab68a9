"""Getting in, in a browser: sign-up, the captcha of guests, and a group joined by its link while another looks on."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from accounts import operations
from accounts.models import ApiToken
from postgres import clock
from tests import farm
from tests.accounts.integration.people import solution
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS

pytestmark = pytest.mark.django_db(transaction=True)


def read_picture(page: Page) -> None:
    """Look at the picture, type its letters, and come in."""
    picture = page.get_by_alt_text("A picture of five distorted letters")
    assert picture.evaluate("async (image) => (await image.decode(), image.naturalWidth)") > 100
    captcha = page.locator("[name=captcha]").input_value()
    page.get_by_label("Letters in the picture").fill(solution(captcha).lower())
    page.get_by_role("button", name="Continue").click()


def sign_up(page: Page, username: str) -> None:
    """Fill the form in by keyboard alone, as the page opens."""
    expect(page.get_by_label("Username")).to_be_focused()
    for text in (username, "", farm.PASSWORD, farm.PASSWORD):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")


def able_to_log_in(username: str) -> User:
    """Somebody whose password's hash the server knows, too."""
    known = PBKDF2PasswordHasher().encode(farm.PASSWORD, "salt", 1000)
    return User.objects.get_or_create(username=username, defaults={"password": known})[0]


def paint_after_the_session_ended(visit: Visit, *, by: User) -> Page:
    """Ask for a picture when the session has ended."""
    page = visit("/jobs/new/?kind=image", by=by)
    page.get_by_label("What should it paint?").fill("a lighthouse in the evening")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Paint").click()
    expect(page).to_have_url(re.compile("/accounts/login/"))
    page.wait_for_load_state()  # with its script, which notes that something was typed
    return page


def log_in(page: Page, username: str) -> None:
    """Log in where one is asked to, and be where one was."""
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(farm.PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page).to_have_url(re.compile(r"/jobs/new/\?kind=image$"))


def expect_one(complaints: list[str], status: str) -> None:
    """The browser says of a page that it was a refusal, once; nothing else is complained of."""
    [complaint] = complaints
    assert f"responded with a status of {status}" in complaint
    complaints.clear()


class TestGettingIn:
    def test_a_group_is_made_and_joined_by_its_link_while_its_maker_looks_on(
        self, visit: Visit, complaints: list[str]
    ) -> None:
        maker = visit("/accounts/login/?next=/accounts/groups/")
        maker.get_by_role("link", name="Sign up").click()
        sign_up(maker, "ada")
        expect(maker).to_have_url(re.compile("/accounts/groups/$"))
        maker.get_by_label("Name").fill("Painters")
        maker.get_by_role("button", name="Create the group").click()
        expect(maker.get_by_role("heading", name="Painters", level=1)).to_be_visible()
        expect(maker.locator("html[data-live=on]")).to_be_attached(timeout=SOON_MS)
        link = maker.locator("#invitation").inner_text()

        guest = visit(link)
        guest.get_by_role("link", name="As a guest").click()
        read_picture(guest)
        expect(guest).to_have_url(link)
        guest.get_by_role("button", name=re.compile("Join as guest-")).click()
        name = User.objects.get(as_guest__isnull=False).username
        members = maker.locator("[data-live=group-members]")
        expect(members).to_contain_text(name, timeout=SOON_MS)
        expect(members).to_contain_text("2 of 25 members")

        shown = guest.locator("[data-live=group-members]")
        expect(shown).to_contain_text("ada owner")

        maker.reload()
        maker.get_by_label("Member", exact=True).select_option(label=name)
        maker.get_by_role("button", name="Remove", exact=True).click()
        maker.get_by_role("button", name="Remove them").click()
        expect(maker.get_by_text(f"{name} was removed, and the link they knew was replaced.")).to_be_visible()
        expect(shown).not_to_contain_text("ada", timeout=SOON_MS)
        assert maker.locator("#invitation").inner_text() != link
        guest.goto(link)
        expect(guest.get_by_text("This invitation is not valid")).to_be_visible()
        expect_one(complaints, "404")

    def test_a_guest_comes_in_without_javascript_and_stays_by_signing_up(
        self, visit: Visit, complaints: list[str]
    ) -> None:
        group = operations.create_group("Painters", by=farm.user("bob"))
        token = operations.invitation(group, by=operations.members(group)[0])
        page = visit(f"/accounts/join/{token}/", java_script_enabled=False)
        page.get_by_role("link", name="As a guest").click()
        page.get_by_label("Letters in the picture").fill("WRONG")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("Those were not the letters")).to_be_visible()
        expect_one(complaints, "422")
        captcha = page.locator("[name=captcha]").input_value()
        page.get_by_label("Letters in the picture").fill(solution(captcha))
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name=re.compile("Join as guest-")).click()
        guest = User.objects.get(as_guest__isnull=False)
        assert operations.is_member(guest, group)

        page.locator("details.menu summary").click()
        page.get_by_role("link", name="Sign up to keep your account").click()
        for label, text in (("Username", "ada"), ("Password", farm.PASSWORD), ("Password, again", farm.PASSWORD)):
            page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name="Sign up").click()
        expect(page.get_by_text("Welcome, ada.")).to_be_visible()
        guest.refresh_from_db()
        assert (guest.username, operations.is_member(guest, group)) == ("ada", True)
        assert not User.objects.filter(as_guest__isnull=False).exists()

    def test_what_was_typed_before_the_session_ended_is_there_again_after_the_log_in(self, visit: Visit) -> None:
        page = paint_after_the_session_ended(visit, by=able_to_log_in("ada"))
        log_in(page, "ada")
        expect(page.get_by_label("What should it paint?")).to_have_value("a lighthouse in the evening")
        page.get_by_role("button", name="Paint").click()
        expect(page).to_have_url(re.compile("/jobs/[0-9]+/$"))
        page.goto("/jobs/new/?kind=image")
        expect(page.get_by_label("What should it paint?")).to_have_value("")

    @pytest.mark.parametrize(("by", "minutes"), [("bob", 0), ("ada", 61)])
    def test_what_was_typed_is_there_for_nobody_else_and_for_an_hour(self, visit: Visit, by: str, minutes: int) -> None:
        page = paint_after_the_session_ended(visit, by=able_to_log_in("ada"))
        able_to_log_in("bob")
        page.clock.set_fixed_time(clock.now() + timedelta(minutes=minutes))
        log_in(page, by)
        page.wait_for_load_state()
        expect(page.get_by_label("What should it paint?")).to_have_value("")
        assert page.evaluate("sessionStorage.getItem('jobfarm-typed')") is None

    def test_every_page_fits_a_phone_however_long_the_names(self, visit: Visit) -> None:
        ada = farm.user("ada")
        group = operations.create_group("W" * 60, by=ada)
        group.user_set.add(User.objects.create_user("m" * 150))
        join = f"/accounts/join/{operations.invitation(group, by=ada)}/"
        phone = {"viewport": {"width": 390, "height": 844}}
        visitor, member = visit("/accounts/login/", **phone), visit("/accounts/", by=ada, **phone)
        for page, paths in (
            (visitor, ["/accounts/login/", "/accounts/sign-up/", "/accounts/guest/", join]),
            (member, ["/accounts/", "/accounts/groups/", f"/accounts/groups/{group.pk}/"]),
        ):
            for path in paths:
                page.goto(path)
                assert page.evaluate("document.documentElement.scrollWidth") == 390, path
                assert page.evaluate("scrollY") == 0, path


class TestApiTokens:
    def test_fit_beside_the_profile_at_a_desk_and_elsewhere_scroll_below_their_heading(
        self, visit: Visit, boss: User
    ) -> None:
        operations.create_token(boss, name="laptop", days=300)
        ApiToken.objects.update(last_used_at=clock.now() - timedelta(days=90))  # each a whole date
        page = visit("/accounts/", by=boss, viewport={"width": 1280, "height": 800})
        tokens, heading = page.locator("#tokens"), page.get_by_role("heading", name="API tokens", exact=True)
        assert tokens.evaluate("card => card.scrollWidth - card.clientWidth") == 0
        right = "(row) => row.lastElementChild.getBoundingClientRect().right"
        assert tokens.locator("thead tr").evaluate(right) == tokens.locator("tbody tr").evaluate(right)
        page.set_viewport_size({"width": 900, "height": 800})
        before = heading.bounding_box()
        assert tokens.evaluate("card => { card.scrollLeft = 90; return card.scrollLeft; }") == 90
        assert heading.bounding_box() == before
