"""Models from the Hub, tried against a server on this machine."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.client import IncompleteRead
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import URLError

import pytest

import planner.model.hub as hub_module
from planner.errors import ModelError
from planner.model.counts import parameters
from planner.model.hub import FetchCancelledError, fetch_model
from planner.model.presets import load_presets

LLAMA = dict(load_presets()["meta-llama/Llama-3.1-8B"].config)
DIFFUSION = load_presets()["runwayml/stable-diffusion-v1-5"].config
FILES: dict[str, Any] = {
    "/meta-llama/Llama-3.1-8B/resolve/main/config.json": LLAMA,
    "/some/pipeline/resolve/main/model_index.json": {
        "_class_name": "StableDiffusionPipeline",
        "scheduler": ["diffusers", "PNDMScheduler"],
        **{name: ["diffusers", "Model"] for name in DIFFUSION["components"]},
    },
    **{f"/some/pipeline/resolve/main/{name}/config.json": config for name, config in DIFFUSION["components"].items()},
}


class _Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"gated": 401, "forbidden": 403, "crowded": 429, "teapot": 418, "faulty": 503, "captive": 511}
        place = self.path.split("/")[1]
        if place in answers:
            self.send_response(answers[place])
            self.send_header("Retry-After", "37")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif place == "slow":
            time.sleep(1.0)
        elif place == "torn":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
        elif place == "huge":
            self._answer(b" " * (hub_module.MAX_CONFIG_BYTES + 1))
        elif self.path.startswith("/broken/"):
            self._answer(b"\x00\x01 no JSON")
        elif self.path in FILES:
            self._answer(json.dumps(FILES[self.path]).encode())
        else:
            self.send_error(404)

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_model_is_read_from_its_configuration(hub: str) -> None:
    told: list[tuple[int, int | None]] = []
    opened = fetch_model(
        "meta-llama/Llama-3.1-8B", endpoint=hub, progress=lambda read, total: told.append((read, total))
    )
    assert parameters(opened.spec) == 8_030_261_248
    assert opened.source == {"config": LLAMA}
    assert told[-1][0] == told[-1][1]


def test_a_pipeline_is_read_from_its_components(hub: str) -> None:
    assert parameters(fetch_model("some/pipeline", endpoint=hub).spec) == 1_066_235_307


def test_it_can_be_called_off(hub: str) -> None:
    with pytest.raises(FetchCancelledError):
        fetch_model("meta-llama/Llama-3.1-8B", endpoint=hub, cancelled=lambda: True)


@pytest.mark.parametrize(
    ("model_id", "message"),
    [
        ("no/such-model", "Check the id"),
        ("gated/model", "licence"),
        ("broken/model", "config.json of broken/model"),
        ("../../etc/passwd", "no model id"),
        ("", "no model id"),
        ("a/b/c", "no model id"),
    ],
)
def test_what_goes_wrong_is_said_clearly(hub: str, model_id: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fetch_model(model_id, endpoint=hub)


@pytest.mark.parametrize(
    ("model_id", "message"),
    [
        ("gated/model", "Accept its licence there, log in"),
        ("forbidden/model", "Accept its licence there, log in"),
        ("crowded/model", "asked too often from this address. Try again in 37 seconds"),
        ("teapot/model", r"does not understand the question for teapot/model \(418\). Check the id"),
        ("faulty/model", r"fault of its own at the moment \(503\). Try again later"),
        ("captive/model", "asks for a log-in of its own"),
        ("torn/model", "broke off|no valid JSON"),
        ("huge/model", "larger than any configuration"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(hub: str, model_id: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        fetch_model(model_id, endpoint=hub)


def test_a_hub_that_does_not_answer_is_given_up(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(ModelError, match=r"did not answer within 0\.2 seconds. Try again on a better connection"):
        fetch_model("slow/model", endpoint=hub)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            URLError(socket.gaierror(-2, "Name or service not known")),
            "seems to be offline. Connect it, or",
        ),
        (URLError(ConnectionRefusedError(111, "Connection refused")), "refuses the connection. Is this machine online"),
        (URLError(OSError(101, "Network is unreachable")), "cannot be reached. Is this machine online"),
        (URLError(ssl.SSLCertVerificationError(1, "certificate verify failed")), "company's proxy"),
        (ConnectionResetError(104, "Connection reset by peer"), "broke off. Try again, or"),
        (IncompleteRead(b""), "broke off. Try again, or"),
    ],
)
def test_no_connection_is_told_in_words_of_people(
    problem: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(hub_module.urllib.request, "urlopen", fail)
    with pytest.raises(ModelError, match=message) as told:
        fetch_model("meta-llama/Llama-3.1-8B", endpoint="https://huggingface.co")
    assert "Errno" not in str(told.value)
    assert "open that file" in str(told.value)


def test_a_machine_that_is_not_online_is_told_so_without_numbers() -> None:
    with pytest.raises(ModelError, match="refuses the connection") as told:
        fetch_model("meta-llama/Llama-3.1-8B", endpoint="http://127.0.0.1:9")
    assert "Errno" not in str(told.value)
