"""Secrets that are shown once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts import domain, errors


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

    @pytest.mark.parametrize("name", ["", "   ", "x" * 101, "two\nlines", "nul\x00", "bell\a", "\ud800"])
    def test_refuses_empty_long_and_unprintable_names(self, name: str) -> None:
        assert not domain.is_name(name)


class TestRefusals:
    def test_fill_their_numbers_into_the_sentence(self) -> None:
        refusal = errors.InactiveUser(username="ada")
        assert (refusal.code, refusal.message, refusal.numbers) == (
            "inactive_user",
            "ada may not log in: the account is switched off.",
            {"username": "ada"},
        )
