"""Secrets that are shown once, and what may be called how."""

import random

import pytest
from hypothesis import given, strategies as st

from accounts import domain, errors
from tests.looped import looped


class TestHashed:
    def test_is_the_sha256_of_the_text(self) -> None:
        assert domain.hashed("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    @given(st.text(st.characters(exclude_categories=[])))
    def test_takes_any_text_also_one_that_utf8_cannot_hold(self, text: str) -> None:
        assert len(domain.hashed(text)) == 64

    def test_tells_texts_apart_that_differ_in_a_lone_surrogate(self) -> None:
        assert domain.hashed("\ud800") != domain.hashed("\ud801")


class TestIsName:
    @pytest.mark.parametrize("name", ["a", "my laptop", "Büro-Mac 2", "x" * 100])
    def test_takes_printable_names_of_up_to_100_characters(self, name: str) -> None:
        assert domain.is_name(name)

    @looped("name", ["", "   ", "x" * 101, "two\nlines", "nul\x00", "bell\a", "\ud800"])
    def test_refuses_empty_long_and_unprintable_names(self, name: str) -> None:
        assert not domain.is_name(name)


class TestTidied:
    @pytest.mark.parametrize(
        ("typed", "stored"),
        [("  Painters ", "Painters"), ("two \t\n words", "two words"), ("Cafe\u0301", "Caf\u00e9"), ("   ", "")],
    )
    def test_is_one_text_for_one_name(self, typed: str, stored: str) -> None:
        assert domain.tidied(typed) == stored

    @given(st.text())
    def test_changes_nothing_the_second_time(self, text: str) -> None:
        assert domain.tidied(domain.tidied(text)) == domain.tidied(text)


class TestIsGroupName:
    @pytest.mark.parametrize("name", ["a", "Büro 2", "x" * 60, "🎨 painters"])
    def test_takes_printable_names_of_up_to_60_characters(self, name: str) -> None:
        assert domain.is_group_name(name)

    @looped("name", ["", "x" * 61, "bell\a", "nul\x00", "turned\u202e", "\ud800"])
    def test_refuses_empty_long_and_unprintable_names(self, name: str) -> None:
        assert not domain.is_group_name(name)


class TestIsReserved:
    @looped("name", ["admin", "Admin", "admin-2", "guest-7f3a", "GUEST", "ASSISTANT", "root"])
    def test_keeps_names_that_would_be_taken_for_the_farms_own(self, name: str) -> None:
        assert domain.is_reserved(name)

    @looped("name", ["ada", "guests", "adminia", "my-guest", "farmer"])
    def test_leaves_all_others(self, name: str) -> None:
        assert not domain.is_reserved(name)


class TestMixesScripts:
    @looped("name", ["\u0430dmin", "adm\u0456n", "Allo\u03c1", "\u13aada", "ad\uff41\u0430"])
    def test_finds_names_that_can_be_read_as_others(self, name: str) -> None:
        assert domain.mixes_scripts(name)

    @looped(
        "name",
        [
            *("ada", "ada-7", "josé", "jose\u0301", "Алёна", "Γιώργος", "हिन्दी", "@.+-_7", ""),
            *("山田たろう", "tanaka太郎", "김철수abc", "wang王ㄨㄤˊ"),
        ],
    )
    def test_takes_what_people_write(self, name: str) -> None:
        assert not domain.mixes_scripts(name)

    @given(st.text())
    def test_takes_any_text(self, text: str) -> None:
        domain.mixes_scripts(text)


class TestCaptchaText:
    @given(st.integers(min_value=0))
    def test_is_five_letters_that_can_be_told_apart(self, seed: int) -> None:
        text = domain.captcha_text(rng=random.Random(seed))
        assert len(text) == 5
        assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ") - set("BDFIJLMNOPQSUVWYZ")

    def test_is_another_one_each_time(self) -> None:
        rng = random.Random(7)
        assert len({domain.captcha_text(rng=rng) for _ in range(50)}) > 45  # of 59,049


class TestRefusals:
    def test_fill_their_numbers_into_the_sentence(self) -> None:
        refusal = errors.InactiveUser(username="ada")
        assert (refusal.code, refusal.message, refusal.numbers) == (
            "inactive_user",
            "ada may not log in: the account is disabled.",
            {"username": "ada"},
        )
