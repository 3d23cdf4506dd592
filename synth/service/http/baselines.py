"""Routes of a team's baselines: list, read, keep and delete earlier logs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from synth.service.http.authentication import AskOrKeepCaller, KeepCaller
from synth.service.http.documents import problems
from synth.service.http.reading import PLAIN, read_text, text_body
from synth.service.http.state import state_of
from synth.service.jobs.bodies import BaselineBody, BaselineList

router = APIRouter(tags=["baselines"])
Machine = Annotated[str, Path(max_length=64, description="The machine, as questions name it.")]
Test = Annotated[str, Path(max_length=64, description="A name for the test.")]
_ONE = "/v1/baselines/{machine}/{test}"


@router.get("/v1/baselines", operation_id="list-baselines", responses=problems())
async def list_baselines(request: Request, caller: AskOrKeepCaller) -> BaselineList:
    """The baselines your team keeps here. Questions to doctor name them by their tests."""
    baselines = await state_of(request).broker.baselines.all(caller)
    return BaselineList(baselines=[BaselineBody.of(baseline) for baseline in baselines])


@router.get(_ONE, operation_id="look-at-baseline", responses=problems(404))
async def get_baseline(
    request: Request, caller: AskOrKeepCaller, machine: Machine, test: Test
) -> BaselineBody:
    """A baseline that your team keeps here."""
    return BaselineBody.of(await state_of(request).broker.baselines.one(caller, machine, test))


@router.put(
    _ONE,
    operation_id="keep-baseline",
    responses=problems(400, 408, 409, 413, 415),
    openapi_extra=text_body(PLAIN),
)
async def put_baseline(
    request: Request, caller: KeepCaller, machine: Machine, test: Test
) -> BaselineBody:
    """Keep a log (as text or in JSON), replacing an earlier one of that machine and test."""
    state = state_of(request)
    limits = state.settings.limits
    text = await read_text(request, "log", limits.body_bytes, limits, PLAIN)
    return BaselineBody.of(await state.broker.baselines.put(caller, machine, test, text))


@router.delete(_ONE, operation_id="forget-baseline", status_code=204, responses=problems(404))
async def delete_baseline(
    request: Request, caller: KeepCaller, machine: Machine, test: Test
) -> Response:
    """Delete a baseline. Answers and jobs of questions that used it keep its text."""
    await state_of(request).broker.baselines.delete(caller, machine, test)
    return Response(status_code=204)
