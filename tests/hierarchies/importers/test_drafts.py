"""Drafts: what is known becomes a system, what is blank is refused in one error, nothing leaks."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each import each
from exhaustive import examples
from hierarchies import InputError, load, read
from hierarchies.importers import (
    KINDS,
    Blank,
    Draft,
    DraftLevel,
    ImportOptions,
    StatedValue,
    draft_to_toml,
    import_texts,
    read_texts,
    wrap_network,
)
from hierarchies.importers.structured import LARGEST_BYTES
from places import TESTS

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(
    lambda text: text.strip() not in ("", "?")
)
RATES = st.floats(1e6, 1e13)
SECONDS = st.floats(0, 1e-2)


def entries(values: st.SearchStrategy[float] | st.SearchStrategy[int]) -> st.SearchStrategy[object]:
    known = st.builds(StatedValue, values, TEXTS, st.booleans())
    return known | st.builds(Blank, st.none() | values, TEXTS, st.just(True))


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    names = draw(st.lists(st.sampled_from("abcefg"), min_size=1, max_size=3, unique=True))
    levels = [
        DraftLevel(
            name,
            draw(
                st.builds(StatedValue, st.just("switch"), TEXTS)
                | st.builds(Blank, st.none(), TEXTS)
            ),
            draw(entries(RATES)),
            draw(entries(SECONDS)),
            draw(entries(st.integers(1, 64))),
            ll_latency_seconds=draw(st.none() | st.builds(Blank, SECONDS, TEXTS, st.just(False))),
            through=tuple(names[position + 1 :]),
            about=draw(TEXTS),
        )
        for position, name in enumerate(names)
    ]
    memory, notes = draw(entries(RATES)), draw(st.lists(TEXTS, max_size=2))
    return Draft("it", "a title", tuple(levels), draw(TEXTS), memory, tuple(notes))


def filled(draft: Draft) -> Draft:
    """With a value, of the user's own, wherever one is needed."""

    def known(entry: object, value: float | int | str) -> object:
        needed = isinstance(entry, Blank) and entry.needed
        return StatedValue(value, "measured") if needed else entry

    levels = tuple(
        replace(
            level,
            count=known(level.count, 3),
            domain=known(level.domain, "switch"),
            bandwidth_bytes_per_second=known(level.bandwidth_bytes_per_second, 7e9),
            latency_seconds=known(level.latency_seconds, 5e-6),
        )
        for level in draft.levels
    )
    memory = known(draft.memory_bytes_per_second, 2e12)
    return replace(draft, levels=levels, memory_bytes_per_second=memory)


@given(drafts())
@examples(15, 100)
def test_a_draft_is_toml_that_is_read_as_soon_as_nothing_is_blank(draft: Draft) -> None:
    tomllib.loads(draft_to_toml(draft))
    needed = [(place, key) for place, key, blank in draft.blanks() if blank.needed]
    if needed:
        with pytest.raises(InputError) as caught:
            read(draft_to_toml(draft), where="it.toml")
        for place, key in needed:
            assert key in str(caught.value)
            assert place in str(caught.value)
        assert "\n" not in str(caught.value)
    complete = filled(draft)
    system = read(draft_to_toml(complete))
    for level, link, known in zip(
        complete.levels, system.links, system.hierarchy.levels, strict=True
    ):
        assert isinstance(level.bandwidth_bytes_per_second, StatedValue)
        assert isinstance(level.count, StatedValue)
        bandwidth = level.bandwidth_bytes_per_second
        assert link.bandwidth_bytes_per_second == pytest.approx(bandwidth.value, rel=1e-9)
        assert link.sources is not None
        assert link.sources["bandwidth_GB_per_s"] == bandwidth.source.strip()
        assert ("bandwidth_GB_per_s" in link.unconfirmed) == bandwidth.unconfirmed
        assert known.cardinality == level.count.value
        assert link.ll_latency_seconds is None


