"""What every rank of a job gives and must get, by plain arithmetic, for every request."""

import numpy as np

MODULUS = 1009
TOGETHER = {"sum": np.sum, "max": np.max, "min": np.min}


def turned(number: int, sizes: list, kinds: tuple) -> list[tuple]:
    """What a file is called with: every size and every kind, all pairs of them in a few files.

    Files of one kind of program differ in their groups, and not in what they do with a size or a
    kind of number: of 4 sizes and 4 kinds each file has 4 pairs, and 4 files have all 16.
    """
    most = max(len(sizes), len(kinds))
    return [(sizes[i % len(sizes)], kinds[(i + number) % len(kinds)]) for i in range(most)]


def length(job: dict, elements: int) -> int:
    """The elements of one of the pieces that a payload has, a piece for each rank of a group."""
    return -(-elements // len(job["groups"][0]))


def given(job: dict, rank: int, elements: int, most: int = MODULUS) -> np.ndarray:
    """What a rank begins with: no two ranks, and no two places, have the same pattern.

    Where the operation is no sum half of it is below zero: nothing may be mixed with zeros.
    """
    if job["request"] == "all-gather":
        elements = length(job, elements)
    place = np.arange(elements, dtype=np.int64)
    found = (place * 7919 + rank * 104729) % most
    return found if job.get("op", "sum") == "sum" else found - most // 2


def wanted(job: dict, rank: int, elements: int, most: int = MODULUS) -> np.ndarray | None:
    """What it must end with; None if that does not matter."""
    group = next(group for group in job["groups"] if rank in group)
    place, piece = group.index(rank), length(job, elements)
    all_given = np.stack([given(job, other, elements, most) for other in group])
    whole = np.zeros((len(group), piece * len(group)), dtype=np.int64)
    whole[:, : all_given.shape[1]] = all_given
    mine = slice(place * piece, (place + 1) * piece)
    together = TOGETHER[job.get("op", "sum")]
    match job["request"]:
        case "all-reduce":
            return together(all_given, axis=0)
        case "reduce":
            return together(all_given, axis=0) if place == 0 else None
        case "broadcast":
            return all_given[0]
        case "all-gather":
            return all_given.reshape(-1)[:elements]
        case "reduce-scatter":
            return together(whole[:, mine], axis=0)
        case "all-to-all":
            return whole[:, mine].reshape(-1)
    raise AssertionError(job["request"])
