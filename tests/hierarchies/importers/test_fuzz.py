"""Whatever a file holds, an importer says a draft or an error, and says it soon."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchies import InputError, System, read
from hierarchies.importers import KINDS, draft_to_toml, import_texts
from hierarchies.importers.structured import decode_text
from places import TESTS
from shared import shared

HERE = TESTS / "imports"
FIXTURES = [
    ("nvidia-smi", "switched.txt"),
    ("nccl-xml", "switched.xml"),
    ("nccl-xml", "rings.xml"),
    ("rocm-smi", "pairs.txt"),
    ("rocm-smi", "mesh.json"),
    ("hwloc", "ring.xml"),
]
FOLDERS = {
    "nvidia-smi": "nvidia-smi",
    "nvidia-smi-truncated": "nvidia-smi",
    "nccl-xml": "nccl-xml",
    "rocm-smi": "rocm-smi",
    "hwloc-xml": "hwloc",
}
Change = Callable[[bytes, int, int], bytes]


def survives(kind: str, content: bytes) -> None:
    """A draft (and then a system or an error that it is not complete), or an error."""
    with suppress(InputError):
        draft = import_texts(kind, {"given": decode_text(content, "given")})
        tomllib.loads(draft_to_toml(draft))
        assert isinstance(read(draft_to_toml(draft.suggested())), System)


def cut(content: bytes, one: int, other: int) -> bytes:
    return content[:one]


def dropped(content: bytes, one: int, other: int) -> bytes:
    return content[: min(one, other)] + content[max(one, other) :]


def doubled(content: bytes, one: int, other: int) -> bytes:
    return content[: max(one, other)] + content[min(one, other) :]


def swapped(content: bytes, one: int, other: int) -> bytes:
    mixed = bytearray(content)
    if content:
        mixed[one], mixed[other] = mixed[other], mixed[one]
    return bytes(mixed)


def shuffled(content: bytes, one: int, other: int) -> bytes:
    lines = content.split(b"\n")
    random.Random(one).shuffle(lines)
    return b"\n".join(lines)


WORDS = (b"0", b"9" * 5000, b"-1", b"NV12", b"<gpu/>", b"nan", b"N/A", b'"', b"\xc2\xb2", b"\x1b[")
INSERTED = st.binary(max_size=20) | st.sampled_from(WORDS)
SPOT = st.floats(0, 1, exclude_max=True)
CHANGES = st.tuples(
    st.sampled_from([cut, dropped, doubled, swapped, shuffled]), SPOT, SPOT, INSERTED | st.just(b"")
)


@pytest.mark.parametrize(("kind", "name"), FIXTURES)
def test_a_fixture_is_read_whole(kind: str, name: str) -> None:
    assert import_texts(kind, {name: (HERE / name).read_text()}).counted["gpus"] in (4, 8)


@given(st.sampled_from(FIXTURES), st.lists(CHANGES, min_size=1, max_size=4))
def test_a_damaged_fixture_is_a_draft_or_an_error(
    fixture: tuple[str, str], damages: list[tuple[Change, float, float, bytes]]
) -> None:
    kind, name = fixture
    content = (HERE / name).read_bytes()
    for change, one, other, inserted in damages:
        spot = int(one * len(content))
        content = change(content, spot, int(other * len(content)))
        content = content[:spot] + inserted + content[spot:]
    survives(kind, content)


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=300))
def test_noise_is_an_error(kind: str, content: bytes) -> None:
    survives(kind, content)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_real_file_is_a_draft_or_an_error_whole_and_damaged(folder: str) -> None:
    dice = random.Random(folder)
    for path in sorted(shared("topo", folder).iterdir()):
        if path.suffix == ".source":
            continue
        content = path.read_bytes()
        survives(FOLDERS[folder], content)
        for _ in range(4):
            start, end = sorted(dice.randrange(len(content)) for _ in range(2))
            survives(FOLDERS[folder], content[:end])
            survives(FOLDERS[folder], content[:start] + content[end:])
            survives(FOLDERS[folder], content[:end] + content[start:])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in FOLDERS.values()])
def test_ten_megabytes_of_noise_are_refused(kind: str) -> None:
    letters = random.Random(7).choices(b"GPU0NVX \t\n<>/=\"'[]{}:,123\x1b[", k=10**7)
    for start in (b"", b"GPU0 GPU1\n", b"<system><cpu>", b"[", b"GPU0 " * 1000):
        with pytest.raises(InputError):
            import_texts(kind, {"noise": decode_text(start + bytes(letters), "noise")})


HOSTILE = {
    "laughs": '<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><{0}>&b;</{0}>',
    "a file": '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><{0}>&a;</{0}>',
    "parameters": '<!DOCTYPE r [<!ENTITY % a SYSTEM "http://x/"> %a;]><{0}/>',
    "depth": "<{0}>" + "<cpu>" * 100_000,
    "width": "<{0}>" + "<pci/>" * 500_000 + "</{0}>",
    "an encoding": '<?xml version="1.0" encoding="utf-7"?><{0}/>',
    "cut": "<{0}><cpu",
    "another": "<html></html>",
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(("kind", "root"), [("nccl-xml", "system"), ("hwloc", "topology")])
def test_hostile_xml_is_one_error(kind: str, root: str, hostile: str) -> None:
    with pytest.raises(InputError) as caught:
        import_texts(kind, {"given.xml": hostile.replace("{0}", root)})
    assert str(caught.value).startswith("given.xml")


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"gpu": 1e999}]', "[" + "9" * 10_000 + "]"])
def test_hostile_json_is_one_error(text: str) -> None:
    with pytest.raises(InputError):
        import_texts("rocm-smi", {"given.json": text})
