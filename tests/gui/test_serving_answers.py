"""*Why?* of serving: how the engine divides the GPU, and how many requests, tokens and copies that makes."""

from planner.gui.panels.serving_text import serving_tables
from planner.gui.widgets.disclosure import Disclosure
from planner.gui.widgets.number_box import NumberBox

GROUP = "\u202f"


def rows(window, phase="serving"):
    plan = window.session.state.plan.phases[phase]
    return {name: text for _, lines in serving_tables(plan, window.session.state.judge, "GiB") for name, text in lines}


def told(window):
    window.session.look_at(phase="serving", component=None)
    return window.why.body.toPlainText()


def grouped(number):
    return f"{number:,}".replace(",", GROUP)


def test_what_an_engine_takes_is_told_beside_what_the_load_needs(window):
    budget = window.session.state.plan.phases["serving"].details["engine_budget"][window.session.state.judge]
    text = told(window)
    assert "Taken by the engine" in text
    assert "Reserved once it runs" in text
    assert rows(window)["Reserved once it runs"] == f"{budget['reserved_bytes'] / 1024**3:.1f} GiB"
    assert rows(window)["Its share of the GPU"] == f"{budget['budget_bytes'] / 1024**3:.1f} GiB"


def test_the_answers_are_those_of_the_plan(window):
    window.session.edit(("phases", "serving", "context_length"), 4096)
    window.session.edit(("phases", "serving", "concurrent_sequences"), 4)
    kv = window.session.state.plan.phases["serving"].details["kv"]
    judge = window.session.state.judge
    shown = rows(window)
    assert shown["Bytes per token"] == grouped(kv["bytes_per_token"])
    assert shown["Tokens that fit"] == grouped(kv["tokens_available"][judge])
    assert shown["Tokens asked for"] == grouped(4 * 4096)
    assert shown["Longest single request"] == grouped(kv["largest_context"][judge])
    assert shown["GPUs for one copy"] == str(kv["smallest_tensor_parallel"][judge])
    assert shown["Copies for all requests"] == str(kv["replicas"][judge])
    assert "What it serves" in told(window)


def test_an_answer_that_does_not_exist_is_said(window):
    window.session.edit(("phases", "serving", "weights"), "fp32")
    window.session.edit(("hardware", "gpus_per_node"), 1)
    window.session.edit(("phases", "serving", "gpu_memory_utilization"), 0.2)
    shown = rows(window)
    assert shown["Longest single request"] == "none fits"
    assert shown["GPUs for one copy"] == "no node"


def test_other_phases_have_no_such_answers(window):
    window.session.look_at(phase="training", component=None)
    assert "What it serves" not in window.why.body.toPlainText()


def test_the_words_of_a_start_that_fails_are_shown(window, qtbot):
    window.session.edit(("phases", "serving", "gpu_memory_utilization"), 0.2)
    qtbot.waitUntil(lambda: "No available memory for the cache blocks" in told(window))


def test_an_unstated_version_is_said_to_widen_the_band(window, qtbot):
    assert "The vLLM version is not stated" in told(window)
    window.session.edit(("phases", "serving", "engine_version"), "0.19")
    qtbot.waitUntil(lambda: "The vLLM version is not stated" not in told(window))


def test_adapters_are_set_in_the_form_and_explained(drive):
    drive.window.session.look_at(phase="serving")
    drive.window.phases_panel.form("serving")
    drive.open_group("Serving: Adapters")
    drive.type(drive.find(NumberBox, "Serving: Adapters: Adapters"), "4")
    assert drive.scenario.phases.serving.adapters.count == 4
    session = drive.window.session
    terms = session.state.plan.phases["serving"].terms
    assert sum(int(term.bytes) for term in terms if term.name.startswith("adapter places")) > 300 * 1024**2
    session.look_at(phase="serving", component="weights")
    assert "4 adapters × 16 rank" in drive.window.why.body.toPlainText()


def test_settings_of_image_pipelines_are_shown_for_those_alone(drive):
    drive.window.session.look_at(phase="serving")
    form = drive.window.phases_panel.form("serving")
    groups = {group.button.accessibleName(): group for group in form.findChildren(Disclosure)}
    assert groups["Serving: Image pipeline"].isHidden()
    assert not groups["Serving: Adapters"].isHidden()
