"""The route of answers, under their permalinks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from synth.service.http.authentication import AskCaller
from synth.service.http.documents import problems
from synth.service.http.reading import JSON
from synth.service.http.state import state_of
from synth.service.jobs.bodies import AnswerBody, answer_json

router = APIRouter(tags=["answers"])


@router.get(
    "/v1/answers/{key}",
    operation_id="look-at-answer",
    response_class=Response,
    responses={200: {"model": AnswerBody}, **problems(404)},
)
async def get_answer(
    request: Request,
    caller: AskCaller,
    key: Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The key of an answer.")],
) -> Response:
    """A complete answer with its question, for as long as it is kept."""
    broker = state_of(request).broker
    answer = await broker.answer(caller, key)
    return Response(await broker.run_in_turn(caller.team, answer_json, answer), media_type=JSON)
