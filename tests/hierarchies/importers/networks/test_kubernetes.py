"""Labels of Kubernetes nodes: whose numbers run which way, and what is no level."""

from __future__ import annotations

import pytest

from hierarchies import InputError
from hierarchies.importers import Draft, ImportOptions, import_texts
from network_texts import AWS, TIER, Labels, counts, nodes

OLDER, GKE = "network.topology.nvidia.com/", "cloud.google.com/gce-topology-"


def of(text: str, *keys: str) -> Draft:
    return import_texts("kubernetes", {"nodes.json": text}, ImportOptions(keys=keys))


@pytest.mark.parametrize(
    "labels",
    [
        lambda i: {f"{TIER}0": f"leaf{i // 2}", f"{TIER}1": f"spine{i // 6}", f"{TIER}2": "core"},
        lambda i: {f"{AWS}1": "top", f"{AWS}2": f"mid{i // 6}", f"{AWS}3": f"near{i // 2}"},
        lambda i: {
            f"{OLDER}leaf": f"l{i // 2}",
            f"{OLDER}spine": f"s{i // 6}",
            f"{OLDER}core": "c",
        },
        lambda i: {
            f"{OLDER}block": f"b{i // 2}",
            f"{OLDER}spine": f"s{i // 6}",
            f"{OLDER}datacenter": "c",
        },
        lambda i: {
            f"{GKE}block": f"b{i // 6}",
            f"{GKE}subblock": f"s{i // 2}",
            f"{GKE}host": f"h{i}",
        },
    ],
    ids=["topograph counts up", "AWS counts down", "topograph 0.5", "topograph 0.1", "GKE"],
)
def test_every_writer_gives_the_same_tree(labels: Labels) -> None:
    draft = of(nodes(labels))
    assert list(counts(draft).values()) == [2, 3, 2]
    assert (draft.counted["nodes"], draft.counted["gpus"]) == (12, 96)
    assert any("left out: control" in note for note in draft.notes)
    assert any("12 nodes with 8 devices" in note for note in draft.notes)


def test_numbers_read_the_wrong_way_are_seen() -> None:
    """The classic mistake: AWS's layer 1 is the top, topograph's tier 0 the nearest."""
    aws = nodes(lambda i: {f"{AWS}1": f"top{i // 6}", f"{AWS}2": f"near{i // 2}"})
    assert list(counts(of(aws, f"{AWS}1", f"{AWS}2")).values()) == [2, 3, 2]
    with pytest.raises(InputError, match="opposite order fits"):
        of(aws, f"{AWS}2", f"{AWS}1")
    topograph = nodes(lambda i: {f"{TIER}0": f"leaf{i // 2}", f"{TIER}1": f"spine{i // 6}"})
    with pytest.raises(InputError, match=r"outermost first.*opposite order fits"):
        of(topograph, f"{TIER}0", f"{TIER}1")


def test_any_labels_by_their_keys() -> None:
    draft = of(nodes(lambda i: {"room": f"r{i // 6}", "rack": f"k{i // 2}"}), "room", "rack")
    assert list(counts(draft).values()) == [2, 3, 2]
    with pytest.raises(InputError, match=r"--keys: no label 'row' on n0"):
        of(nodes(lambda i: {"room": "r"}), "room", "row")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("accelerator.topograph.run/domain", "domain"),
        ("nvidia.com/gpu.clique", "clique"),
        ("topology.k8s.aws/ultraserver-id", "ultraserver"),
    ],
)
def test_accelerator_domains(key: str, name: str) -> None:
    draft = of(nodes(lambda i: {f"{AWS}1": f"t{i // 6}", key: f"d{i // 3}"}))
    assert list(counts(draft)) == ["leaf", name]
    assert list(counts(draft).values()) == [2, 2]
    assert any("(3) also have other links" in note for note in draft.notes)


def test_subdomains_need_their_domains_names() -> None:
    prefix = "accelerator.topograph.run/"
    draft = of(
        nodes(
            lambda i: {
                f"{TIER}0": "leaf",
                f"{prefix}domain": f"d{i // 6}",
                f"{prefix}sub-domain": f"rack{i // 2 % 3}",
            }
        )
    )
    assert counts(draft) == {"domain": 2, "subdomain": 3}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "not a list of nodes"),
        ('{"items": [1]}', "not a mapping"),
        ('{"items": [{"metadata": {}}]}', "without a name"),
        ('{"items": [{"metadata": {"name": "a", "labels": [1]}}]}', "not a mapping"),
        ('{"items": []}', "no nodes"),
        ('{"items": [{"metadata": {"name": "a"}}]}', "no labels that locate"),
        ('{"items": [{"metadata": {"name": "a"}}', "cut off"),
        (nodes(lambda i: {f"{TIER}0": "x"} if i else {}), "topograph are missing on n0"),
    ],
)
def test_invalid_input_is_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        of(text)
