"""Catalogue files are read strictly: what is missing, wrong or unknown is refused and named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from planner.errors import CatalogueError
from planner.hardware import records
from planner.hardware.gpus import load_gpus, read_gpu
from planner.hardware.nodes import load_nodes, read_node
from planner.hardware.overheads import load_overheads, read_allowance, read_observation
from planner.hardware.records import Record
from planner.hardware.sources import Source
from planner.resources import resource

SOURCES = {"somebody": Source("https://example.org/listing")}
GPU: dict[str, Any] = {
    "id": "test-8gb",
    "name": "Test 8GB",
    "title": "Test 8 GB",
    "label": "Test",
    "vendor": "NVIDIA",
    "architecture": "Ampere",
    "segment": "consumer",
    "form_factor": "PCIe",
    "released": "2021",
    "memory": {
        "marketing_gb": 8,
        "type": "GDDR6",
        "driver": [{"mib": 8192, "sources": ["somebody"]}],
        "usable": [{"gib": 7.8, "condition": "Linux", "sources": ["somebody"], "count": 2}],
        "mig": [{"profile": "1g.2gb", "instances": 4}],
    },
    "speed": {"bandwidth_gb_per_s": 448},
    "sources": ["somebody"],
}


def changed(record: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `record` with the value at a dotted path set, or left out for None."""
    copy = json.loads(json.dumps(record))
    *parents, last = path.split(".")
    place = copy
    for parent in parents:
        place = place[int(parent)] if isinstance(place, list) else place[parent]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return copy


def test_a_new_gpu_needs_nothing_but_its_record() -> None:
    gpu = read_gpu(Record(GPU, "gpus[0]"), SOURCES)
    assert (gpu.id, gpu.memory.usable[0].count, gpu.supports) == ("test-8gb", 2, frozenset())


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("id", None, "gpus\\[0\\]: 'id' is missing"),
        ("id", 7, "'id' must be a text, not a number"),
        ("label", "", "'label' must be a text"),
        ("colour", "green", "unknown field 'colour'"),
        ("segment", "toaster", "'segment' is 'toaster'; it must be one of data-centre"),
        ("power_w", 2.5, "'power_w' is 2.5; it must be a whole number"),
        ("memory", [], "gpus\\[0\\], memory must be an object, not a list"),
        ("memory.marketing_gb", None, "gpus\\[0\\], memory: 'marketing_gb' is missing"),
        ("memory.unified", "yes", "'unified' must be true or false"),
        ("memory.driver", {}, "'driver' must be a list, not an object"),
        ("memory.driver.0.mib", "8192", "gpus\\[0\\], memory, driver\\[0\\]: 'mib' must be a number, not a text"),
        ("memory.driver.0.mib", 0, "a report needs a size"),
        ("memory.driver.0.mib", -5, "it must be at least 0"),
        ("memory.driver.0.mib", True, "'mib' must be a number, not true or false"),
        ("memory.driver.0.sources", None, "driver\\[0\\] has no source"),
        ("memory.driver.0.sources", ["nobody"], "names the source 'nobody'"),
        ("memory.driver.0.sources", [3], "must be a list of texts"),
        ("memory.mig.0.profile", "half", "it must read like 3g.40gb"),
        ("speed.bandwidth_gb_per_s", float("nan"), "must be a number"),
        ("sources", [], "gpus\\[0\\] has no source"),
    ],
)
def test_a_wrong_gpu_record_is_refused_at_its_place(path: str, value: object, told: str) -> None:
    with pytest.raises(CatalogueError, match=told):
        read_gpu(Record(changed(GPU, path, value), "gpus[0]"), SOURCES)


def test_a_record_that_is_no_object_is_refused() -> None:
    with pytest.raises(CatalogueError, match=r"gpus\[0\] must be an object, not a text"):
        read_gpu(Record("h100", "gpus[0]"), SOURCES)


