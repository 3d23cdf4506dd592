"""Rankings as people read them: the best answers, and from which size on which is the best."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from synth.drawing import MARKS, Json, axes_told, level_names, levels, many, partial, table
from synth.units import duration, volume

_LEGEND = (
    "speed-up: over the one-step all-reduce on the same placement\n"
    "bound: share of the time that no schedule can avoid"
)


def top(body: Json) -> RenderableType:
    """The answers of one size, or of a range of sizes."""
    if "stretches" in body:
        return sweep(body)
    columns = ("#", "placement", "program", "time", "speed-up", "bound", "limited by", "proof")
    drawn = table(*columns, right="#,time,speed-up,bound", wraps="program")
    for answer in body["answers"]:
        drawn.add_row(
            str(answer["rank"]),
            str(answer["placement"]).replace("], ", "],\n "),
            _in_segments(answer["program"].replace("; ", ";\n"), answer["segments"]),
            duration(answer["seconds"]),
            f"{answer['speedup']:.2f}x",
            f"{_share_of_bound(answer):.0%}",
            answer["limited_by"] or "-",
            MARKS[answer["proof"]],
        )
    considered = body["considered"]
    names = list(body["answers"][0]["axes"]) if body["answers"] else []
    others = [name for name in names if name not in body["reduce"]]
    first = f"all-reduce of {volume(body['bytes'])} over {', '.join(body['reduce'])}"
    axes = axes_told(body["answers"][0]["axes"]) if body["answers"] else ""
    return Group(
        Text(f"{first}, {axes} on {body['system']['name']}, {levels(body['system'])}"),
        Text(f"placement: rows {', '.join(names)}; columns {level_names(body)}"),
        Text(""),
        drawn,
        *_reasons(body),
        Text(""),
        Text(
            f"{_of(considered)}, {many(considered['programs'], 'program')} ranked; "
            f"best one-step all-reduce: {duration(body['best_default_seconds'])}"
        ),
        Text(_LEGEND),
        *([Text(f"not priced: what the axis {' or '.join(others)} sends")] if others else []),
        *partial(body),
    )


def sweep(body: Json) -> RenderableType:
    """From which size on which answer is the best."""
    drawn = table(
        *("from", "to", "placement", "program", "time", "speed-up", "bound", "proof"),
        right="from,to,time,speed-up,bound",
        wraps="program",
    )
    for stretch in body["stretches"]:
        ends = (stretch["first"], stretch["last"])
        drawn.add_row(
            volume(stretch["from_bytes"]),
            volume(stretch["until_bytes"]),
            str(ends[0]["placement"]).replace("], ", "],\n "),
            _in_segments(
                ends[0]["program"].replace("; ", ";\n"), *(end["segments"] for end in ends)
            ),
            _both(*(duration(end["seconds"]) for end in ends)),
            _both(*(f"{end['speedup']:.2f}x" for end in ends)),
            _both(*(f"{_share_of_bound(end):.0%}" for end in ends)),
            MARKS[ends[0]["proof"]],
        )
    axes = body["stretches"][0]["first"]["axes"] if body["stretches"] else {}
    sizes = " to ".join(volume(size) for size in body["bytes"])
    first = f"all-reduce of {sizes} over {', '.join(body['reduce'])}"
    return Group(
        Text(f"{first}, {axes_told(axes)} on {body['system']['name']}, {levels(body['system'])}"),
        Text(f"placement: rows {', '.join(axes)}; columns {level_names(body)}"),
        Text(""),
        drawn,
        Text(f"\n{many(len(body['sizes']), 'size')} asked; changes are told to 1%"),
        Text(_LEGEND + "; first and last size"),
        *partial(body),
    )


def _both(first: str, last: str) -> str:
    return first if first == last else f"{first} to\n{last}"


def _share_of_bound(answer: Json) -> float:
    """The share of its time that no schedule can avoid."""
    return answer["bound_seconds"] / answer["seconds"] if answer["seconds"] else 1.0


def _reasons(body: Json) -> Iterator[RenderableType]:
    """Why the first answer is the first; of each answer, if that was asked."""
    for answer in body["answers"] if body["explain"] else body["answers"][:1]:
        yield Text(f"\n{answer['rank']}: " + ";\n   ".join(answer["why"]), overflow="fold")


def _in_segments(program: str, *segments: int) -> str:
    """A program, and into how many segments its payload is cut if they overlap."""
    told = program or "(nothing to do)"
    least, most = min(segments), max(segments)
    if most == 1:
        return told
    return f"{told}\nin {least if least == most else f'{least} to {most}'} segments"


def _of(considered: Json) -> str:
    done, there_are = considered["placements"], considered["of_placements"]
    return many(done, "placement") if done == there_are else f"{done} of {there_are} placements"
