"""Transcriptions through OpenAI's own client: the sound is the job's input file, the text is the server's."""

import io
import json
from collections.abc import Sequence
from typing import Any

import httpx
import openai
import pytest
from django.conf import settings
from django.contrib.auth.models import User

from jobs import limits
from jobs.models import Job, Upload
from ratelimits import operations as ratelimits
from tests import farm
from tests.openai_api import model_server
from tests.openai_api.edges.conftest import Working
from tests.openai_api.model_server import ModelServer, Script, refusal, whole

pytestmark = pytest.mark.django_db(transaction=True)
SOUND = b"RIFF" + bytes(range(256)) * 8
SUBTITLES = "1\n00:00:00,000 --> 00:00:01,000\nGrüß Gott.\n"


def sound() -> tuple[str, io.BytesIO]:
    return ("my sound.wav", io.BytesIO(SOUND))


def text(content: str, content_type: str) -> Script:
    return Script([content.encode()], headers={"content-type": content_type})


class TestATranscription:
    def test_gets_the_sound_and_the_fields_of_the_form(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        words = [{"word": "Hello.", "start": 0.0, "end": 1.0}]
        model.scripts = [whole(text="Hello.", language="en", duration=1.0, words=words, task="transcribe")]
        with working():
            answer = client.audio.transcriptions.create(
                model="tiny", file=sound(), response_format="verbose_json", language="en",
                timestamp_granularities=["word", "segment"],
            )  # fmt: skip
        assert (answer.text, answer.words and answer.words[0].word) == ("Hello.", "Hello.")
        assert model.requests == [
            {
                "path": "/v1/audio/transcriptions", "model": ["tiny"], "response_format": ["verbose_json"],
                "language": ["en"], "timestamp_granularities[]": ["word", "segment"], "file": ("my-sound.wav", SOUND),
            }
        ]  # fmt: skip
        job = Job.objects.whole().get()
        assert [(entry["name"], entry["size"]) for entry in job.inputs or ()] == [("my-sound.wav", len(SOUND))]
        assert job.payload["file"] == "my-sound.wav"

    @pytest.mark.parametrize(
        ("form", "content_type", "shown"),
        [
            ("srt", "text/plain; charset=utf-8", "text/plain"),
            ("vtt", "text/vtt", "text/vtt"),
            ("text", "text/html; charset=utf-8", "text/plain"),
        ],
    )
    def test_comes_as_a_text_of_a_sort_that_is_no_page(
        self, client: openai.OpenAI, model: ModelServer, working: Working, form: Any, content_type: str, shown: str
    ) -> None:
        model.scripts = [text(SUBTITLES, content_type)]
        with working():
            answer = client.audio.transcriptions.with_raw_response.create(
                model="tiny", file=sound(), response_format=form
            )
        assert answer.text == SUBTITLES
        assert answer.headers["content-type"] == f"{shown}; charset=utf-8"
        assert Job.objects.get().result == {"answer_text": SUBTITLES, "content_type": content_type}

    def test_larger_than_a_result_comes_back_whole(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [text(SUBTITLES * 20_000, "text/plain")]
        with working():
            answer: Any = client.audio.transcriptions.create(model="tiny", file=sound(), response_format="srt")
        assert answer == SUBTITLES * 20_000
        assert Job.objects.get().result == {"answer_file": "answer.txt", "content_type": "text/plain"}

    def test_streams_where_the_server_does(self, client: openai.OpenAI, model: ModelServer, working: Working) -> None:
        events: Sequence[dict[str, Any]] = [
            {"type": "transcript.text.delta", "delta": "Hel"},
            {"type": "transcript.text.delta", "delta": "lo."},
            {"type": "transcript.text.done", "text": "Hello."},
        ]
        model.scripts = [Script([f"data: {json.dumps(event)}\n\n".encode() for event in events])]
        with working():
            seen = list(client.audio.transcriptions.create(model="tiny", file=sound(), stream=True))
        assert [event.to_dict() for event in seen] == events
        assert model.requests[0]["stream"] == ["true"]
        farm.until(lambda: Job.objects.get().status == "success")
        assert Job.objects.get().result == {"text": "Hello."}

    def test_that_the_server_refuses_has_its_words(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [refusal(400, "This is no sound.")]
        with working(), pytest.raises(openai.BadRequestError, match="This is no sound"):
            client.audio.transcriptions.create(model="tiny", file=sound())

    def test_with_the_same_key_is_made_once_for_the_same_sound(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [whole(text="Once.")]
        again = {"Idempotency-Key": "one"}
        with working():
            for _ in range(2):
                answer = client.audio.transcriptions.create(model="tiny", file=sound(), extra_headers=again)
                assert answer.text == "Once."
            with pytest.raises(openai.APIStatusError, match="Idempotency-Key"):
                client.audio.transcriptions.create(model="tiny", file=("b.wav", b"other"), extra_headers=again)
        assert (Job.objects.count(), Upload.objects.count()) == (1, 1)


class TestATranslation:
    def test_is_passed_on_the_same_way(self, http: httpx.Client, model: ModelServer, working: Working) -> None:
        """OpenAI's client calls its own method for this deprecated."""
        model.scripts = [whole(text="Hello.")]
        with working():
            answer = http.post("audio/translations", data={"model": "tiny"}, files={"file": sound()})
        assert answer.json() == {"text": "Hello."}
        assert model.requests[0]["path"] == "/v1/audio/translations"


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("request_of", "param"),
        [
            ({"json": {"model": "tiny"}}, "file"),
            ({"data": {"model": "tiny"}}, "file"),
            ({"data": {"model": "tiny", "file": "text"}}, "file"),
            ({"data": {"language": "en"}, "files": {"file": sound()}}, "model"),
            ({"data": {"model": "tiny", "stream": "perhaps"}, "files": {"file": sound()}}, "stream"),
        ],
        ids=["json", "no file", "a text", "no model", "stream"],
    )
    def test_a_form_that_lacks_something(self, http: httpx.Client, request_of: Any, param: str) -> None:
        answer = http.post("audio/transcriptions", **request_of)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert not Upload.objects.exists()

    def test_a_form_that_is_none(self, http: httpx.Client) -> None:
        head = {"content-type": "multipart/form-data; boundary=x"}
        answer = http.post("audio/transcriptions", content=b"--y\r\nodd", headers=head)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"

    def test_a_stream_of_a_translation(self, http: httpx.Client) -> None:
        fields = {"model": "tiny", "stream": "true"}
        answer = http.post("audio/translations", data=fields, files={"file": sound()})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream")

    def test_a_sound_larger_than_a_file_may_be(self, http: httpx.Client, working: Working) -> None:
        large = b"x" * (settings.JOBFARM["FILE_BYTES"] + 1)
        with working():
            answer = http.post("audio/transcriptions", data={"model": "tiny"}, files={"file": ("a.wav", large)})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert not Job.objects.exists()

    def test_nothing_is_kept_of_a_call_that_is_refused(
        self, http: httpx.Client, working: Working, model: ModelServer, ada: User
    ) -> None:
        with working():
            answer = http.post("audio/transcriptions", data={"model": "huge"}, files={"file": sound()})
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
            for _ in range(10):
                most = 2 * settings.JOBFARM["SUBMIT_BURST"]
                ratelimits.limit(limits.SUBMIT_USER, key=f"user:{ada.pk}", count=most, reserve=True)
            answer = http.post("audio/transcriptions", data={"model": "tiny"}, files={"file": sound()})
            assert answer.status_code == 429
        assert not Job.objects.exists()
        assert not Upload.objects.exists()
        assert model.requests == []


def test_the_model_server_of_these_tests_speaks_of_transcriptions_alone() -> None:
    """The fields of a form arrive as a server reads them: a test of the tests' own reader."""
    form = httpx.Request("POST", "http://x", data={"a": ["1", "2"]}, files={"file": sound()})
    fields = model_server._fields(form.headers["content-type"], form.read())
    assert fields == {"a": ["1", "2"], "file": ("my sound.wav", SOUND)}


class TestASpeech:
    @pytest.mark.parametrize(
        ("content_type", "name", "shown"),
        [
            ("audio/mpeg", "answer.mp3", "audio/mpeg"),
            ("audio/pcm; rate=24000", "answer.pcm", "audio/pcm"),
            ("text/html", "answer.pcm", "text/plain; charset=utf-8"),
        ],
    )
    def test_is_the_servers_own_and_a_file_of_the_job(
        self, client: openai.OpenAI, model: ModelServer, working: Working, content_type: str, name: str, shown: str
    ) -> None:
        model.scripts = [Script([SOUND], headers={"content-type": content_type})]
        with working():
            spoken = client.audio.speech.create(model="tiny", voice="alloy", input="Hello.", instructions="Softly.")
        assert spoken.content == SOUND
        assert spoken.response.headers["content-type"] == shown
        [asks] = model.requests
        assert asks == {
            "path": "/v1/audio/speech", "model": "tiny", "voice": "alloy", "input": "Hello.", "instructions": "Softly.",
        }  # fmt: skip
        job = Job.objects.get()
        assert [(file.name, file.size) for file in job.files.all()] == [(name, len(SOUND))]
        assert client.get(f"/audio/speech/{job.pk}", cast_to=httpx.Response).content == SOUND

    def test_that_the_server_refuses_is_refused_in_its_words(
        self, client: openai.OpenAI, model: ModelServer, working: Working
    ) -> None:
        model.scripts = [refusal(400, "No such voice.")]
        with working(), pytest.raises(openai.BadRequestError, match="No such voice"):
            client.audio.speech.create(model="tiny", voice="nobody", input="Hello.")

    def test_in_pieces_is_refused(self, http: httpx.Client) -> None:
        body = {"model": "tiny", "voice": "alloy", "input": "Hello.", "stream_format": "sse"}
        answer = http.post("audio/speech", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "stream_format")
