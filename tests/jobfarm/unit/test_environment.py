"""Settings from the environment: each wrong one is a sentence that names it, secrets may lie in files."""

from pathlib import Path
from typing import Any

import pytest

from jobfarm import environment
from jobfarm.environment import files, table
from tests.looped import looped

BY_NAME = {variable.name: variable for variable in table.VARIABLES}
SECRETS = sorted(variable.name for variable in table.VARIABLES if variable.is_secret)


def value(name: str, text: str) -> Any:
    values, wrong = environment.read({name: text})
    assert wrong == []
    return values[name]


class TestAnEmptyEnvironment:
    def test_has_every_default(self) -> None:
        values, wrong = environment.read({})
        assert wrong == []
        assert values == {variable.name: variable.default for variable in table.VARIABLES}

    def test_is_what_empty_variables_are(self) -> None:
        assert environment.read(dict.fromkeys(BY_NAME, "")) == environment.read({})


class TestAValue:
    @looped(
        ("name", "text", "expected"),
        [
            ("JOBFARM_SIGN_UP", "Off", False),
            ("DEBUG", "yes", True),
            ("JOBFARM_LEASE_S", " 1.5 ", 1.5),
            ("JOBFARM_MEMBER_PRIORITY", "-5", -5),
            ("ALLOWED_HOSTS", "a.example, b.example,", ["a.example", "b.example"]),
            ("JOBFARM_MEMBER_QUEUES", "a,b c", ["a", "b", "c"]),
            ("LOG_LEVEL", "debug", "DEBUG"),
            ("JOBFARM_LOG", "JSON", "json"),
            ("REDIS_URL", "rediss://:pw@cache:6380/1", "rediss://:pw@cache:6380/1"),
            ("REDIS_URL", "unix:///run/redis.sock", "unix:///run/redis.sock"),
            ("JOBFARM_APPS", "tests", ["tests"]),
            ("JOBFARM_APPS", "examples.chat.apps.ChatConfig", ["examples.chat.apps.ChatConfig"]),
            ("SECRET_KEY", " a space ", " a space "),
            ("CSRF_TRUSTED_ORIGINS", "https://a.org,https://*.b:84", ["https://a.org", "https://*.b:84"]),
        ],
    )
    def test_is_read(self, name: str, text: str, expected: object) -> None:
        assert value(name, text) == expected

    @looped(
        ("name", "text", "sentence"),
        [
            ("JOBFARM_SIGN_UP", "ture", 'must be 1 (true, yes, on) or 0 (false, no, off), not "ture".'),
            ("JOBFARM_LEASE_S", "a minute", 'must be a number above 0, not "a minute".'),
            ("JOBFARM_LEASE_S", "0", 'must be a number above 0, not "0".'),
            ("JOBFARM_LEASE_S", "nan", 'must be a number above 0, not "nan".'),
            ("SCHEDULING_GRACE_S", "-1", 'must be a number of at least 0, not "-1".'),
            ("SCHEDULING_GRACE_S", "inf", 'must be a number of at least 0, not "inf".'),
            ("JOBFARM_RETENTION_DAYS", "1.5", 'must be a whole number of at least 0, not "1.5".'),
            ("JOBFARM_DB_POOL", "0", 'must be a whole number of at least 1, not "0".'),
            ("PORT", "80000", 'must be a whole number from 0 to 65535, not "80000".'),
            ("JOBFARM_MEMBER_PRIORITY", "101", 'must be a whole number from -100 to 100, not "101".'),
            ("LOG_LEVEL", "loud", 'must be one of DEBUG, INFO, WARNING, ERROR, CRITICAL, not "loud".'),
            ("JOBFARM_LOG", "xml", 'must be one of text, json, not "xml".'),
            ("ALLOWED_HOSTS", "https://a.example", 'must hold names of hosts, such as farm.example.org, not "https://a.example".'),
            ("CSRF_TRUSTED_ORIGINS", "a.b", 'must hold origins, such as https://farm.example.org, not "a.b".'),
            ("JOBFARM_URL", "a.example", 'must begin with http:// or https:// and a host, not "a.example".'),
            ("LLM_SERVERS", "http://a/v1,b/v1", 'must begin with http:// or https:// and a host, not "b/v1".'),
            ("REDIS_URL", "http://s3cret@cache", "must be written as redis://host:6379/0 (or rediss:// or unix://)."),
            ("REDIS_URL", "redis://s3cret@cache:port", "must be written as redis://host:6379/0 (or rediss:// or unix://)."),
            ("JOBFARM_DATA", __file__, f'must be a folder, not "{__file__}".'),
            ("JOBFARM_APPS", "no.app", 'names "no.app", which Python does not find: PYTHONPATH must have its folder.'),
            ("JOBFARM_APPS", "jobs.x", 'names "jobs.x", which Python does not find: PYTHONPATH must have its folder.'),
        ],
    )  # fmt: skip
    def test_that_is_none_is_one_sentence_that_names_it(self, name: str, text: str, sentence: str) -> None:
        _, wrong = environment.read({name: text})
        assert wrong == [f"{name} {sentence}"]
        assert "s3cret" not in wrong[0]

    def test_that_is_no_bucket_is_not_repeated(self) -> None:
        _, (sentence,) = environment.read({"FILES_URL": "http://s3cret@bucket"})
        assert sentence.startswith("FILES_URL is s3://BUCKET/PREFIX?region=REGION")
        assert "s3cret" not in sentence

    @pytest.mark.parametrize("name", ["DATABASE_URL", "DATABASE_DIRECT_URL"])
    def test_that_is_no_address_of_a_database_is_not_repeated(self, name: str) -> None:
        for address in ("mysql://a:s3cret@h/x", "postgresql://a:s3cret@h/x?connect_timeout=soon"):
            _, (sentence,) = environment.read({"DATABASE_URL": "postgresql://h/x", name: address})
            assert sentence.startswith(f"{name} is not usable: it")
            assert "s3cret" not in sentence

    def test_of_a_way_past_a_pooler_needs_the_pooler(self) -> None:
        _, (sentence,) = environment.read({"DATABASE_DIRECT_URL": "postgresql://h/x"})
        assert sentence.startswith("DATABASE_DIRECT_URL is set without DATABASE_URL")

    def test_of_a_mail_server_in_two_ways_is_refused(self) -> None:
        _, (sentence,) = environment.read({"EMAIL_USE_TLS": "1", "EMAIL_USE_SSL": "1"})
        assert sentence.startswith("EMAIL_USE_TLS and EMAIL_USE_SSL are both set")

    @pytest.mark.parametrize("believed", ["*", "127.0.0.1, *", "0.0.0.0/0", "::/0"])
    def test_that_names_people_in_a_header_is_refused_where_everybody_is_believed(self, believed: str) -> None:
        header = {"REMOTE_USER_HEADER": "X-Forwarded-User"}
        _, [sentence] = environment.read(header | {"FORWARDED_ALLOW_IPS": believed})
        assert sentence.startswith("REMOTE_USER_HEADER is set, and FORWARDED_ALLOW_IPS believes everybody")
        assert environment.read(header | {"FORWARDED_ALLOW_IPS": "127.0.0.1,10.0.0.0/8"})[1] == []
        assert environment.read({"FORWARDED_ALLOW_IPS": believed})[1] == []

    def test_of_a_provider_that_does_not_know_the_farm_is_refused(self) -> None:
        _, [sentence] = environment.read({"OIDC_ISSUER": "https://login.example.org"})
        assert sentence.startswith("OIDC_ISSUER is set without OIDC_CLIENT_ID")

    def test_of_an_added_app_is_read_with_it_alone(self) -> None:
        given = {"JOBFARM_GAME_BLOCKED": "a b, c", "JOBFARM_CHAT_TOKENS_PER_MINUTE": "none"}
        values, wrong = environment.read({"JOBFARM_APPS": "examples.imagegame", **given})
        assert (values["JOBFARM_GAME_BLOCKED"], values["JOBFARM_GAME_PICTURE_S"], wrong) == (["a b", "c"], 30, [])
        values, wrong = environment.read({"JOBFARM_APPS": environment.EXAMPLES, **given})
        assert wrong == ['JOBFARM_CHAT_TOKENS_PER_MINUTE must be a number above 0, not "none".']
        assert not environment.read(given)[0].keys() & given.keys()

    def test_beside_others_is_said_with_them(self) -> None:
        _, wrong = environment.read({"PORT": "x", "DEBUG": "maybe", "JOBFARM_LEASE_S": "5"})
        assert [sentence.partition(" ")[0] for sentence in wrong] == ["PORT", "DEBUG"]


