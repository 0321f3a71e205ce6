"""A model is picked, imported or described."""

import json

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel, QLineEdit, QMessageBox, QPushButton

from planner.gui.dialogs.dimensions_dialog import DimensionsDialog
from planner.gui.widgets.choice_list import DETAIL_ROLE, HEADING_ROLE
from planner.gui.widgets.number_box import NumberBox
from planner.scenario.files import scenario_to_json

QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
}
"""Qwen2.5-0.5B, which has 494 032 768 parameters."""


def test_a_model_is_found_by_typing_and_chosen_by_enter(drive, window, qtbot):
    popup = window.model_panel.picker.open()
    qtbot.keyClicks(popup.search, "qwen2.5 7b instruct")
    drive.press(popup.search, Qt.Key.Key_Return)
    assert drive.scenario.model.preset == "Qwen/Qwen2.5-7B-Instruct"
    assert window.model_panel.picker.text() == "Qwen / Qwen2.5-7B-Instruct"
    assert "28 layers" in drive.find(QLabel, "Model facts").text()
    drive.do("undo")
    assert drive.scenario.model.preset == "meta-llama/Llama-3.1-8B"


def test_chart_and_title_name_the_model_that_is_planned(drive, window):
    assert window.chart.spec.subtitle.startswith("Llama-3.1-8B · judged against L40S")
    window.model_panel.picker.chosen.emit("Qwen/Qwen2.5-7B-Instruct")
    assert window.chart.spec.subtitle.startswith("Qwen2.5-7B-Instruct · ")
    assert "Llama" not in window.windowTitle()
    window.session.edit(("name",), "Ours")
    window.model_panel.picker.chosen.emit("meta-llama/Llama-3.1-8B")
    assert drive.scenario.name == "Ours"


def test_arrows_move_in_the_list_while_typing(window, qtbot):
    popup = window.model_panel.picker.open()
    qtbot.keyClicks(popup.search, "llama")
    first = popup.list.currentIndex().row()
    qtbot.keyClick(popup.search, Qt.Key.Key_Down)
    assert popup.list.currentIndex().row() == first + 1


def test_a_search_without_result_says_so(window, qtbot):
    popup = window.model_panel.picker.open()
    qtbot.keyClicks(popup.search, "no such model")
    assert popup.nothing.isVisible()
    qtbot.keyClick(popup.search, Qt.Key.Key_Return)
    assert popup.isVisible()


def test_the_facts_of_the_model_are_exact(drive):
    text = drive.find(QLabel, "Model facts").text()
    assert text.startswith("8.03 B parameters · 32 layers · hidden 4096 · GQA 32/8")
    assert drive.find(QLabel, "Weights on disk").text() == "bf16 · 14.96 GiB"


def test_a_config_json_is_imported_in_one_step(drive, window, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN), encoding="utf-8")
    assert window.documents.take(path)
    assert window.session.state.plan.model.parameters == 494_032_768
    assert window.session.undo_stack.count() == 1
    drive.do("undo")
    assert drive.scenario.model.preset == "meta-llama/Llama-3.1-8B"


def test_figures_of_another_model_are_never_shown_as_the_last_valid_ones(drive, window, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN), encoding="utf-8")
    window.session.edit(("phases", "serving", "parallelism", "tensor"), 4)
    assert window.documents.take(path)
    assert "serving" not in [bar.phase for bar in window.chart.spec.bars]
    assert "Serving is left out: " in drive.find(QLabel, "Notice").text()


def test_lengths_beyond_a_models_positions_are_shortened_and_told(drive, window, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**QWEN, "max_position_embeddings": 1024}), encoding="utf-8")
    told = []
    window.session.told.connect(told.append)
    assert window.documents.take(path)
    assert drive.scenario.phases.serving.context_length == 1024
    assert not drive.find(QLabel, "Notice").isVisible()
    assert told == ["Lengths were shortened to the 1024 positions of this model"]
    drive.do("undo")
    assert drive.scenario.phases.serving.context_length == 8192


