"""One training step of a denoiser, as the training scripts of diffusers write it.

Images become latents and prompts become embeddings by frozen encoders, or were encoded ahead; noise is added, the
denoiser predicts it, and the loss is the mean of the squared error in fp32.
Source: diffusers 0.42, `examples/text_to_image/train_text_to_image.py`, whose other scripts follow it. What text
encoders work with for a prompt's few tokens is not counted; it is gone before the denoiser runs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from planner.engine.activations import ops
from planner.engine.activations.autoencoder import COLOURS, IMAGE, EncoderWeights, encode
from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.activations.weight_book import Place, WeightBook

SCRIPT = "diffusers 0.42, examples/text_to_image/train_text_to_image.py"
PROMPT = "prompt tokens"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a denoiser reads beside the noisy latents: tensors by name."""

    latents: Dims
    embeddings: Dims
    others: tuple[tuple[str, Dims], ...] = ()
    packed: Dims | None = None
    """The shape in which the denoiser reads the latents, where the script packs them into tokens."""


Predict = Callable[[Tape, Tensor, Tensor, dict[str, Tensor]], Tensor]
"""(tape, noisy latents, embeddings, other conditions) -> prediction, of the latents' size."""


@dataclass(slots=True)
class Denoiser:
    """The weights of a recorded denoiser, and its step."""

    recipe: Recipe
    book: WeightBook
    conditions: Conditions
    encoder: EncoderWeights | None
    """What makes latents of images within the step."""
    predict: Predict
    flows: bool = False
    """It predicts the way from the image to the noise (flow matching), and the script writes its loss in Python."""

    def inputs(self, t: Tape) -> dict[str, Tensor]:
        """The loader's batch: images and prompts, or what was made of them ahead."""
        held: dict[str, Tensor] = {}
        if self.encoder is not None:
            held["pixels"] = t.new(("batch", COLOURS, IMAGE), "fp32", "images")
        else:
            held["latents"] = t.new(self.conditions.latents, _compute_dtype(self.recipe), "latents")
        if self.recipe.techniques.encoded_ahead in ("text", "everything"):
            held["embeddings"] = self._embeddings(t)
        else:
            held["prompts"] = t.new(("batch", PROMPT), "int64", "prompts")
        return held

    def train(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        with t.module("step", SCRIPT):
            return self._step(t, inputs)

    def infer(self, t: Tape, inputs: dict[str, Tensor]) -> object:
        return self._step(t, inputs)

    def weights(self) -> Iterable[Place]:
        return self.book.places

    def _embeddings(self, t: Tape) -> Tensor:
        return t.new(self.conditions.embeddings, _compute_dtype(self.recipe), "embeddings of prompts")

    def _step(self, t: Tape, inputs: dict[str, Tensor]) -> tuple[Tensor, object]:
        """Everything that the script names stays until its next step: it is returned beside the loss."""
        t.autocast = None
        dtype = _compute_dtype(self.recipe)
        latents = encode(t, self.encoder, inputs["pixels"]) if self.encoder is not None else inputs["latents"].handle()
        latents = ops.to(t, latents, dtype, "latents in the denoiser's type")
        embeddings = inputs["embeddings"] if "embeddings" in inputs else self._embeddings(t)
        others = {name: t.new(dims, dtype, name) for name, dims in self.conditions.others}
        noise = t.new(latents.dims, latents.dtype, "noise")
        t.tick("noise")
        noisy = ops.add(
            t, ops.elementwise(t, latents, "share of latents"), ops.elementwise(t, noise, "share of noise"), "noisy"
        )
        packed = self.conditions.packed
        read = noisy if packed is None else ops.contiguous(t, noisy, *packed, label="packed latents")
        t.autocast = self.recipe.autocast
        predicted = ops.view(t, self.predict(t, read, embeddings, others), *noisy.dims)
        t.autocast = None
        t.weight_copies.clear()
        if self.recipe.autocast is not None:
            predicted = ops.to(t, predicted, "fp32", "prediction in fp32")
        if self.flows:
            weighting = t.new(("batch",), latents.dtype, "weights of the loss")
            target = ops.add(t, noise, latents, "noise less latents")
            loss = _weighted_loss(t, predicted, target, weighting)
            return loss, (latents, embeddings, others, noise, noisy, read, predicted, target, weighting)
        with t.module("loss"):
            target = ops.to(t, noise, "fp32", "target in fp32")
            loss = mean_squared_error(t, ops.to(t, predicted, "fp32", "prediction in fp32"), target)
        return loss, (latents, embeddings, others, noise, noisy, predicted)


def _compute_dtype(recipe: Recipe) -> str:
    """The type of frozen encoders and of what they make (`weight_dtype` in the scripts)."""
    return recipe.autocast or recipe.weight_dtype


def _weighted_loss(t: Tape, predicted: Tensor, target: Tensor, weighting: Tensor) -> Tensor:
    """The mean of `weighting.float() * (predicted.float() - target.float()) ** 2`, of each sample and of all."""
    with t.module("loss"):
        loss = ops.mean(
            t,
            ops.mul(
                t,
                ops.to(t, weighting, "fp32"),
                ops.square(t, ops.add(t, ops.to(t, predicted, "fp32"), ops.to(t, target, "fp32"), "error")),
                "weighted squares",
            ),
            2,
        )
        return ops.mean(t, ops.view(t, loss, "batch"))


def mean_squared_error(t: Tape, predicted: Tensor, target: Tensor) -> Tensor:
    """`F.mse_loss`: keeps both."""
    loss = t.new((), "fp32", "loss")
    t.tick("mse loss")

    def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
        gradient = t.new(saved[0].dims, saved[0].dtype, "gradient of prediction")
        t.tick("mse loss backward")
        return [gradient, None]

    record(t, "mse loss", [predicted, target], [loss], backward, [predicted, target])
    return loss
