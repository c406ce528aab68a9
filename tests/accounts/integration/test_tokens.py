"""API tokens: made once, kept as a hash, worthless when revoked."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import DjangoAssertNumQueries

from accounts import domain, operations, queries
from accounts.errors import InactiveUser, InvalidDays, InvalidName, NoScope, NotFound, TooManyTokens, Unauthorized
from accounts.models import ApiToken

pytestmark = pytest.mark.django_db


class TestCreateToken:
    def test_keeps_the_hash_and_a_hint_and_not_the_key(self, ada: User) -> None:
        token, key = operations.create_token(ada, name="  my laptop ")
        stored = ApiToken.objects.values("user", "name", "key_hash", "key_hint", "last_used_at", "revoked_at").get()
        assert stored == {
            "user": ada.pk,
            "name": "my laptop",
            "key_hash": domain.hashed(key),
            "key_hint": key[:8],
            "last_used_at": None,
            "revoked_at": None,
        }
        assert key.startswith("jft_")
        assert len(key) == 47
        assert token.pk is not None

    def test_makes_another_key_each_time(self, ada: User) -> None:
        keys = {operations.create_token(ada, name="ci")[1] for _ in range(5)}
        assert len(keys) == 5

    @pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\x00b"])
    def test_refuses_a_name_that_cannot_be_shown(self, ada: User, name: str) -> None:
        with pytest.raises(InvalidName):
            operations.create_token(ada, name=name)
        assert not ApiToken.objects.exists()

    def test_refuses_somebody_who_may_not_log_in(self) -> None:
        with pytest.raises(InactiveUser, match="bob may not log in"):
            operations.create_token(User.objects.create_user("bob", is_active=False), name="ci")


class TestScopes:
    def test_are_all_unless_some_are_named(self, ada: User) -> None:
        assert operations.create_token(ada, name="ci")[0].scopes == "submit read operate endpoints"
        assert operations.create_token(ada, name="ci", scopes=["operate", "read", "read"])[0].scopes == "read operate"

    @pytest.mark.parametrize("scopes", [[], ["all"], ["Submit"], "submit"])
    def test_are_at_least_one_that_there_is(self, ada: User, scopes: list[str]) -> None:
        with pytest.raises(NoScope, match="submit, read, operate, endpoints"):
            operations.create_token(ada, name="ci", scopes=scopes)

    def test_of_a_token_that_an_older_farm_made_are_those_there_were(self, ada: User) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO accounts_apitoken (user_id, name, key_hash, key_hint) VALUES (%s, 'old', %s, 'jft_')",
                [ada.pk, domain.hashed("old")],
            )
        assert operations.token("old").scopes == "submit read operate"


class TestTokensThatEnd:
    def test_open_nothing_from_their_moment_on(self, ada: User) -> None:
        token, key = operations.create_token(ada, name="ci", days=0.5)
        assert operations.token(key).user == ada
        ApiToken.objects.filter(pk=token.pk).update(expires_at=Now())
        with pytest.raises(Unauthorized):
            operations.token(key)
        assert not queries.tokens_of(ada).exists()

    @pytest.mark.parametrize("days", [0, -1, 3651, float("nan"), float("inf")])
    def test_end_within_ten_years(self, ada: User, days: float) -> None:
        with pytest.raises(InvalidDays, match="at most 3650 days"):
            operations.create_token(ada, name="ci", days=days)

    def test_are_revoked_once_they_ran_out_and_no_others(self, ada: User) -> None:
        over, _ = operations.create_token(ada, name="over", days=1)
        _, good = operations.create_token(ada, name="good", days=1)
        _, endless = operations.create_token(ada, name="endless")
        ApiToken.objects.filter(pk=over.pk).update(expires_at=Now() - timedelta(hours=1))
        assert [operations.end_tokens() for _ in range(2)] == [1, 0]
        over.refresh_from_db()
        assert over.revoked_at == over.expires_at
        assert [operations.token(key).user for key in (good, endless)] == [ada, ada]


class TestAuthenticate:
    def test_knows_whose_key_it_is(self, ada: User) -> None:
        User.objects.create_user("bob")
        _, key = operations.create_token(ada, name="ci")
        assert operations.token(key).user == ada

    @pytest.mark.parametrize("key", ["", "jft_", "jft_" + "a" * 43, "\x00", "\ud800", "x" * 100_000])
    def test_refuses_what_is_no_key(self, ada: User, key: str) -> None:
        operations.create_token(ada, name="ci")
        with pytest.raises(Unauthorized):
            operations.token(key)

    def test_refuses_the_stored_hash_as_a_key(self, ada: User) -> None:
        token, _ = operations.create_token(ada, name="ci")
        with pytest.raises(Unauthorized):
            operations.token(token.key_hash)

    def test_refuses_the_key_of_somebody_who_may_no_longer_log_in(self, ada: User) -> None:
        _, key = operations.create_token(ada, name="ci")
        User.objects.update(is_active=False)
        with pytest.raises(Unauthorized):
            operations.token(key)

    def test_notes_the_use_once_a_minute_and_reads_alone_in_between(
        self, ada: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        token, key = operations.create_token(ada, name="ci")
        with django_assert_num_queries(2):
            operations.token(key)
        token.refresh_from_db()
        first = token.last_used_at
        assert first is not None
        with django_assert_num_queries(1):
            operations.token(key)
        ApiToken.objects.update(last_used_at=F("last_used_at") - timedelta(seconds=61))
        with django_assert_num_queries(2):
            operations.token(key)
        token.refresh_from_db()
        assert token.last_used_at is not None
        assert token.last_used_at >= first


class TestRevokeToken:
    def test_makes_the_key_worthless_and_keeps_the_row(self, ada: User) -> None:
        token, key = operations.create_token(ada, name="ci")
        _, other_key = operations.create_token(ada, name="laptop")
        operations.revoke_token(token.pk, by=ada)
        with pytest.raises(Unauthorized):
            operations.token(key)
        assert operations.token(other_key).user == ada
        token.refresh_from_db()
        assert token.revoked_at is not None

    def test_refuses_somebody_elses_token_as_if_it_were_not_there(self, ada: User) -> None:
        token, key = operations.create_token(ada, name="ci")
        bob = User.objects.create_user("bob", is_staff=True)
        with pytest.raises(NotFound):
            operations.revoke_token(token.pk, by=bob)
        assert operations.token(key).user == ada

    def test_lets_a_superuser_and_the_system_revoke_anybodys(self, ada: User) -> None:
        first, _ = operations.create_token(ada, name="ci")
        second, _ = operations.create_token(ada, name="laptop")
        operations.revoke_token(first.pk, by=User.objects.create_superuser("root"))
        operations.revoke_token(second.pk, by=None)
        assert not ApiToken.objects.filter(revoked_at=None).exists()

    def test_refuses_a_second_time_and_numbers_that_no_token_has(self, ada: User) -> None:
        token, _ = operations.create_token(ada, name="ci")
        operations.revoke_token(token.pk, by=ada)
        for number in (token.pk, 0, -1, 2**63, 10**30):
            with pytest.raises(NotFound):
                operations.revoke_token(number, by=ada)


def test_a_person_has_so_many_tokens_and_another_their_own(
    ada: User, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain, "TOKENS_LIMIT", 2)
    first, _ = operations.create_token(ada, name="1")
    operations.create_token(ada, name="2")
    with pytest.raises(TooManyTokens, match="You have 2 API tokens"):
        operations.create_token(ada, name="3")
    operations.create_token(boss, name="1")
    operations.revoke_token(first.pk, by=ada)
    operations.create_token(ada, name="3")
