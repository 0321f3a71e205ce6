"""Models come from files, folders and the Hub, in one step, with what is to be known about them."""

import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtWidgets import QFileDialog, QFrame, QLabel, QLineEdit, QToolButton

from planner.gui.dialogs.hub_dialog import HubDialog
from planner.gui.main_window import dropped_file
from planner.gui.tasks import Task

SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 256,
    "max_position_embeddings": 32768,
}
"""Table 256 × 64, attention 2 × 64 × 64 + 2 × 64 × 32, feed-forward 3 × 64 × 128, three norms: 53 440 parameters."""


@pytest.fixture
def folder(tmp_path):
    """A model's folder whose weights lack the feed-forward."""
    place = tmp_path / "tiny-llama"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(SMALL), encoding="utf-8")
    tensors = {"model.embed_tokens.weight": {"dtype": "BF16", "shape": [256, 64], "data_offsets": [0, 32768]}}
    header = json.dumps(tensors).encode()
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(32768))
    return place


def gguf(path):
    """A GGUF file with the table in 8 bits: 256 × 64 numbers in blocks of 32, each 34 bytes."""

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    numbers = {
        "llama.embedding_length": 64,
        "llama.block_count": 1,
        "llama.feed_forward_length": 128,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.context_length": 32768,
    }
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 1 + len(numbers))
    content += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for key, value in numbers.items():
        content += text(key) + struct.pack("<II", 4, value)
    content += text("token_embd.weight") + struct.pack("<IQQIQ", 2, 64, 256, 8, 0)
    path.write_bytes(content + bytes(-len(content) % 32) + bytes(256 * 64 // 32 * 34))
    return path


def test_a_folder_is_imported_and_its_disagreement_is_shown(drive, window, folder, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_args: str(folder))
    drive.do("import_folder")
    assert window.session.state.plan.model.parameters == 53_440
    assert window.model_panel.picker.text() == "tiny-llama (imported)"
    notice = drive.find(QFrame, "About the imported model")
    assert notice.isVisible()
    assert "37,056 fewer than the 53,440 parameters" in drive.find(QLabel, "Notes about the imported model").text()


def test_notes_go_when_closed_and_with_their_model(drive, window, folder):
    notice = drive.find(QFrame, "About the imported model")
    assert not notice.isVisible()
    window.documents.take(folder)
    drive.click(drive.find(QToolButton, "Close the notes"))
    assert not notice.isVisible()
    drive.do("undo")
    window.documents.take(folder)
    assert notice.isVisible()
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    assert notice.isVisible()
    drive.do("undo")
    drive.do("undo")
    assert not notice.isVisible()


def test_a_model_without_notes_shows_none(drive, window, folder):
    (folder / "model.safetensors").unlink()
    assert window.documents.take(folder)
    assert not drive.find(QFrame, "About the imported model").isVisible()


def test_the_stored_bytes_of_a_gguf_stay_with_the_scenario(drive, window, tmp_path):
    path = gguf(tmp_path / "tiny-Q8_0.gguf")
    assert window.documents.take(path)
    assert window.session.state.spec.quantization.stored_bytes == 17_408
    assert drive.scenario.model.config["quantization_config"]["stored_bytes"] == 17_408


def test_open_takes_a_model_without_asking_about_the_plan(drive, window, tmp_path, monkeypatch):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_args: (str(gguf(tmp_path / "tiny.gguf")), ""))
    window.session.edit(("phases", "training", "micro_batch_size"), 3)
    drive.do("open")
    assert window.model_panel.picker.text() == "tiny (imported)"
    assert drive.scenario.phases.training.micro_batch_size == 3


@pytest.mark.parametrize("name", ["model.gguf", "model.safetensors", "pytorch_model.zip"])
def test_a_file_that_is_no_model_gives_the_products_message(drive, window, tmp_path, answer, name):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04 an archive")
    before, told = drive.scenario, []
    answer(lambda box: (told.append(box.informativeText()), box.accept()))
    assert not window.documents.take(path)
    assert "it is not opened" in told[0]
    assert drive.scenario is before


def test_models_and_folders_may_be_dropped(tmp_path):
    for path in (tmp_path, tmp_path / "a.gguf", tmp_path / "a.safetensors", tmp_path / "config.json"):
        dropped = QMimeData()
        dropped.setUrls([QUrl.fromLocalFile(str(path))])
        assert dropped_file(dropped) == path


class Hub(BaseHTTPRequestHandler):
    """One model, and one whose answer never ends until the test lets it."""

    go_on = threading.Event()

    def do_GET(self):
        if self.path == "/tiny/slow/resolve/main/config.json":
            self.go_on.wait(20)
        elif self.path != "/tiny/llama/resolve/main/config.json":
            self.send_error(404)
            return
        content = json.dumps(SMALL).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments):
        return


@pytest.fixture(scope="module")
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Hub.go_on.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def dialog(window, hub):
    dialog = HubDialog(window, hub)
    dialog.fetched.connect(window.documents.take_opened)
    dialog.show()
    yield dialog
    dialog.reject()
    dialog.deleteLater()


def test_a_model_of_the_hub_is_fetched_by_its_id(dialog, drive, window, qtbot):
    qtbot.keyClicks(drive.find(QLineEdit, "Model id", within=dialog), "tiny/llama")
    with qtbot.waitSignal(dialog.fetched):
        qtbot.keyClick(dialog.model_id, Qt.Key.Key_Return)
    assert not dialog.isVisible()
    assert window.session.state.plan.model.parameters == 53_440
    assert window.model_panel.picker.text() == "tiny/llama (imported)"


def test_an_id_that_is_not_there_is_told_in_the_dialog(dialog, drive, qtbot):
    qtbot.keyClicks(dialog.model_id, "no/such")
    drive.click(dialog.fetch)
    qtbot.waitUntil(lambda: "Check the id" in dialog.message.text())
    assert dialog.isVisible()
    assert dialog.fetch.isEnabled()


def test_fetching_can_be_called_off_while_the_hub_is_silent(dialog, drive, window, qtbot):
    qtbot.keyClicks(dialog.model_id, "tiny/slow")
    drive.click(dialog.fetch)
    assert dialog.bar.isVisible()
    drive.click(dialog.cancel)
    assert dialog.isVisible()
    assert not dialog.bar.isVisible()
    assert dialog.message.text() == "Cancelled."
    Hub.go_on.set()
    drive.click(dialog.cancel)
    assert not dialog.isVisible()
    assert window.session.undo_stack.count() == 0


def test_a_machine_that_is_not_online_is_told_in_one_sentence(window, drive, qtbot):
    dialog = HubDialog(window, "http://127.0.0.1:9")
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.keyClicks(dialog.model_id, "tiny/llama")
    drive.click(dialog.fetch)
    qtbot.waitUntil(lambda: "Is this machine online?" in dialog.message.text())


def test_an_unforeseen_error_in_a_task_reaches_the_windows_thread(qapp, qtbot):
    def work(_progress, _cancelled):
        raise ZeroDivisionError

    task = Task(work, qapp)
    failed = []
    task.failed.connect(failed.append)
    with qtbot.captureExceptions() as errors:
        task.start()
        qtbot.waitUntil(lambda: bool(failed))
        qtbot.wait(10)
    assert errors[0][0] is ZeroDivisionError
    task.deleteLater()
