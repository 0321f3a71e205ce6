"""Records one step: training, evaluation, prefill or decoding."""

from planner.engine.activations.autograd import run_backward
from planner.engine.activations.decoder import head_logits, loss_forward, make_decoder, run_model
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
    t.moment = "start_of_step"
    t.tick("start of step")
    t.moment = "forward"
    hidden_states = run_model(t, recipe, model, ids)
    logits = head_logits(t, recipe, model, hidden_states)
    loss = loss_forward(t, recipe, logits, labels)
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


def _batch(t: Tape, name: str) -> Tensor:
    return t.new(("batch", "sequence"), "int64", name)