@given(drafts())
@examples(15, 100)
def test_a_suggestion_that_is_taken_is_marked(draft: Draft) -> None:
    taken = draft.suggested()
    left = {(place, key) for place, key, _ in taken.blanks()}
    for place, key, blank in draft.blanks():
        assert ((place, key) in left) == (blank.suggestion is None)
    for before, after in zip(draft.levels, taken.levels, strict=True):
        was, entry = before.bandwidth_bytes_per_second, after.bandwidth_bytes_per_second
        if isinstance(was, Blank) and isinstance(entry, StatedValue):
            assert entry.unconfirmed
            assert was.source in entry.source


def test_a_source_that_was_not_written_is_asked_for() -> None:
    text = draft_to_toml(import_texts("nccl-xml", read_texts([str(TESTS / "imports/rings.xml")])))
    values = text.replace('domain = "?"', 'domain = "switch"').replace('= "?"  #', "= 5  #")
    with pytest.raises(InputError, match=r"without a source yet: device: all; level 'island'"):
        read(values)
    assert read(values.replace('"?"', '"measured"')).devices == 8


def test_a_network_goes_around_the_nodes_of_a_system() -> None:
    inner = load("dgx-h100")
    said = StatedValue("switch", "a file")
    blank = Blank(None, "not there")
    network = Draft(
        "ours",
        "Two leaves",
        (
            DraftLevel("leaf", said, StatedValue(1e11, "f"), StatedValue(2e-5, "f"),
                       StatedValue(2, "f"), StatedValue(6, "f"), ("node",)),
            DraftLevel("node", said, blank, blank, StatedValue(6, "f")),
        ),
    )  # fmt: skip
    system = read(draft_to_toml(wrap_network(network, inner)))
    assert str(system.hierarchy) == "2 leaf x 6 node x 8 gpu"
    assert system.links[1:] == tuple(
        replace(link, sources=found.sources)
        for link, found in zip(inner.links, system.links[1:], strict=True)
    )
    assert system.memory_bytes_per_second == inner.memory_bytes_per_second
    clash = replace(network, levels=(replace(network.levels[0], name="gpu"), network.levels[1]))
    with pytest.raises(InputError, match="level 'gpu' is in the network and inside the node"):
        wrap_network(clash, inner)


def test_what_crosses_the_nodes_ports_crosses_what_these_cross() -> None:
    inner = load("l40s-pcie")
    said = StatedValue("switch", "a file")
    leaf = DraftLevel("leaf", said, StatedValue(1e11, "f"), StatedValue(2e-5, "f"),
                      StatedValue(2, "f"), StatedValue(1, "f"), ("node",))  # fmt: skip
    node = DraftLevel("node", said, Blank(), Blank(), StatedValue(6, "f"))
    system = read(draft_to_toml(wrap_network(Draft("ours", "", (leaf, node)), inner)))
    assert system.links[0].through == ("node", "gpu")


WRONG = {
    "no kind": ("nvidia", "x", "did you mean nvidia-smi?"),
    "nothing": ("nvidia-smi", " \n", "no matrix"),
}


@pytest.mark.parametrize(("kind", "text", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_imported_is_refused(kind: str, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        import_texts(kind, {"f": text})
    assert said in str(caught.value)


FILES = {
    "NUL": (b"GPU0\0", "NUL bytes"),
    "bad UTF-8": (b"GPU0 \xff\xfe", "not text in UTF-8 (byte 5)"),
    "UTF-16": ("GPU0".encode("utf-16"), "UTF-16"),
    "empty": (b"", "empty"),
    "huge": (b" " * (LARGEST_BYTES + 1), "more than 16 MiB"),
}


@pytest.mark.parametrize(("content", "said"), FILES.values(), ids=FILES)
@each("kind", KINDS)
def test_a_file_that_is_no_text_is_named(
    kind: str, content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        import_texts(kind, read_texts([str(path)]))
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (str(tmp_path / "none"), str(tmp_path), "\0"):
        with pytest.raises(InputError, match="cannot read the file"):
            import_texts("hwloc", read_texts([path]))


@pytest.mark.parametrize("nodes", [0, -1, 10**9])
def test_so_many_nodes_are_refused(nodes: int) -> None:
    with pytest.raises(InputError, match="nodes"):
        ImportOptions(nodes)