@pytest.mark.parametrize(
    "content", [b'{"hidden_size": ', b"\x00\xff\xfe\x80", b"[1, 2]", b"{}", b"[" * 100_000], ids=lambda c: repr(c[:12])
)
def test_a_file_that_is_no_configuration_gives_one_message_and_changes_nothing(
    drive, window, tmp_path, answer, content
):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    before, told = drive.scenario, []

    def read(dialog):
        assert isinstance(dialog, QMessageBox)
        told.append(dialog.informativeText())
        dialog.accept()

    answer(read)
    assert not window.documents.take(path)
    assert len(told) == 1
    assert told[0]
    assert drive.scenario is before
    assert not window.session.dirty


def test_dimensions_are_taken_over_in_one_step(drive, window, qtbot):
    dialog = DimensionsDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    layers = drive.find(NumberBox, "Layers", within=dialog)
    assert layers.value() == 32
    drive.type(layers, "16")
    assert "16 layers" in drive.find(QLabel, "Draft facts", within=dialog).text()
    assert drive.scenario.model.preset == "meta-llama/Llama-3.1-8B"
    (use,) = [button for button in dialog.findChildren(QPushButton) if button.text() == "&Use this model"]
    drive.click(use)
    assert drive.scenario.model.dimensions.layers == 16
    assert window.session.undo_stack.count() == 1
    assert window.model_panel.picker.text() == "Own dimensions"


def test_dimensions_that_cannot_be_leave_the_button_off(drive, window, qtbot):
    dialog = DimensionsDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    drive.type(drive.find(NumberBox, "Key-value heads", within=dialog), "7")
    (use,) = [button for button in dialog.findChildren(QPushButton) if button.text() == "&Use this model"]
    assert not use.isEnabled()


def test_the_search_box_has_a_name(window):
    assert window.model_panel.picker.open().findChild(QLineEdit).accessibleName() == "Search Model"


def rows(popup):
    """What the list of models shows: headings as such, entries with what stands beside them."""
    model = popup.list.model()
    indices = [model.index(row, 0) for row in range(model.rowCount())]
    return [
        (f"# {index.data()}" if index.data(HEADING_ROLE) else index.data(), index.data(DETAIL_ROLE))
        for index in indices
    ]


def test_presets_stand_under_their_family_with_parameters_context_and_kind(window):
    shown = rows(window.model_panel.picker.open())
    names = [name for name, _ in shown]
    assert names.index("# Llama") < names.index("meta-llama / Llama-3.1-8B")
    assert ("meta-llama / Llama-3.1-8B", "8.03 B · 131\u202f072 tokens · decoder") in shown
    assert "# Recent" not in names


def test_a_search_keeps_only_the_headings_of_what_is_found(window, qtbot):
    popup = window.model_panel.picker.open()
    qtbot.keyClicks(popup.search, "qwen3 4b")
    assert [name for name, _ in rows(popup) if name.startswith("#")] == ["# Qwen 3"]


def test_models_picked_last_are_listed_first(window, settings):
    window.model_panel.picker.chosen.emit("Qwen/Qwen3-4B")
    window.model_panel.picker.chosen.emit("Qwen/Qwen2.5-7B-Instruct")
    assert settings.recent_models == ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-4B")
    popup = window.model_panel.picker.open()
    assert [name for name, _ in rows(popup)[:3]] == ["# Recent", "Qwen / Qwen2.5-7B-Instruct", "Qwen / Qwen3-4B"]
    assert popup.list.currentIndex().row() == 1


def test_the_list_is_walked_with_keys_from_family_to_family(drive, window, qtbot):
    window.session.take_model({"preset": "meta-llama/Llama-3.1-405B"}, "Pick")
    popup = window.model_panel.picker.open()
    assert popup.list.currentIndex().data() == "meta-llama / Llama-3.1-405B"
    qtbot.keyClick(popup.search, Qt.Key.Key_Down)
    assert popup.list.currentIndex().data() == "Qwen / Qwen3-0.6B"
    qtbot.keyClick(popup.search, Qt.Key.Key_Enter)
    assert drive.scenario.model.preset == "Qwen/Qwen3-0.6B"


