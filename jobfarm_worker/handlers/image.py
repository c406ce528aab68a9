"""`image`: a picture from any server with an OpenAI-compatible images API, stored as a PNG."""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from PIL import Image as Pillow, UnidentifiedImageError

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers.calls import prompt_of
from jobfarm_worker.handlers.chunks import as_object, objects
from jobfarm_worker.handlers.servers import DELAYS_S, Request, Server, retried
from jobfarm_worker.job import Job
from jobfarm_worker.running import Handler

DEFAULT_MODEL = "gpt-image-1"
FILE = "image.png"
FETCH_S = 60.0


def handler(*, url: str, environ: Mapping[str, str], delays_s: Sequence[float] = DELAYS_S) -> Handler:
    """A handler that asks the server at `url` (its `/v1` address) for one picture per job.

    `JOBFARM_IMAGE_KEY` or `OPENAI_API_KEY` is the key, if it needs one; `JOBFARM_IMAGE_MODEL` the model of
    payloads that name none. Payload: `{"prompt": str}`, and `size` ("1024x1024") and `model` if wanted. The
    picture becomes the file `image.png`. Result: `{"file", "model", "width", "height"}`.
    """
    server = Server.named(url, key="JOBFARM_IMAGE_KEY", environ=environ)
    usual_model = environ.get("JOBFARM_IMAGE_MODEL") or DEFAULT_MODEL

    async def image(job: Job) -> dict[str, Any]:
        question = _question(job.payload, usual_model)
        job.progress(0.0, f"Asking {question['model']}")
        request = Request("images/generations", question)
        answer = await retried(lambda: server.connection().post_json(request), delays_s=delays_s)
        job.progress(0.9, "Saving")
        picture = _png(await _bytes(objects(as_object(answer).get("data"))))
        job.file(FILE, picture)
        width, height = Pillow.open(io.BytesIO(picture)).size
        return {"file": FILE, "model": question["model"], "width": width, "height": height}

    return image


def _question(payload: Any, usual_model: str) -> dict[str, Any]:
    prompt = prompt_of(payload)
    size = {"size": payload["size"]} if payload.get("size") else {}
    return {"prompt": prompt, "model": payload.get("model") or usual_model, "n": 1, **size}


async def _bytes(images: Sequence[Mapping[str, Any]]) -> bytes:
    """The picture in the answer, or where the answer says it is."""
    for image in images:
        if data := image.get("b64_json"):
            return _decoded(str(data))
        if url := image.get("url"):
            return await _fetched(str(url))
    raise Failed("The image server answered with no picture.")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Failed(f"The image server sent something that is not base64: {error}.") from error


async def _fetched(url: str) -> bytes:
    try:
        async with httpx.AsyncClient(follow_redirects=True, timeout=FETCH_S) as client:
            response = await client.get(url)
            return response.raise_for_status().content
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Failed(f"The picture could not be fetched from the image server: {error}") from error


def _png(data: bytes) -> bytes:
    try:
        with Pillow.open(io.BytesIO(data)) as picture:
            if picture.format == "PNG":
                picture.verify()
                return data
            png = io.BytesIO()
            picture.save(png, format="PNG")
            return png.getvalue()
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise Failed(f"The image server sent something that is no picture: {error}") from error
