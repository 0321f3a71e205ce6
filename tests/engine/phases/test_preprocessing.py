"""Preprocessing by kind of data: sizes by hand and from reports."""

import json

import pytest

from planner.engine.phases.preprocessing import plan_preprocessing
from planner.engine.phases.samples import sample_of
from planner.engine.plan import by_name
from planner.scenario.datasets import DATA_SETS
from planner.scenario.preprocessing import Preprocessing
from planner.units import MIB


def phase(**fields):
    return Preprocessing.model_validate_json(json.dumps(fields))


def ram(**fields):
    return by_name(plan_preprocessing(phase(**fields)).host_terms)


def disk(**fields):
    return by_name(plan_preprocessing(phase(**fields)).storage_terms)


def test_text_needs_no_vram_and_grows_with_workers():
    few, many = (plan_preprocessing(phase(workers=count)) for count in (2, 32))
    assert few.ledger.terms == ()
    assert list(few.ledger.moments) == ["process"]
    step = 1000 * (6000 + 1500 * (96 + 48 + 48 + 5))  # the tokens of the step before are still there
    batch = 32 * (6000 + 1500 * 5)
    grown = sum(item.bytes for item in many.host_terms) - sum(item.bytes for item in few.host_terms)
    assert grown == 30 * (65 * MIB + step + 3 * batch)
    assert by_name(few.storage_terms) == by_name(many.storage_terms)


@pytest.mark.parametrize(
    ("fields", "decoded", "prepared"),
    [
        ({"kind": "images", "image_height": 1080, "image_width": 1920}, 1080 * 1920 * 3, 224 * 224 * 3 * 4),
        ({"kind": "images", "sample_type": "uint8"}, 480 * 640 * 3, 224 * 224 * 3),
        ({"kind": "video", "frames_per_sample": 32}, 32 * 480 * 640 * 3, 32 * 224 * 224 * 3 * 4),
        ({"kind": "audio", "seconds_per_sample": 30.0}, 480_000 * 4, 480_000 * 4),
        # Whisper: 30 s become 3000 spectra of 80 bins
        ({"kind": "audio", "seconds_per_sample": 30.0, "mel_bins": 80}, 480_000 * 4, 3000 * 80 * 4),
        ({"kind": "tabular", "columns": 40}, 40 * 8, 40 * 4),
    ],
)
def test_a_sample_is_decoded_and_prepared_by_its_shape(fields, decoded, prepared):
    sample = sample_of(phase(**fields))
    assert (sample.decoded_bytes, sample.prepared_bytes) == (decoded, prepared)


def test_images_are_prepared_anew_and_only_their_files_are_stored():
    assert disk(dataset="imagenet-1k") == {"raw data": pytest.approx(147_897_477_120, rel=1e-5)}


def test_tables_are_converted_and_stored_as_features():
    assert set(disk(kind="tabular")) == {"raw data", "converted copy of the raw data", "prepared samples"}


def test_a_row_of_patches_takes_90_mb_as_an_array_and_ten_times_that_in_python_lists():
    # axolotl-ai-cloud/axolotl#3898: 14 628 x 1536 fp32 values are 89.9 MB; it counts 32 bytes for a float in a list
    # (720 MB), CPython's allocator rounds its 24 up to 32, and a reference takes 8 more
    values = 14_628 * 1536
    rows = {"kind": "tabular", "columns": values, "map_batch_samples": 1, "workers": 1}
    assert ram(**rows)["Arrow writers"] == pytest.approx(89.9e6, rel=0.001)
    assert ram(**rows, python_lists=True)["rows in Python lists"] == values * 40
    assert values * 32 == pytest.approx(720e6, rel=0.002)


def test_a_writers_buffer_holds_its_rows_in_every_worker():
    # huggingface/datasets#6814: RAM rises with num_proc. axolotl-ai-cloud/axolotl#3898 tells of some 186 GB in each
    # worker's buffer; the datasets default of 1000 rows would be 899 GB, so its buffer held about 207 rows
    rows = {"kind": "tabular", "columns": 14_628 * 1536, "python_lists": True}
    one, many = (ram(**rows, workers=count)["rows in Python lists"] for count in (1, 32))
    assert one == 1000 * 14_628 * 1536 * 40
    assert many == 32 * one
    assert ram(**rows, workers=1, map_batch_samples=207)["rows in Python lists"] == pytest.approx(186e9, rel=0.01)


def test_data_in_memory_are_held_once_more():
    assert ram(memory_mapped=False)["data set in memory"] == disk()["packed sequences"]
    assert "data set in memory" not in ram()


def test_a_gpu_that_decodes_holds_the_batch_decoded_and_a_queue_of_prepared_ones():
    planned = plan_preprocessing(phase(dataset="imagenet-1k", gpu_preprocessing="decode", batch_size=256))
    held = by_name(planned.ledger.terms)
    assert held == {
        "encoded batch": 256 * 115_440,
        "decoded batch": 256 * 387 * 469 * 3,
        "prepared batches": 2 * 256 * 224 * 224 * 3 * 4,
    }
    assert "sample being decoded" not in by_name(planned.host_terms)


def test_a_data_frame_on_the_gpu_needs_room_for_results_beside_it():
    planned = plan_preprocessing(phase(kind="tabular", gpu_preprocessing="dataframe", batch_size=10**6))
    assert sum(item.bytes for item in planned.ledger.terms) == 3 * 10**6 * 40 * 8


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_typical_data_set_can_be_planned(name):
    planned = plan_preprocessing(phase(dataset=name))
    assert all(item.source and item.factors for item in (*planned.host_terms, *planned.storage_terms))
    assert sum(item.bytes for item in planned.storage_terms) > 10**9


def test_what_is_stated_beside_a_typical_data_set_counts():
    assert phase(dataset="imagenet-1k", samples=10).samples == 10
    assert phase(dataset="imagenet-1k").kind == "images"
