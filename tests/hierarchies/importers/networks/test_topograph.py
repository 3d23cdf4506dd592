"""topograph's graphs and models: the same cluster either way, closest switches first."""

from __future__ import annotations

import re

import pytest

from hierarchies import InputError, load
from hierarchies.importers import Draft, import_texts, wrap_network
from network_texts import MODEL, OLD, counts, graph

_EIGHTEEN = 'nodes: ["mLEAF-[01-18]"]'


def of(text: str) -> Draft:
    return import_texts("topograph", {"cluster": text})


def test_a_model_and_its_host_names() -> None:
    draft = of(MODEL)
    assert counts(draft) == {"spine": 2, "leaf": 2, "node": 4}
    assert draft.counted == {
        "nodes": 16,
        "core switches": 1,
        "spine switches": 2,
        "leaf switches": 4,
    }
    assert any("4 of type H100" in note for note in draft.notes)


def test_a_graph_names_the_closest_switch_first() -> None:
    assert counts(of(graph())) == {"spine": 2, "leaf": 2, "node": 2}
    with pytest.raises(InputError, match="opposite order fits"):
        of(graph(reverse=True))


def test_accelerator_domains_are_the_innermost_units() -> None:
    domains = MODEL
    for leaf in ("l11", "l12", "l21", "l22"):
        domains = domains.replace(
            f"switch: {leaf},", f"switch: {leaf}, annotations: {{a.b/domain: nvl-{leaf}}},"
        )
    draft = of(domains)
    assert counts(draft) == {"spine": 2, "domain": 2}
    assert draft.counted["nodes"] == 16
    with pytest.raises(InputError, match=r"16 .4 machines of 4. by topograph, but 72"):
        wrap_network(draft, load("gb200-nvl72"))
    racks = re.sub(r'nodes: \[".*"\]|nodes: \[.*?n0108\]', _EIGHTEEN, domains)
    racks = "\n".join(line.replace("LEAF", str(n)) for n, line in enumerate(racks.splitlines()))
    with pytest.raises(InputError, match="GPU model: H100 by topograph, but Blackwell B200"):
        wrap_network(of(racks), load("gb200-nvl72"))
    inside = wrap_network(of(racks.replace("H100", "NVIDIA-GB200")), load("gb200-nvl72"))
    assert counts(inside) == {"spine": 2, "domain": 2, "gpu": 72}
    assert inside.levels[1].entries()["ports"].value == 72  # type: ignore[union-attr]
    assert not inside.lacks


def test_domains_inside_domains_and_across_switches() -> None:
    two = MODEL.replace("{switch: l1", "{annotations: {a/domain: d1}, switch: l1").replace(
        "{switch: l2", "{annotations: {a/domain: d2}, switch: l2"
    )
    draft = of(two)
    assert counts(draft) == {"spine": 2, "leaf": 2, "node": 4}
    assert any("domain: each is one spine" in note for note in draft.notes)
    assert counts(of(OLD)) == {"domain": 2}
    assert any(
        "domain" in note for note in of(graph(**{"accelerator.topograph.run/domain": "one"})).notes
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{}", "neither a graph nor a model"),
        ("a: b", "neither a graph nor a model"),
        ("{", "not JSON"),
        ('{"instances": 1}', "not a list"),
        ('{"instances": []}', "no instances"),
        ('{"instances": [{"id": 1}]}', "entry 1, id is not a name"),
        ('{"instances": [{"id": "a", "network_layers": [null]}]}', "is not a name"),
        (
            (
                '{"instances": [{"id": "a", "network_layers": ["x"]}, '
                '{"id": "b", "network_layers": []}]}'
            ),
            "same depth",
        ),
        (
            (
                '{"instances": [{"id": "a", "network_layers": ["x"]}, '
                '{"id": "a", "network_layers": ["x"]}]}'
            ),
            "more than once",
        ),
        ("blocks: [{nodes: [a]}]", "switch is not a name"),
        ("blocks: [{switch: s, nodes: a}]", "not a list"),
        ("blocks: [{switch: s, nodes: ['a[1-99999999]']}]", "too many"),
        ("switches: {a: {switches: [b]}}\nblocks: [{switch: c, nodes: [n]}]", "no switch 'b'"),
        ("switches: [a]\nblocks: []", "not a mapping"),
        ("blocks: &b [{switch: s, nodes: [n]}]\nother: *b", "alias"),
        ('{"instances": ' + "[" * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        of(text)


@pytest.mark.parametrize("ghost", ["{switch: l23}", "{name: b9, nodes: []}", "{nodes: }"])
def test_a_block_without_nodes_is_left_out_and_named(ghost: str) -> None:
    draft = of(f"{MODEL}- {ghost}\n")
    assert counts(draft) == counts(of(MODEL))
    name = next((n for n in ("l23", "b9") if n in ghost), "blocks, entry 5")
    assert f"blocks left out, as they have no nodes: {name}" in draft.notes