def test_a_heading_cannot_be_chosen(window):
    popup = window.model_panel.picker.open()
    popup.list.clicked.emit(popup.list.model().index(0, 0))
    assert popup.isVisible()


def test_the_form_takes_a_mixture_of_experts_over_and_says_what_it_cannot(drive, window, qtbot):
    window.model_panel.picker.chosen.emit("openai/gpt-oss-20b")
    dialog = DimensionsDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    assert drive.find(NumberBox, "Experts", within=dialog).value() == 32
    assert drive.find(NumberBox, "Experts per token", within=dialog).value() == 4
    lost = drive.find(QLabel, "What the form cannot say", within=dialog)
    assert "20.91 B parameters become" in lost.text()
    drive.type(drive.find(NumberBox, "Experts", within=dialog), "128")
    assert not lost.isVisible()
    assert "128 experts" in drive.find(QLabel, "Draft facts", within=dialog).text()


def test_a_form_that_says_all_of_a_model_says_nothing_about_losses(drive, window, qtbot):
    dialog = DimensionsDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    assert not drive.find(QLabel, "What the form cannot say", within=dialog).isVisible()
    assert drive.find(QLabel, "Draft facts", within=dialog).text().startswith("8.03 B parameters")


def choose(drive, combo, text):
    """Type the beginning of a choice, as one does in a list."""
    combo.setFocus()
    drive.qtbot.keyClicks(combo, text)
    assert combo.currentText() == text


def test_a_family_is_chosen_and_the_count_changes_as_one_types(drive, window, qtbot):
    dialog = DimensionsDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    family = drive.find(QComboBox, "Family", within=dialog)
    facts = drive.find(QLabel, "Draft facts", within=dialog)
    assert family.currentText() == "Llama"
    assert facts.text().startswith("8.03 B parameters")
    choose(drive, family, "BERT")
    assert "encoder" in drive.find(QLabel, "What the family is", within=dialog).text()
    assert not drive.find(NumberBox, "Key-value heads", within=dialog).isVisible()
    for name, value in (
        ("Layers", 12),
        ("Hidden size", 768),
        ("Attention heads", 12),
        ("Feed-forward size", 3072),
        ("Vocabulary", 30522),
        ("Longest sequence", 512),
    ):
        drive.type(drive.find(NumberBox, name, within=dialog), str(value))
    # bert-base-uncased with its masked-LM head
    assert facts.text().startswith("109.51 M parameters")
    (use,) = [button for button in dialog.findChildren(QPushButton) if button.text() == "&Use this model"]
    assert use.isEnabled()
    drive.click(use)
    assert drive.scenario.model.dimensions.family == "bert"
    assert json.loads(scenario_to_json(drive.scenario))["model"]["dimensions"]["family"] == "bert"
    assert window.session.state.spec.task == "masked-lm"
    assert not [issue for issue in window.session.state.issues if issue.path.startswith("model")]


def test_a_family_of_experts_opens_the_fields_of_its_experts_and_names_what_is_missing(drive, window, qtbot):
    dialog = DimensionsDialog(window.session, window)
    qtbot.addWidget(dialog)
    dialog.show()
    choose(drive, drive.find(QComboBox, "Family", within=dialog), "DeepSeek V3 (MLA)")
    (use,) = [button for button in dialog.findChildren(QPushButton) if button.text() == "&Use this model"]
    assert not use.isEnabled()
    drive.type(drive.find(NumberBox, "Experts", within=dialog), "64")
    assert use.isEnabled()
    assert "MLA" in drive.find(QLabel, "Draft facts", within=dialog).text()
    assert drive.find(NumberBox, "Latent of keys and values", within=dialog).isVisible()


def test_prediction_layers_of_the_file_are_told_beside_the_parameters(window):
    window.model_panel.picker.chosen.emit("deepseek-ai/DeepSeek-V3")
    facts = window.model_panel.facts.text()
    assert facts.startswith("671.03 B parameters · + 13.46 B in prediction layers · 61 layers")
