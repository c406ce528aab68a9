"""The demonstrators: real work, the same for the same prompt, with progress that only grows."""

from __future__ import annotations

import asyncio
import io
import random
from typing import Any

import numpy as np
import pytest
from PIL import Image

from jobfarm_worker import Failed, Job
from jobfarm_worker.handlers import chat_demo, image_demo
from jobfarm_worker.handlers.chat_demo import compose, topics_of
from jobfarm_worker.handlers.image_demo import Picture
from jobfarm_worker.outbox import File, Outbox, Progress
from jobfarm_worker.protocol import ClaimedJob, JobResult
from jobfarm_worker.running import is_async, perform, perform_async

PROMPT = "Write a poem about a lighthouse keeper in the storm"


class RecordingContext(Outbox):
    """An outbox that remembers everything."""

    def __init__(self) -> None:
        super().__init__(wake=lambda: None)
        self.texts: list[str] = []
        self.reports: list[Progress] = []
        self.files: list[File] = []

    def write(self, text: str, *, may_block: bool) -> None:
        self.texts.append(text)

    def report(self, progress: Progress) -> None:
        self.reports.append(progress)

    def put(self, file: File) -> None:
        self.files.append(file)


async def run(handler: Any, payload: Any) -> tuple[JobResult, RecordingContext]:
    context = RecordingContext()
    claimed = ClaimedJob(id=7, kind="k", queue="q", payload=payload, attempt=1, lease="l", heartbeat_s=20)

    async def confirmed() -> None:
        return None

    job = Job(claimed, outbox=context, confirmed=confirmed)
    if is_async(handler):
        return await perform_async(handler, job, context), context
    return await asyncio.to_thread(perform, handler, job), context


class TestChatDemonstrator:
    async def test_says_what_it_is_and_streams_word_by_word(self) -> None:
        outcome, context = await run(chat_demo.handler(pace_s=0), {"prompt": PROMPT})

        text = "".join(context.texts)
        assert text.startswith("(demonstrator: no language model is configured) ")
        assert "lighthouse" in text
        assert 80 < len(context.texts) < 160
        assert outcome == JobResult(
            success=True, result={"text": text, "model": "demonstrator", "finish_reason": "stop"}
        )
        fractions = [report.fraction or 0 for report in context.reports]
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1

    async def test_answers_the_last_message_of_the_user(self) -> None:
        parts = [{"type": "text", "text": "lighthouse and storm"}]
        messages = [
            {"role": "user", "content": "cats"},
            {"role": "assistant", "content": "dogs"},
            {"role": "user", "content": parts},
        ]
        _, context = await run(chat_demo.handler(pace_s=0), {"messages": messages})
        text = "".join(context.texts)
        assert "lighthouse" in text
        assert "cats" not in text

    @pytest.mark.parametrize(
        "payload", [None, [], {}, {"prompt": ""}, {"prompt": 7}, {"messages": []}, {"messages": [{"role": 1}]}]
    )
    async def test_fails_for_good_without_a_prompt(self, payload: Any) -> None:
        outcome, _ = await run(chat_demo.handler(pace_s=0), payload)
        assert (outcome.success, outcome.retryable) == (False, False)


class TestText:
    def test_is_the_same_for_the_same_seed(self) -> None:
        texts = [compose(PROMPT, rng=random.Random(seed)) for seed in (1, 1, 2)]
        assert texts[0] == texts[1] != texts[2]

    def test_leaves_no_slot_open_and_repeats_no_sentence(self) -> None:
        for seed in range(200):
            text = compose(PROMPT, rng=random.Random(seed))
            sentences = [sentence for sentence in text.replace("\n\n", " ").split(". ") if sentence]
            assert "{" not in text
            assert len(sentences) == len(set(sentences)) == 7

    def test_finds_the_words_that_carry_a_prompt(self) -> None:
        assert topics_of(PROMPT) == ["poem", "lighthouse", "keeper", "storm"]
        assert topics_of("Über die Brücke") == ["Über", "die", "Brücke"]
        assert topics_of("?!") == ["quiet", "work", "patience"]


class TestImageDemonstrator:
    async def test_paints_in_bands_with_true_progress_and_stores_a_png(self) -> None:
        outcome, context = await run(image_demo.handler(side=48, pace_s=0), {"prompt": PROMPT})

        result = {"file": "picture.png", "model": "demonstrator", "width": 48, "height": 48}
        assert outcome == JobResult(success=True, result=result)
        details = [report.detail for report in context.reports]
        bands = [f"Painting band {number} of 24" for number in range(1, 25)]
        assert details == ["Starting", "Sketching", *bands, "Saving"]
        fractions = [report.fraction or 0 for report in context.reports]
        assert fractions == sorted(fractions)
        assert [file.name for file in context.files] == ["preview.png"] * 8 + ["picture.png"]
        assert context.texts[0].startswith("(demonstrator: no image model is configured) ")
        with Image.open(io.BytesIO(context.files[-1].data)) as picture:
            assert (picture.format, picture.size, picture.mode) == ("PNG", (48, 48), "RGB")

    async def test_stops_between_two_bands_when_the_job_was_canceled(self) -> None:
        context = RecordingContext()
        context.stop()
        claimed = ClaimedJob(
            id=7, kind="k", queue="q", payload={"prompt": PROMPT}, attempt=1, lease="l", heartbeat_s=20
        )
        job = Job(claimed, outbox=context, confirmed=lambda: asyncio.sleep(0))
        outcome = await asyncio.to_thread(perform, image_demo.handler(side=48, pace_s=0), job)
        assert "JobStopped" in outcome.error
        assert len([report for report in context.reports if "band" in (report.detail or "")]) == 1

    async def test_fails_for_good_without_a_prompt(self) -> None:
        outcome, _ = await run(image_demo.handler(side=48, pace_s=0), {"prompt": "  "})
        assert (outcome.success, outcome.retryable) == (False, False)


class TestPicture:
    def test_is_the_same_however_it_is_cut_into_bands(self) -> None:
        whole = Picture(PROMPT, side=48).band(0, 48)
        bands = [Picture(PROMPT, side=48).band(top, top + 8) for top in range(0, 48, 8)]
        assert np.array_equal(whole, np.concatenate(bands))

    def test_differs_from_prompt_to_prompt_and_has_something_to_see(self) -> None:
        one, other = Picture(PROMPT, side=48).band(0, 48), Picture("a cat", side=48).band(0, 48)
        assert not np.array_equal(one, other)
        assert one.std() > 10
        assert other.std() > 10


def test_failed_carries_whether_trying_again_helps() -> None:
    assert (str(Failed("No.", retryable=False)), Failed("No.").retryable) == ("No.", True)
