"""How refusals are answered."""

from accounts import errors as accounts
from jobfarm import middleware
from jobs import errors as jobs
from scheduling import errors as scheduling


class TestAnAnswer:
    def test_gives_a_status_code_and_the_numbers(self) -> None:
        refused = middleware.refusal(jobs.OutputGap(next_seq=3))
        assert refused is not None
        assert (refused.status, refused.body["error"], refused.body["next_seq"]) == (409, "output_gap", 3)

    def test_asks_for_a_key_where_one_is_missing(self) -> None:
        for error in (jobs.InvalidKey(), accounts.Unauthorized()):
            refused = middleware.refusal(error)
            assert refused is not None
            assert refused.headers == {"WWW-Authenticate": 'Bearer realm="jobfarm"'}

    def test_knows_nothing_of_what_is_our_own_fault(self) -> None:
        assert middleware.refusal(RuntimeError("a bug")) is None
        assert middleware.refusal(scheduling.BadQueue(why="a bug")) is None
        assert middleware.problem(RuntimeError("a bug"))[0] == 500
