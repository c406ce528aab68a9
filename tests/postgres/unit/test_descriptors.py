"""Waiting for descriptors: as `select.select` does, with any number of them and of any number."""

import os
from collections.abc import Iterator

import pytest

from postgres import descriptors
from tests.descriptors import MANY, many_open


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    with many_open():
        reading, writing = os.pipe()
        yield reading, writing
        os.close(reading)
        os.close(writing)


def test_one_beyond_fifteen_hundred_is_ready_when_it_has_something(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    assert min(pipe) > MANY
    assert descriptors.ready([reading], within_s=0) == set()
    assert descriptors.ready([reading], to_write=[writing], within_s=30) == {writing}
    os.write(writing, b".")
    assert descriptors.ready([reading], within_s=30) == {reading}


def test_of_one_that_is_waited_for_both_ways_either_ends_the_wait(pipe: tuple[int, int]) -> None:
    assert descriptors.ready(pipe, to_write=pipe, within_s=30) == {pipe[1]}


def test_one_whose_other_end_is_closed_is_ready() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert descriptors.ready([reading], within_s=30) == {reading}
    os.close(reading)


def test_a_wait_of_less_than_nothing_or_of_months_is_a_wait(pipe: tuple[int, int]) -> None:
    assert descriptors.ready([pipe[0]], within_s=-1.0) == set()
    assert descriptors.ready([], to_write=[pipe[1]], within_s=1e9) == {pipe[1]}
