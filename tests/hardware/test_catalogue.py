"""How an entry of a scenario becomes a GPU, and how a picker finds one."""

from dataclasses import dataclass

import pytest

from planner.errors import CatalogueError
from planner.hardware import distinct_labels, load_hardware
from planner.units import GIB

CATALOG = load_hardware()


@dataclass(frozen=True)
class Entry:
    id: str | None = None
    name: str | None = None
    memory_gib: float | None = None
    count: int | None = None


def test_the_catalogue_is_read_once() -> None:
    assert load_hardware() is CATALOG


def test_an_id_is_a_gpu_of_the_catalogue() -> None:
    chosen = CATALOG.resolve("l40s")
    assert (chosen.id, chosen.name, chosen.label) == ("l40s", "NVIDIA L40S 48 GB", "L40S")
    assert chosen.gpu is CATALOG.gpus["l40s"]
    assert chosen.count is None


def test_a_mig_slice_keeps_the_entry_as_its_id() -> None:
    chosen = CATALOG.resolve("h100-sxm5-80gb/3g.40gb")
    assert chosen.id == "h100-sxm5-80gb/3g.40gb"
    assert chosen.name == "NVIDIA H100 SXM5 80 GB, MIG 3g.40gb"
    assert (chosen.label, chosen.variant) == ("H100 3g.40gb", "3g.40gb")
    assert chosen.gpu is CATALOG.gpus["h100-sxm5-80gb"]


def test_a_mac_of_another_size_is_named_by_that_size() -> None:
    chosen = CATALOG.resolve("apple-m4-max/64gb")
    assert (chosen.name, chosen.label) == ("Apple M4 Max 64 GB", "M4 Max 64 GB")


def test_an_entry_may_say_how_many_cards_there_are() -> None:
    chosen = CATALOG.resolve(Entry(id="rtx-4090", count=4))
    assert (chosen.id, chosen.count) == ("rtx-4090", 4)
    assert chosen.capacities == CATALOG.resolve("rtx-4090").capacities


def test_an_entry_may_be_several_mig_slices() -> None:
    chosen = CATALOG.resolve(Entry(id="a100-sxm4-40gb/1g.5gb", count=7))
    assert (chosen.count, chosen.variant) == (7, "1g.5gb")


def test_a_custom_card_has_the_size_that_was_entered() -> None:
    chosen = CATALOG.resolve(Entry(name="Lab card", memory_gib=47.5, count=2))
    assert (chosen.id, chosen.name, chosen.label, chosen.count) == ("Lab card", "Lab card", "Lab card", 2)
    assert chosen.gpu is None
    assert chosen.capacities.usable_bytes == chosen.capacities.marketing_bytes == 47 * GIB + GIB // 2
    assert chosen.capacities.driver_bytes is None
    assert chosen.capacities.usable_basis == "custom"


def test_a_card_of_the_catalogue_may_have_another_size() -> None:
    chosen = CATALOG.resolve(Entry(id="rtx-4090", memory_gib=47.5))  # the 48 GB conversion
    assert chosen.gpu is CATALOG.gpus["rtx-4090"]
    assert chosen.capacities.usable_bytes == 47 * GIB + GIB // 2


def test_a_measured_total_replaces_the_usable_size() -> None:
    chosen = CATALOG.resolve("t4", total_bytes=15_633_680_957)
    assert chosen.capacities.usable_bytes == 15_633_680_957
    assert chosen.capacities.usable_basis == "custom"
    assert chosen.capacities.driver_bytes == CATALOG.resolve("t4").capacities.driver_bytes


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("h100", "h100-sxm5-80gb"),
        ("H100 80GB", "h100-sxm5-80gb"),
        ("a100-80gb", "a100-sxm4-80gb"),
        ("rtx4090", "rtx-4090"),
        ("rtx-4099", "rtx-4090"),
        ("mi300", "mi300x"),
        ("GeForce 3090", "rtx-3090"),
    ],
)
def test_an_unknown_id_names_the_nearest(written: str, meant: str) -> None:
    with pytest.raises(CatalogueError, match=f"no GPU '{written}'") as caught:
        CATALOG.resolve(written)
    assert f"'{meant}'" in caught.value.message


def test_an_id_near_to_nothing_points_at_the_list() -> None:
    with pytest.raises(CatalogueError, match="`vram-planner gpus`"):
        CATALOG.resolve("?")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("h100-sxm5-80gb/3g.20gb", "3g.40gb"),
        ("apple-m4/12gb", "16gb, 24gb, 32gb"),
        ("rtx-4090/1g.5gb", "cannot be divided"),
    ],
)
def test_an_unknown_part_names_the_parts_there_are(written: str, told: str) -> None:
    with pytest.raises(CatalogueError, match=told):
        CATALOG.resolve(written)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(name="no size"),
        Entry(memory_gib=24.0),
        Entry(name="zero", memory_gib=0.0),
        Entry(name="negative", memory_gib=-1.0),
        Entry(name="endless", memory_gib=float("inf")),
        Entry(name="nonsense", memory_gib=float("nan")),
        Entry(id="l4", count=0),
        Entry(id="nothing-like-this"),
    ],
)
def test_an_entry_that_is_no_card_is_refused(entry: Entry) -> None:
    with pytest.raises(CatalogueError):
        CATALOG.resolve(entry)


def test_the_list_starts_with_current_data_centre_gpus() -> None:
    order = list(CATALOG.gpus)
    assert {CATALOG.gpus[gpu_id].segment for gpu_id in order[:30]} == {"data-centre"}
    assert order.index("b300") < order.index("h100-sxm5-80gb") < order.index("rtx-5090") < order.index("v100-sxm2-16gb")
    assert order.index("h100-sxm5-80gb") < order.index("h100-pcie-80gb")


def test_search_ignores_case_spaces_and_hyphens() -> None:
    ids = [gpu.id for gpu in CATALOG.search("RTX4090")]
    assert ids == ["rtx-4090", "rtx-4090-d", "rtx-4090-laptop-16gb"]
    assert CATALOG.search("a100 80 GB") == CATALOG.search("A100-80gb") != ()


def test_search_puts_the_card_of_that_very_name_first() -> None:
    assert CATALOG.search("a10")[0].id == "a10"
    assert CATALOG.search("h100")[0].id == "h100-sxm5-80gb"
    assert CATALOG.search("L4")[0].id == "l4"


def test_search_finds_architecture_and_kind() -> None:
    assert {gpu.architecture for gpu in CATALOG.search("hopper")} == {"Hopper"}
    assert {gpu.segment for gpu in CATALOG.search("laptop")} == {"laptop"}
    assert [gpu.id for gpu in CATALOG.search("gfx1030")] == ["rx-6800", "rx-6800-xt", "rx-6900-xt"]


def test_search_narrows_by_vendor_and_memory() -> None:
    found = CATALOG.search(vendor="AMD", min_memory_gb=192)
    assert {gpu.id for gpu in found} == {"mi300x", "mi325x", "mi350x", "mi355x"}
    assert CATALOG.search("no such card") == ()
    assert len(CATALOG.search()) == len(CATALOG.gpus)


def test_labels_on_one_chart_are_told_apart() -> None:
    pairs = [
        (CATALOG.gpus[name].label, CATALOG.gpus[name].title) for name in ("a100-sxm4-40gb", "a100-sxm4-80gb", "t4")
    ]
    assert distinct_labels(pairs) == ("A100 SXM4 40 GB", "A100 SXM4 80 GB", "T4")
