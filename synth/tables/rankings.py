"""Rankings as people read them: the best answers, and from which size on which is the best."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from hierarchies.units import duration, volume
from synth.tables.degraded import uneven
from synth.tables.style import (
    MARKS,
    Json,
    axes_told,
    between,
    exceptions,
    level_names,
    levels,
    many,
    partial,
    table,
)

_LEGEND = (
    "speed-up: over the default, what the runtime would choose on the same placement\n"
    "bound: share of the time that no schedule can avoid"
)


_TOLD = 1.005
"""Below this ratio times are told as the same, which they would look like."""


def top(body: Json) -> RenderableType:
    """The answers of one size, or of a range of sizes."""
    if "stretches" in body:
        return sweep(body)
    if "uneven" in body:
        return uneven(body)
    columns = ("#", "placement", "program", "time", "speed-up", "bound", "limited by", "proof")
    drawn = table(*columns, right="#,time,speed-up,bound", wraps="program")
    for answer in body["answers"]:
        drawn.add_row(
            str(answer["rank"]),
            str(answer["placement"]).replace("], ", "],\n "),
            _in_stripes(answer),
            duration(answer["seconds"]) + _measured(answer["interval_seconds"]),
            f"{answer['speedup']:.2f}x",
            f"{_share_of_bound(answer):.0%}",
            answer["limited_by"] or "-",
            MARKS[answer["proof"]],
        )
    considered = body["considered"]
    names = list(body["answers"][0]["axes"]) if body["answers"] else []
    others = [name for name in names if name not in body["reduce"]]
    first = f"{body['request']} of {volume(body['bytes'])} over {', '.join(body['reduce'])}"
    axes = axes_told(body["answers"][0]["axes"]) if body["answers"] else ""
    return Group(
        Text(f"{first}, {axes} on {body['system']['name']}, {levels(body['system'])}"),
        *_excepted(body),
        Text(f"placement: rows {', '.join(names)}; columns {level_names(body)}"),
        Text(""),
        drawn,
        *_reasons(body),
        Text(""),
        Text(
            f"{_of(considered)}, {many(considered['programs'], 'program')} ranked; "
            f"best default: {duration(body['best_default_seconds'])}"
        ),
        Text(_LEGEND),
        *_ties(body["answers"], "answer"),
        *([Text(f"not priced: what the axis {' or '.join(others)} sends")] if others else []),
        *partial(body),
    )


def _excepted(body: Json) -> Iterator[RenderableType]:
    """A line that says what is missing or slower."""
    if told := exceptions(body["system"]):
        yield Text(told, overflow="fold")


def sweep(body: Json) -> RenderableType:
    """From which size on which answer is the best."""
    drawn = table(
        *("sizes", "placement", "program", "time", "speed-up", "bound", "proof"),
        right="sizes,time,speed-up,bound",
        wraps="program",
    )
    for stretch in body["stretches"]:
        ends = (stretch["first"], stretch["last"])
        drawn.add_row(
            _both(volume(stretch["from_bytes"]), volume(stretch["until_bytes"])),
            str(ends[0]["placement"]).replace("], ", "],\n "),
            _in_stripes(*ends),
            _both(*(duration(end["seconds"]) for end in ends)),
            _both(*(f"{end['speedup']:.2f}x" for end in ends)),
            _both(*(f"{_share_of_bound(end):.0%}" for end in ends)),
            MARKS[ends[0]["proof"]],
        )
    axes = body["stretches"][0]["first"]["axes"] if body["stretches"] else {}
    sizes = " to ".join(volume(size) for size in body["bytes"])
    first = f"{body['request']} of {sizes} over {', '.join(body['reduce'])}"
    return Group(
        Text(f"{first}, {axes_told(axes)} on {body['system']['name']}, {levels(body['system'])}"),
        *_excepted(body),
        Text(f"placement: rows {', '.join(axes)}; columns {level_names(body)}"),
        Text(""),
        drawn,
        Text(f"\n{many(len(body['sizes']), 'size')} asked; changes are told to 1%"),
        Text(_LEGEND + "; first and last size"),
        *partial(body),
    )


def several(body: Json) -> RenderableType:
    """The best answer of each system in one table; of a range of sizes, one table each."""
    if "stretches" in body["systems"][0]:
        each = [(sweep(one), Text("")) for one in body["systems"]]
        return Group(*(part for pair in each for part in pair), *partial(body))
    drawn = table(
        *("system", "placement", "program", "time", "speed-up", "limited by", "proof"),
        right="time,speed-up",
        wraps="program",
    )
    for one in body["systems"]:
        for best in one["answers"][:1]:
            drawn.add_row(
                one["system"]["name"],
                str(best.get("placement", "uneven")).replace("], ", "],\n "),
                _in_stripes(best) if "stripes" in best else best["program"],
                duration(best["seconds"]),
                f"{best['speedup']:.2f}x",
                best["limited_by"] or "-",
                MARKS[best["proof"]],
            )
    first = body["systems"][0]
    asked = f"{first['request']} of {volume(first['bytes'])} over {', '.join(first['reduce'])}"
    return Group(
        Text(f"{asked}: the best on each of {many(len(body['systems']), 'system')}"),
        Text(""),
        drawn,
        Text(_LEGEND.splitlines()[0]),
        *partial(body),
    )


def plan(body: Json) -> RenderableType:
    """The placement of a job, what each entry does on it, and the next best placements."""
    best, *others = body["ranking"]
    names = list(best["axes"])
    exposed, default = best["exposed_seconds"], body["default_exposed_seconds"]
    longer = default / exposed if exposed else 1.0
    gain = f", {longer:.2f} times as long" if longer >= _TOLD else ", as long"
    return Group(
        Text(": ".join(filter(None, (body["job"], body["title"]))), overflow="fold"),
        Text(f"on {body['system']['name']}, {levels(body['system'])}: {axes_told(best['axes'])}"),
        *_excepted(body),
        Text(
            f"placement {best['placement']}: rows {', '.join(names)}; columns {level_names(body)}"
        ),
        Text(
            f"a step waits {duration(exposed)} for communication that compute does not hide\n"
            f"(with the runtime's own choice on the same placement {duration(default)}{gain})\n"
        ),
        *_entries(body),
        Text(""),
        *_others(others),
        *_ties(body["ranking"], "placement"),
        *_unpriced(body),
        Text(f"{_of(body['considered'])}; what computing costs is not weighed"),
        Text("loss: one call against the placement that the entry would have wanted for itself"),
        *partial(body),
    )


def _entries(body: Json) -> Iterator[RenderableType]:
    """What each entry costs; and below, so that both fit a terminal, by which program."""
    if not body["entries"]:
        yield Text("no collective is left: the axes that they are over have size 1")
        return
    costs = table(
        *("#", "entry", "over", "bytes", "times", "hidden", "one call", "exposed", "loss"),
        right="#,bytes,times,hidden,one call,exposed,loss",
        wraps="entry",
    )
    programs = table(
        *("#", "request", "program", "bound", "limited by", "proof"),
        right="#,bound",
        wraps="program",
    )
    for entry in body["entries"]:
        answer = entry["answer"]
        costs.add_row(
            str(answer["rank"]),
            entry["name"],
            ",\n".join(entry["over"]),
            volume(entry["bytes"]),
            f"{entry['times']:g}",
            f"{entry['hidden']:.0%}",
            duration(answer["seconds"]),
            duration(entry["exposed_seconds"]),
            f"{entry['loss']:.2f}x",
        )
        programs.add_row(
            str(answer["rank"]),
            entry["request"],
            _in_stripes(answer),
            f"{_share_of_bound(answer):.0%}",
            answer["limited_by"] or "-",
            MARKS[answer["proof"]],
        )
    yield from (costs, Text(""), programs)


def _others(ranking: list[Json]) -> Iterator[RenderableType]:
    if ranking:
        drawn = table("next best", "placement", "exposed", right="exposed")
        for option in ranking:
            drawn.add_row(
                axes_told(option["axes"]),
                str(option["placement"]),
                duration(option["exposed_seconds"]) + _measured(option["interval_seconds"]),
            )
        yield drawn
        yield Text("")


def _measured(interval: list[float] | None) -> str:
    """Where measurements take a price to lie, below it; nothing where none were taken."""
    return f"\n{between(interval)}" if interval else ""


def _ties(ranked: list[Json], what: str) -> Iterator[RenderableType]:
    """Which of the ranked ones, or the default, measurements cannot tell from the first."""
    if not ranked or not ranked[0]["interval_seconds"]:
        return
    said = "below each time: where 9 of 10 measurements lay about such prices"
    many_tied = sum(one["tied"] for one in ranked)
    if many_tied > 1:
        said += f"\n{many(many_tied, what)} tie with the first: their intervals overlap"
    baseline = ranked[0].get("baseline_interval_seconds")
    if baseline and baseline[0] <= ranked[0]["interval_seconds"][1]:
        said += f"\nthe default ({between(baseline)}) ties with the first, too"
    yield Text(said)


def _unpriced(body: Json) -> Iterator[RenderableType]:
    for one in body["unpriced"]:
        size = f"{volume(one['bytes'])} over {', '.join(one['over'])}, {one['times']:g} times"
        yield Text(f"not priced: {one['name']} ({size}): {one['why']}", overflow="fold")


def _both(first: str, last: str) -> str:
    return first if first == last else f"{first} to\n{last}"


def _share_of_bound(answer: Json) -> float:
    """The share of its time that no schedule can avoid."""
    return answer["bound_seconds"] / answer["seconds"] if answer["seconds"] else 1.0


def _reasons(body: Json) -> Iterator[RenderableType]:
    """Why the first answer is the first; of each answer, if that was asked."""
    for answer in body["answers"] if body["explain"] else body["answers"][:1]:
        yield Text(f"\n{answer['rank']}: " + ";\n   ".join(answer["why"]), overflow="fold")


def _in_stripes(*answers: Json) -> str:
    """The programs of answers that differ in sizes only; several each with its share."""
    told = [
        _in_segments(
            stripes[0]["program"].replace("; ", ";\n"), *(stripe["segments"] for stripe in stripes)
        )
        for stripes in zip(*(answer["stripes"] for answer in answers), strict=True)
    ]
    if len(told) == 1:
        return told[0]
    shares = [f"{stripe['share']:.0%} by" for stripe in answers[0]["stripes"]]
    return "\n".join(f"{share}\n{one}" for share, one in zip(shares, told, strict=True))


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