def test_a_node_with_an_unknown_unit_is_refused() -> None:
    node = {
        "id": "n",
        "name": "N",
        "provider": "P",
        "category": "cloud",
        "gpu": "t4",
        "gpu_count": 1,
        "interconnect": "PCIe",
        "host_ram": {"size": 16, "unit": "gigabytes"},
        "sources": ["somebody"],
    }
    with pytest.raises(CatalogueError, match="'unit' is 'gigabytes'; it must be one of GiB, GB"):
        read_node(Record(node, "nodes[0]"), SOURCES)


def test_an_allowance_needs_observations_and_a_band_in_order() -> None:
    observation = {"id": "o", "category": "c", "kind": "measured", "mib": 1, "scope": "s", "conditions": "c"}
    seen = {"o": read_observation(Record(observation | {"sources": ["somebody"]}, "observations[0]"), SOURCES)}
    allowance = {
        "id": "a",
        "kind": "cuda_context",
        "what": "w",
        "unit": "MiB",
        "low": 1,
        "typical": 2,
        "high": 3,
        "basis": "b",
        "observations": ["o"],
    }
    assert read_allowance(Record(allowance, "allowances[0]"), seen).typical == 2
    with pytest.raises(CatalogueError, match="must name observations"):
        read_allowance(Record(allowance | {"observations": ["x"]}, "allowances[0]"), seen)
    with pytest.raises(CatalogueError, match="must lie between low and high"):
        read_allowance(Record(allowance | {"typical": 4}, "allowances[0]"), seen)


FILES: dict[str, Callable[[], object]] = {
    "gpus.json": load_gpus,
    "nodes.json": lambda: load_nodes(("t4",)),
    "overheads.json": load_overheads,
}


@pytest.fixture(params=FILES)
def catalogue_file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one catalogue file, which the loader reads in place of the real one."""
    name = str(request.param)
    copy = tmp_path / name
    copy.write_text(resource("hardware", name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(records, "resource", lambda *_: copy)
    return copy


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "something/else"}, "'something/else' version 1"),
        ({"version": 2}, "version 2, but this program reads"),
        ({"extra": 1}, "unknown field 'extra'"),
        ({"sources": {}}, "which the file does not list"),
    ],
)
def test_a_file_of_another_shape_is_refused(catalogue_file: Path, change: dict[str, object], told: str) -> None:
    content = json.loads(catalogue_file.read_text(encoding="utf-8")) | change
    if catalogue_file.name == "nodes.json":
        content["nodes"] = [node for node in content["nodes"] if node["gpu"] == "t4"]
    catalogue_file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CatalogueError, match=told):
        FILES[catalogue_file.name]()


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, '"text"', "[]", "\x00\x01"])
def test_a_file_that_is_no_catalogue_is_refused(catalogue_file: Path, content: str) -> None:
    catalogue_file.write_text(content, encoding="utf-8")
    with pytest.raises(CatalogueError):
        FILES[catalogue_file.name]()


def test_a_missing_file_is_told_in_a_sentence(catalogue_file: Path) -> None:
    catalogue_file.unlink()
    with pytest.raises(CatalogueError, match="cannot be read"):
        FILES[catalogue_file.name]()


def test_an_id_used_twice_is_refused(catalogue_file: Path) -> None:
    content = json.loads(catalogue_file.read_text(encoding="utf-8"))
    rows = {"gpus.json": "gpus", "nodes.json": "nodes", "overheads.json": "observations"}[catalogue_file.name]
    first = next(row for row in content[rows] if row.get("gpu", "t4") == "t4" or rows != "nodes")
    content[rows] = [first, first]
    catalogue_file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CatalogueError, match="is used twice"):
        FILES[catalogue_file.name]()


def test_a_node_with_a_gpu_outside_the_catalogue_is_refused() -> None:
    with pytest.raises(CatalogueError, match="is not in the catalogue"):
        load_nodes(("t4",))


def test_no_source_is_listed_without_being_cited() -> None:
    for name in FILES:
        content = json.loads(resource("hardware", name).read_text(encoding="utf-8"))
        text = json.dumps({key: value for key, value in content.items() if key != "sources"})
        assert [key for key in content["sources"] if f'"{key}"' not in text] == []