class TestASecret:
    def test_is_everything_that_opens_something(self) -> None:
        assert SECRETS == [
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DATABASE_DIRECT_URL", "DATABASE_URL",
            "EMAIL_HOST_PASSWORD", "FILES_URL",
            "JOBFARM_METRICS_TOKEN", "LLM_API_KEY", "OIDC_CLIENT_SECRET", "REDIS_URL", "SECRET_KEY",
            "SOCIALACCOUNT_PROVIDERS",
        ]  # fmt: skip

    @pytest.mark.parametrize("name", SECRETS)
    @pytest.mark.parametrize("end", ["", "\n", "\r\n"])
    def test_may_lie_in_a_file(self, name: str, end: str, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        path.write_bytes(f"s3cret{end}".encode())
        environ = {f"{name}_FILE": str(path), "PORT": "1"}
        assert files.resolve(environ) == []
        assert environ == {name: "s3cret", "PORT": "1"}

    def test_in_two_places_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        path.write_text("s3cret")
        environ = {"SECRET_KEY": "another", "SECRET_KEY_FILE": str(path)}
        assert files.resolve(environ) == ["SECRET_KEY and SECRET_KEY_FILE are both set: leave one of them out."]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (None, "which cannot be read: No such file or directory."),
            (b"", "which does not hold one line with the secret."),
            (b"s3cret\ntwo\n", "which does not hold one line with the secret."),
            (b"s3\xffcret", "which is not a text in UTF-8."),
        ],
    )
    def test_that_cannot_be_read_is_one_sentence(self, content: bytes | None, reason: str, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        if content is not None:
            path.write_bytes(content)
        assert files.resolve({"REDIS_URL_FILE": str(path)}) == [f"REDIS_URL_FILE names {path}, {reason}"]

    @pytest.mark.parametrize(
        ("real", "of_the_file", "expected"),
        [
            ({"SECRET_KEY": "real"}, {"SECRET_KEY_FILE": "/x", "PORT": "1"}, {"SECRET_KEY": "real", "PORT": "1"}),
            ({"SECRET_KEY_FILE": "/x"}, {"SECRET_KEY": "file"}, {"SECRET_KEY_FILE": "/x"}),
            ({"PORT": "2"}, {"PORT": "1"}, {"PORT": "2"}),
            ({}, {"SECRET_KEY": "a", "SECRET_KEY_FILE": "/x"}, {"SECRET_KEY": "a", "SECRET_KEY_FILE": "/x"}),
        ],
    )
    def test_of_the_real_environment_wins_in_both_forms(
        self, real: dict[str, str], of_the_file: dict[str, str], expected: dict[str, str]
    ) -> None:
        environ = dict(real)
        environment.fill(environ, of_the_file)
        assert environ == expected


class TestAMisspelledName:
    @looped(
        ("name", "near"),
        [
            ("JOBFARM_LEASE", "JOBFARM_LEASE_S"),
            ("JOBFARM_RETENTION", "JOBFARM_RETENTION_DAYS"),
            ("WEBHOOKS_ATEMPTS", "WEBHOOKS_ATTEMPTS"),
            ("SCHEDULING_WORKER", "SCHEDULING_WORKERS"),
            ("jobfarm_lease_s", "JOBFARM_LEASE_S"),
            ("JOBFARM_METRICS_TOKEN_FILES", "JOBFARM_METRICS_TOKEN_FILE"),
            ("JOBFARM_ENVFILE", "JOBFARM_ENV_FILE"),
        ],
    )
    def test_is_said_with_the_one_it_looks_like(self, name: str, near: str) -> None:
        assert list(environment.warnings({name: "1"}, {})) == [
            f"{name} is not a setting, and is not read; did you mean {near}?"
        ]

    def test_without_our_prefix_is_said_of_the_file_alone(self) -> None:
        assert list(environment.warnings({"ALLOWED_HOST": "a"}, {})) == []
        (warning,) = environment.warnings({}, {"ALLOWED_HOST": "a"})
        assert warning.endswith("did you mean ALLOWED_HOSTS?")

    @looped("name", ["JOBFARM_URL", "JOBFARM_KEY", "JOBFARM_NOTES_FOLDER", *BY_NAME])
    def test_is_none_that_somebody_reads_or_that_is_unlike_all(self, name: str) -> None:
        assert list(environment.warnings({name: "1"}, {name: "1"})) == []
