"""Routes of what a team keeps: descriptions of machines, and baselines, which are earlier logs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from synth.service.http.authentication import AskOrKeepCaller, KeepCaller
from synth.service.http.documents import problems
from synth.service.http.reading import PLAIN, read_text, text_body
from synth.service.http.state import state_of
from synth.service.jobs.bodies import BaselineBody, BaselineList, SystemBody, SystemList

router = APIRouter(tags=["systems"])
baselines = APIRouter(tags=["baselines"])
_TOML = "application/toml"
Name = Annotated[str, Path(max_length=64, description="The name of a system.")]
Machine = Annotated[str, Path(max_length=64, description="The machine, as questions name it.")]
Test = Annotated[str, Path(max_length=64, description="A name for the test.")]
_ONE = "/v1/baselines/{machine}/{test}"


@router.get(
    "/v1/systems",
    operation_id="list-systems",
    responses=problems(),
)
async def list_systems(request: Request, caller: AskOrKeepCaller) -> SystemList:
    """The systems your team keeps here. Questions refer to them by name, as to the catalogue's."""
    systems = await state_of(request).broker.systems.all(caller)
    return SystemList(systems=[SystemBody.of(system) for system in systems])


@router.get(
    "/v1/systems/{name}",
    operation_id="look-at-system",
    responses=problems(404),
)
async def get_system(request: Request, caller: AskOrKeepCaller, name: Name) -> SystemBody:
    """A system that your team keeps here."""
    return SystemBody.of(await state_of(request).broker.systems.one(caller, name))


@router.put(
    "/v1/systems/{name}",
    operation_id="keep-system",
    responses=problems(400, 408, 409, 413, 415),
    openapi_extra=text_body(PLAIN, _TOML),
)
async def put_system(request: Request, caller: KeepCaller, name: Name) -> SystemBody:
    """Keep a description (TOML, as text or in JSON), replacing an earlier one of that name."""
    state = state_of(request)
    limits = state.settings.limits
    text = await read_text(request, "system", 2 * limits.description_bytes, limits, PLAIN, _TOML)
    return SystemBody.of(await state.broker.systems.put(caller, name, text))


@router.delete(
    "/v1/systems/{name}",
    operation_id="forget-system",
    status_code=204,
    responses=problems(404),
)
async def delete_system(request: Request, caller: KeepCaller, name: Name) -> Response:
    """Delete a system. Answers and jobs of questions that used it keep its text."""
    await state_of(request).broker.systems.delete(caller, name)
    return Response(status_code=204)


@baselines.get("/v1/baselines", operation_id="list-baselines", responses=problems())
async def list_baselines(request: Request, caller: AskOrKeepCaller) -> BaselineList:
    """The baselines your team keeps here, without texts. Questions to doctor name their tests."""
    return BaselineList.of(await state_of(request).broker.baselines.all(caller))


@baselines.get(_ONE, operation_id="look-at-baseline", responses=problems(404))
async def get_baseline(
    request: Request, caller: AskOrKeepCaller, machine: Machine, test: Test
) -> BaselineBody:
    """A baseline that your team keeps here."""
    return BaselineBody.of(await state_of(request).broker.baselines.one(caller, machine, test))


@baselines.put(
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


@baselines.delete(_ONE, operation_id="forget-baseline", status_code=204, responses=problems(404))
async def delete_baseline(
    request: Request, caller: KeepCaller, machine: Machine, test: Test
) -> Response:
    """Delete a baseline. Answers and jobs of questions that used it keep its text."""
    await state_of(request).broker.baselines.delete(caller, machine, test)
    return Response(status_code=204)
