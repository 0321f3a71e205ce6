"""Models from the Hub, tried against a server on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

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
        if self.path.startswith("/gated/"):
            self.send_error(401)
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


def test_a_machine_that_is_not_online_is_told_so() -> None:
    with pytest.raises(ModelError, match="online"):
        fetch_model("meta-llama/Llama-3.1-8B", endpoint="http://127.0.0.1:9")
