"""A farm for agents: `python -m jobfarm_client.mcp` is a server of the Model Context Protocol over standard input and
output. The farm's address and a person's token are in JOBFARM_URL and JOBFARM_TOKEN; in a checkout,
`pip install '.[mcp]'` brings what it needs."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import wraps
from typing import Annotated, Any, Final, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from jobfarm_client.client import AsyncClient
from jobfarm_client.errors import FarmError, WaitTimeout
from jobfarm_client.models import Condition, Job, JobOptions, OnConflict, Status
from jobfarm_client.wire import VERSION

P = ParamSpec("P")
T = TypeVar("T")

WAIT_S: Final = 50.0  # hosts give up on a tool after a minute or so
# An agent is told that the farm is away while it still listens, and may call again: a restart of the farm is bridged.
ANSWER_S: Final = 10.0
RETRY_FOR_S: Final = 5.0
INSTRUCTIONS: Final = """\
Work that takes long runs as a job on a farm of machines. submit it (its kind says what sort of work it is), then wait
for it, again and again while it has not ended; status says how far it is, and cancel ends it."""
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=True)
_CHANGES: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)
_ENDS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=True)

JobId = Annotated[int, Field(ge=1, description="The id that submit answered with.")]
Seconds = Annotated[float, Field(gt=0, le=600, description="How long to wait at most.")]
Count = Annotated[int, Field(ge=1, le=200)]


def server(farm: AsyncClient) -> MCPServer[Any]:
    """The five tools, on the farm that this client speaks to."""
    made = MCPServer("jobfarm", instructions=INSTRUCTIONS, version=VERSION, log_level="WARNING")
    tools = Tools(farm)
    named: dict[str, tuple[Callable[..., Awaitable[dict[str, Any]]], ToolAnnotations]] = {
        "submit": (tools.submit, _CHANGES), "status": (tools.status, _READS), "wait": (tools.wait, _READS),
        "cancel": (tools.cancel, _ENDS), "list": (tools.list_jobs, _READS),
    }  # fmt: skip
    for name, (tool, hints) in named.items():
        made.add_tool(_refusing(tool), name=name, description=tool.__doc__, annotations=hints)
    return made


def main() -> int:
    """Serve until standard input ends; 2 with a sentence where the farm or the token is not named."""
    try:
        asyncio.run(_serve())
    except FarmError as error:
        print(f"jobfarm_client.mcp: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass
    return 0


async def _serve() -> None:
    async with AsyncClient(timeout_s=ANSWER_S, retry_for_s=RETRY_FOR_S) as farm:
        await server(farm).run_stdio_async()


def _refusing(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """The tool, whose refusals an agent reads as its result, by code and sentence."""

    @wraps(tool)
    async def refusing(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await tool(*args, **kwargs)
        except FarmError as error:
            raise ToolError(f"{error.code}: {error}") from error

    return refusing


class Tools:
    """What agents do with one farm; they read these docstrings."""

    def __init__(self, farm: AsyncClient) -> None:
        self._farm = farm

    async def submit(
        self,
        kind: Annotated[str, Field(description="What sort of work, as the farm's people named it, such as chat.")],
        payload: Annotated[Any, Field(description="What the work is about, any JSON, as this kind wants it.")] = None,
        unique_key: Annotated[
            str | None, Field(description="Refused while a job of yours of this kind and key has not ended.")
        ] = None,
        on_conflict: Annotated[
            OnConflict | None,
            Field(description="While that has not ended: replace it, if nobody has begun it, or run after it."),
        ] = None,
        requires: Annotated[
            dict[str, Condition] | None,
            Field(description='What the machine must have, by label, such as {"vram": ">=16", "region": "home"}.'),
        ] = None,
        prefers: Annotated[
            dict[str, Condition] | None,
            Field(description="As requires, for what is only better: such a machine gets it first."),
        ] = None,
        tags: Annotated[list[str] | None, Field(description="Up to 10 words by which list finds it again.")] = None,
    ) -> dict[str, Any]:
        """Submit a job to the farm. Answers at once with the job; its id is what the other tools take."""
        options: JobOptions = {
            "unique_key": unique_key, "on_conflict": on_conflict, "requires": requires, "prefers": prefers, "tags": tags
        }  # fmt: skip
        return _shown(await self._farm.submit(kind, payload, **options))

    async def status(self, job: JobId) -> dict[str, Any]:
        """How a job stands: its status, progress from 0 to 1, and once it has ended its result or error."""
        return _shown(await self._farm.job(job))

    async def wait(self, job: JobId, context: Context[Any, Any], timeout_s: Seconds = WAIT_S) -> dict[str, Any]:
        """Wait until a job has ended, and answer as status does. If it has not ended in time its status says so: it
        goes on, and you may wait again."""
        try:
            async for event in self._farm.events(job, timeout_s=timeout_s):
                progress = event.data.get("progress")
                if event.name == "job" and progress is not None:
                    await context.report_progress(progress, 1.0, event.data.get("detail"))
        except WaitTimeout:
            pass
        return _shown(await self._farm.job(job))

    async def cancel(self, job: JobId) -> dict[str, Any]:
        """Cancel a job. verdict says what that came to; too_late means that it had ended as status says."""
        return asdict(await self._farm.cancel(job))

    async def list_jobs(
        self, status: Status | None = None, kind: str | None = None, tag: str | None = None, count: Count = 20
    ) -> dict[str, Any]:
        """The newest jobs that you may see, of one status, kind or tag if you like."""
        jobs: list[dict[str, Any]] = []
        async for job in self._farm.jobs(status=status, kind=kind, tag=tag):
            jobs.append(_shown(job))
            if len(jobs) == count:
                break
        return {"jobs": jobs}


def _shown(job: Job) -> dict[str, Any]:
    """What an agent may want to know, without what is not set: its context is short."""
    known = {name: value for name, value in asdict(job).items() if value not in (None, (), "")}
    return {name: value for name, value in known.items() if name != "attempts"} | {"id": job.id, "status": job.status}


if __name__ == "__main__":
    sys.exit(main())
