"""Records one step: training, evaluation, prefill or decoding."""

from planner.engine.activations.autograd import run_backward
from planner.engine.activations.blocks import Linear
from planner.engine.activations.decoder import Decoder, head_logits, make_decoder, run_model
from planner.engine.activations.loss import chunked_loss, fused_cross_entropy, fused_linear_loss, loss_forward
from planner.engine.activations.recipe import Recipe
from planner.engine.activations.tape import Tape, Tensor


def record_step(recipe: Recipe) -> Tape:
    """The recording of one step of the kind `recipe` describes."""
    return record_training(recipe) if recipe.training else record_inference(recipe)


def record_training(recipe: Recipe) -> Tape:
    """Forward, loss and backward as a trainer runs them: outputs are dropped before backward unless kept."""
    t = Tape(autocast=recipe.autocast, autocast_of_forward=recipe.autocast)
    model = make_decoder(t, recipe)
    ids, labels = _batch(t, "input ids"), _batch(t, "labels")
    if recipe.gradients_from_start == "step":
        _make_gradients(t, recipe, model)
    t.moment = "start_of_step"
    t.tick("start of step")
    if recipe.gradients_from_start == "accumulation":
        _make_gradients(t, recipe, model)
    t.moment = "forward"
    hidden_states = run_model(t, recipe, model, ids)
    loss, logits = _loss(t, recipe, model, hidden_states, labels)
    kept = logits if recipe.keeps_outputs else None
    del logits, hidden_states
    for layer in model.layers:
        if layer.cache is not None and not recipe.keeps_outputs:
            layer.cache = None
    t.autocast = None
    t.weight_copies.clear()
    t.moment = "end_of_forward"
    t.tick("end of forward")
    t.moment = "backward"
    t.in_backward = True
    gradient = t.new((), loss.dtype, "gradient of loss")
    t.tick("gradient of loss")
    run_backward(t, loss.node, loss.output_index, gradient)
    del loss, gradient, kept
    t.in_backward = False
    t.moment = "optimizer_step"
    t.tick("optimizer step")
    return t


def _loss(
    t: Tape, recipe: Recipe, model: Decoder, hidden_states: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor | None]:
    """The loss, and the logits where they are all made."""
    if recipe.loss == "fused_linear":
        return fused_linear_loss(t, model.head, hidden_states), None
    if recipe.loss == "chunked":
        return chunked_loss(t, model.head, hidden_states), None
    logits = head_logits(t, recipe, model, hidden_states)
    if recipe.loss == "fused_cross_entropy":
        return fused_cross_entropy(t, logits), logits
    return loss_forward(t, recipe, logits, labels), logits


def record_inference(recipe: Recipe) -> Tape:
    """A forward pass without gradients."""
    t = Tape(grad_enabled=False, autocast=recipe.autocast, autocast_of_forward=recipe.autocast)
    model = make_decoder(t, recipe)
    ids = _batch(t, "input ids")
    generated = t.new(("batch", "context"), "int64", "ids of the context") if recipe.cache_filled else None
    labels = _batch(t, "labels") if recipe.loss != "none" else None
    t.moment = "forward"
    hidden_states = run_model(t, recipe, model, ids)
    logits = head_logits(t, recipe, model, hidden_states)
    loss = loss_forward(t, recipe, logits, labels) if labels is not None else None
    t.tick("end of forward")
    del hidden_states, logits, loss, generated
    return t


def _make_gradients(t: Tape, recipe: Recipe, model: Decoder) -> None:
    """Gradients that backward will add to instead of making its own."""
    places = [("", "embed_tokens", model.embedding), ("", "norm", model.norm), *_linear_places("", model.head)]
    for layer in model.layers:
        for role, each in layer.weights.linears.items():
            places += [(layer.slot, name, weight) for _, name, weight in _linear_places(role, each)]
        places += [(layer.slot, f"{name} norm", weight) for name, weight in layer.weights.norms.items()]
    for slot, name, weight in places:
        if weight.requires_grad and weight.grad is None:
            with t.layer(slot), t.module(name):
                dtype = recipe.gradient_dtype if recipe.lora is None else weight.dtype
                weight.grad = t.new(weight.dims, dtype, "accumulated gradient", "gradient")


def _linear_places(role: str, layer: Linear) -> list[tuple[str, str, Tensor]]:
    name = role or layer.role
    tensors = [layer.weight, *([layer.bias] if layer.bias is not None else []), *(layer.adapter or ())]
    return [("", name, tensor) for tensor in tensors]


def _batch(t: Tape, name: str) -> Tensor:
    return t.new(("batch", "sequence"), "int64", name)
