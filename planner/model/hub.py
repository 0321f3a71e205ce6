"""A model's configuration from the Hugging Face Hub, when the machine is online. Weights are never downloaded.

With `huggingface_hub` installed (the extra `hub`), its end point and the token of a logged-in person are used, which
gated models need; without it, public models are read from the usual address.
"""

import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from http.client import HTTPException
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from planner.errors import ModelError
from planner.model.files.bounded import MAX_CONFIG_BYTES, parse_object
from planner.model.files.folder import CONFIG, PIPELINE, is_component
from planner.model.files.opened import OpenedModel, from_config

ENDPOINT = "https://huggingface.co"
TIMEOUT_SECONDS = 20
_CHUNK_BYTES = 64 * 1024
_MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?\Z")
_REVISION = re.compile(r"[\w.-]{1,100}\Z")
Progress = Callable[[int, int | None], None]
"""Told the bytes read of a file, and its size if known."""


class FetchCancelledError(ModelError):
    """The person called it off."""


def _no_progress(_read: int, _total: int | None) -> None:
    return


def _never() -> bool:
    return False


def fetch_model(
    model_id: str,
    *,
    revision: str = "main",
    endpoint: str | None = None,
    progress: Progress = _no_progress,
    cancelled: Callable[[], bool] = _never,
) -> OpenedModel:
    """The model of that id, such as `Qwen/Qwen3-8B`, from its `config.json`, or a pipeline from its components.

    Blocks while it reads: call it from a worker. `cancelled` is asked between chunks. Raises `ModelError`.
    """
    if not _MODEL_ID.match(model_id) or ".." in model_id:
        raise ModelError(f"“{model_id[:80]}” is no model id; one looks like “Qwen/Qwen3-8B”.")
    if not _REVISION.match(revision):
        raise ModelError(f"“{revision[:80]}” is no revision; one is a branch such as “main”, a tag or a commit.")
    base, headers = _access(endpoint)
    where = f"{base}/{model_id}/resolve/{revision}"

    def get(name: str) -> dict[str, Any] | None:
        content = _download(f"{where}/{name}", headers, progress, cancelled, model_id)
        return None if content is None else parse_object(content, f"{name} of {model_id}")

    config = get(CONFIG)
    if config is None:
        config = _pipeline(get, model_id)
    opened = from_config(config, model_id, f"{CONFIG} of {model_id}")
    return replace(opened, source={"config": json.loads(json.dumps(config))})


def _pipeline(get: Callable[[str], dict[str, Any] | None], model_id: str) -> dict[str, Any]:
    index = get(PIPELINE)
    if index is None:
        raise ModelError(f"The Hub has no model “{model_id}” with a {CONFIG} or a {PIPELINE}. Check the id.")
    components: dict[str, Any] = {}
    for name, value in index.items():
        if is_component(name, value):
            part = get(str(PurePosixPath(name, CONFIG)))
            if part is None:
                raise ModelError(f"{model_id}: the component “{name}” has no {CONFIG}.")
            components[name] = part
    return {"_class_name": index.get("_class_name", "DiffusionPipeline"), "components": components}


def _access(endpoint: str | None) -> tuple[str, dict[str, str]]:
    """Where the Hub is, and what identifies a person who has logged in."""
    headers = {"User-Agent": "vram-planner"}
    try:
        constants = import_module("huggingface_hub.constants")
        build_headers = import_module("huggingface_hub.utils").build_hf_headers
    except (ImportError, AttributeError):
        return (endpoint or ENDPOINT).rstrip("/"), headers
    base = endpoint or str(constants.ENDPOINT)
    own = endpoint is None or base.rstrip("/") == str(constants.ENDPOINT).rstrip("/")
    # A token goes only to the Hub itself, never to another address.
    return base.rstrip("/"), {**headers, **(build_headers() if own else {})}


def _download(
    url: str, headers: dict[str, str], progress: Progress, cancelled: Callable[[], bool], model_id: str
) -> bytes | None:
    """The content of a small file; None where there is no such file."""
    if not url.startswith(("https://", "http://")):
        raise ModelError(f"{url[:80]} is no web address.")
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
            stated = answer.headers.get("Content-Length", "")
            return _read(answer, int(stated) if stated.isdigit() else None, progress, cancelled, url)
    except urllib.error.HTTPError as problem:
        problem.close()
        if problem.code == 404:
            return None
        raise ModelError(_refusal(problem.code, model_id, problem.headers.get("Retry-After"))) from None
    except (urllib.error.URLError, OSError, HTTPException, ValueError) as problem:
        raise ModelError(_unreachable(getattr(problem, "reason", problem), url)) from None


def _refusal(code: int, model_id: str, wait: str | None) -> str:
    """Why the Hub gives no answer, and what to do about it."""
    if code in (401, 403):
        return (
            f"The Hub does not give {model_id} to everyone. Accept its licence there, log in with "
            "“huggingface-cli login” and install “vram-planner[hub]”; a mistyped id looks the same."
        )
    if code == 429:
        after = f"in {wait} seconds" if wait and wait.isdigit() else "in a few minutes"
        return f"The Hub is asked too often from this address. Try again {after}; a log-in raises the limit."
    if code in (407, 511):
        return "The network asks for a log-in of its own before it lets anything through. Open any page in a browser."
    if code >= 500:
        return f"The Hub has a fault of its own at the moment ({code}). Try again later, or open a file instead."
    return f"The Hub does not understand the question for {model_id} ({code}). Check the id and the revision."


def _unreachable(reason: object, url: str) -> str:
    """Why no connection came about, in words of people."""
    host = urlsplit(url).hostname or url
    instead = "or download its config.json elsewhere and open that file"
    if isinstance(reason, socket.gaierror):
        return f"The address {host} is not found: this machine seems to be offline. Connect it, {instead}."
    if isinstance(reason, TimeoutError):
        return f"{host} did not answer within {TIMEOUT_SECONDS} seconds. Try again on a better connection, {instead}."
    if isinstance(reason, ssl.SSLError):
        return (
            f"{host} cannot prove who it is, as behind a company's proxy whose certificate is not trusted here. "
            f"Ask who runs the network, {instead}."
        )
    if isinstance(reason, ConnectionRefusedError):
        return f"{host} refuses the connection. Is this machine online? Check its network and proxy, {instead}."
    if isinstance(reason, ConnectionError | HTTPException):
        return f"The connection to {host} broke off. Try again, {instead}."
    return f"{host} cannot be reached. Is this machine online? Connect it, {instead}."


def _read(answer: Any, total: int | None, progress: Progress, cancelled: Callable[[], bool], url: str) -> bytes:
    content = bytearray()
    while True:
        if cancelled():
            raise FetchCancelledError("Fetching the model was cancelled.")
        chunk = answer.read(_CHUNK_BYTES)
        if not chunk:
            return bytes(content)
        content += chunk
        if len(content) > MAX_CONFIG_BYTES:
            raise ModelError(f"{url} is larger than any configuration.")
        progress(len(content), total)
