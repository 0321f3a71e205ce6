"""*Why?* says the formula with its numbers, where they come from, and what the verdict means."""

import pytest
from PySide6.QtCore import QUrl

from planner.chart.formula import formula, number
from planner.engine.plan import PHASES, Verdict
from planner.engine.term import Factor, Term
from planner.gui.panels.why_text import why_html, why_title
from planner.gui.tokens import LIGHT
from planner.gui.verdicts import verdict_sentence
from planner.gui.words import fine_size

GIB = 1024**3


def verdict(kind, headroom_gib, capacity_gib=44.4, gpus=1):
    return Verdict(kind, round(capacity_gib * GIB), round(headroom_gib * GIB), lambda: gpus)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (verdict("fits", 12.4), "Fits L40S: 12.4 GiB of 44.4 GiB stay free."),
        (verdict("oom", -14.7), "Too large for L40S by 14.7 GiB: it offers 44.4 GiB."),
        (verdict("oom", -14.7, gpus=4), "Too large for L40S by 14.7 GiB: it offers 44.4 GiB. 4 of them would do."),
        (
            verdict("tight", 1.0),
            "Tight on L40S: the estimate leaves 1.0 GiB of 44.4 GiB, which is within its uncertainty.",
        ),
        (
            Verdict("unknown", None, None, missing=("usable memory",)),
            "Whether it fits L40S is unknown: usable memory is missing.",
        ),
    ],
)
def test_verdicts_are_told_in_a_sentence(given, sentence):
    assert verdict_sentence(given, "L40S", "GiB") == sentence


def test_a_phase_that_gets_less_than_the_gpu_has_says_so():
    sentence = verdict_sentence(verdict("oom", -7.8, 40.0), "L40S", "GiB", round(44.4 * GIB))
    assert sentence == "Too large for L40S by 7.8 GiB: this phase gets 40.0 GiB of it."


def test_a_formula_is_its_factors_with_their_names():
    term = Term(
        "kv_cache", "KV cache", (Factor("layers", 32), Factor("K and V", 2), Factor("tokens", 262144)), ("decode",), "…"
    )
    assert formula(term) == "32 layers × 2 K and V × 262\u202f144 tokens"


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5"), (4.0, "4"), (8030261248, "8\u202f030\u202f261\u202f248")])
def test_numbers_in_formulas_are_exact(value, text):
    assert number(Factor("x", value)) == text


@pytest.mark.parametrize(
    ("size", "unit", "text"),
    [
        (32 * GIB, "GiB", "32.00 GiB"),
        (16 * 1024**2, "GiB", "16.00 MiB"),
        (16 * 1000**2, "GB", "16.00 MB"),
        (2048, "GiB", "2.00 KiB"),
        (8, "GiB", "8 bytes"),
    ],
)
def test_small_terms_are_told_in_smaller_units(size, unit, text):
    assert fine_size(size, unit) == text


@pytest.mark.parametrize("phase", PHASES)
def test_every_segment_of_every_phase_is_explained_with_its_sources(window, phase):
    state = window.session.state
    plan = state.plan.phases[phase]
    for component, size in plan.components.items():
        if not size:
            continue
        html = why_html(state, phase, component, "GiB", LIGHT)
        terms = [t for t in plan.terms if t.component == component and plan.peak.moment in t.alive and int(t.bytes)]
        assert terms, f"{phase} {component} has no term"
        for term in terms:
            assert term.source.split("&")[0][:20] in html
    assert why_title(state, phase, None, "GiB").startswith("WHY ")


def test_the_terms_shown_add_up_to_the_segment(window):
    """The number on the chart and the formulas beside it are the same objects."""
    for phase, plan in window.session.state.plan.phases.items():
        for component, size in plan.components.items():
            alive = [t for t in plan.terms if t.component == component and plan.peak.moment in t.alive]
            assert sum(int(term.bytes) for term in alive) == pytest.approx(size, rel=0.02, abs=64 * 1024**2), (
                phase,
                component,
            )


def test_a_phase_tells_verdict_peak_and_what_is_held(window):
    window.session.look_at(phase="serving", component=None)
    text = window.why.body.toPlainText()
    assert "Too large for NVIDIA L40S 48 GB" in text
    assert "Serving needs most" in text
    assert "Held at the peak" in text


def test_a_link_opens_a_component_and_another_goes_back(window):
    window.session.look_at(phase="training", component=None)
    window.why.body.anchorClicked.emit(QUrl("component:logits"))
    assert window.session.view.component == "logits"
    window.why.body.anchorClicked.emit(QUrl("component:"))
    assert window.session.view.component is None


def test_sizes_too_small_to_show_are_shown_as_such(window):
    window.session.edit(("phases", "fine_tuning", "sequence_length"), 16)
    window.session.look_at(phase="fine_tuning", component=None)
    assert "<0.1 GiB" in window.why.body.toPlainText()


def test_a_phase_without_vram_tells_host_ram_and_storage(window):
    window.session.look_at(phase="preprocessing", component=None)
    text = window.why.body.toPlainText()
    assert "Host RAM" in text
    assert "Storage" in text


def test_a_phase_that_is_off_says_so(window):
    window.session.switch_phase("training", False)
    assert "not planned" in why_html(window.session.state, "training", None, "GiB", LIGHT)


def test_the_panel_follows_an_edit(window, qtbot):
    window.session.look_at(phase="training", component=None)
    before = window.why.title.text()
    window.session.edit(("phases", "training", "micro_batch_size"), 4)
    qtbot.waitUntil(lambda: window.why.title.text() != before)


def test_the_terms_of_a_phase_stand_under_their_component(window):
    window.session.look_at(phase="serving", component=None)
    told = window.why.body.toPlainText().splitlines()
    start = told.index("Held at the peak")
    assert told.index("KV cache", start) < told.index("Weights", start) < told.index("layers", start)


def test_keys_that_a_model_does_not_state_are_named(window, qtbot):
    window.model_panel.picker.chosen.emit("mistralai/Mistral-7B-v0.1")
    window.session.look_at(phase="training", component=None)
    told = "Not stated by the model, so as its class has it: attention_dropout."
    qtbot.waitUntil(lambda: told in window.why.body.toPlainText())
