"""Workers' keys and people's tokens: what each condition on them keeps out, with nothing else between."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from accounts import operations as accounts, queries as tokens
from accounts.errors import NotFound, Unauthorized
from accounts.models import ApiToken
from jobs import operations
from jobs.errors import InvalidKey
from jobs.models import Worker
from jobs.queries import keys
from tests import farm

pytestmark = pytest.mark.django_db


def _made(name: str = "w1", *, owner: User | None = None) -> tuple[Worker, str]:
    return operations.create_worker(name, queues=["work"], owner=owner)


class TestAWorkersKey:
    def test_opens_for_its_own_worker_and_for_no_other(self) -> None:
        (one, key), (other, other_key) = _made("one"), _made("other")
        assert [operations.authenticate(each).pk for each in (key, other_key)] == [one.pk, other.pk]

    def test_that_is_revoked_opens_nothing_though_its_owner_is_active(self) -> None:
        for owner in (None, farm.user("ada")):
            worker, key = _made(owner=owner)
            operations.revoke(worker)
            with pytest.raises(InvalidKey):
                operations.authenticate(key)

    def test_of_somebody_who_is_switched_off_opens_nothing_and_others_do(self) -> None:
        ada = farm.user("ada")
        _, key = _made(owner=ada)
        everybodys, other_key = _made("everybody's")
        User.objects.filter(pk=ada.pk).update(is_active=False)
        with pytest.raises(InvalidKey):
            operations.authenticate(key)
        assert operations.authenticate(other_key).pk == everybodys.pk

    def test_that_was_rotated_opens_with_the_new_one_alone(self) -> None:
        worker, key = _made()
        new = operations.rotate_key(worker)
        assert operations.authenticate(new).pk == worker.pk
        with pytest.raises(InvalidKey):
            operations.authenticate(key)

    def test_is_neither_its_hash_nor_a_persons_token(self) -> None:
        worker, key = _made()
        _, token = accounts.create_token(farm.user("ada"), name="tests")
        for wrong in (worker.key_hash, token, key[:-1], key + "x", ""):
            with pytest.raises(InvalidKey):
                operations.authenticate(wrong)
        with pytest.raises(Unauthorized):
            accounts.token(key)

    def test_is_fresh_for_five_seconds_after_it_was_noted(self) -> None:
        worker, _ = _made()
        seen = []
        for age_s in (None, 1, 4, 6, 100):
            at = None if age_s is None else Now() - timedelta(seconds=age_s)
            Worker.objects.filter(pk=worker.pk).update(last_seen_at=at)
            found = keys.worker_by_hash(Worker.objects.get(pk=worker.pk).key_hash)
            assert found is not None
            seen.append(found.is_fresh)
        assert seen == [False, True, True, False, False]


class TestAPersonsToken:
    def test_opens_for_its_own_person_and_for_no_other(self) -> None:
        ada, bob = farm.user("ada"), farm.user("bob")
        (_, key), (_, other_key) = (accounts.create_token(each, name="tests") for each in (ada, bob))
        assert [accounts.token(each).user for each in (key, other_key)] == [ada, bob]

    def test_is_revoked_by_itself_and_noted_once(self) -> None:
        """A second revocation changes nothing, and is told so: the moment of the first stays."""
        ada, bob = farm.user("ada"), farm.user("bob")
        (token, key), (spare, spare_key) = (accounts.create_token(ada, name=n) for n in ("tests", "spare"))
        with pytest.raises(NotFound):
            accounts.revoke_token(token.pk, by=bob)
        assert accounts.token(key).user == ada
        accounts.revoke_token(token.pk, by=ada)
        revoked_at = ApiToken.objects.get(pk=token.pk).revoked_at
        with pytest.raises(NotFound):
            accounts.revoke_token(token.pk, by=None)
        assert ApiToken.objects.get(pk=token.pk).revoked_at == revoked_at
        with pytest.raises(Unauthorized):
            accounts.token(key, address="127.0.0.1")
        assert accounts.token(spare_key).user == ada
        assert list(tokens.tokens_of(ada)) == [spare]
        assert list(tokens.tokens_of(bob)) == []

    def test_has_its_use_noted_once_a_minute_and_for_itself_alone(self) -> None:
        ada = farm.user("ada")
        (one, key), (other, _) = (accounts.create_token(ada, name=name) for name in ("one", "other"))
        accounts.token(key)
        first = ApiToken.objects.get(pk=one.pk).last_used_at
        tokens.note_use(one, address="")  # of many who call at once, one writes
        assert ApiToken.objects.get(pk=one.pk).last_used_at == first
        assert ApiToken.objects.get(pk=other.pk).last_used_at is None
