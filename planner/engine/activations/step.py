"""Records one step: training, or a forward pass without gradients."""

from planner.engine.activations.autograd import run_backward
from planner.engine.activations.fully_shard import FullyShard
from planner.engine.activations.recipe import Model, Recipe
from planner.engine.activations.stage_cut import cut
from planner.engine.activations.tape import Tape, Tensor
from planner.engine.activations.techniques import Techniques

TABLE_ROWS = (("table rows",), ("whole table rows",))
"""First dimensions of token tables, and of heads."""
HEAD = "lm_head"
"""The head where it has a weight of its own; one that shares the table is told as the table."""


def record_step(recipe: Recipe) -> Tape:
    """The recording of one step of the kind `recipe` describes."""
    return cut(_training(recipe), recipe.ends) if recipe.training else _inference(recipe)


def _training(recipe: Recipe) -> Tape:
    """Forward, loss and backward as a trainer runs them: outputs are dropped before backward unless kept."""
    t = Tape(autocast=recipe.autocast, autocast_of_forward=recipe.autocast, techniques=recipe.techniques)
    model = recipe.body.build(t, recipe)
    _freeze(model, recipe.techniques)
    sharding = None if recipe.sharding is None else FullyShard.of(recipe.sharding, model)
    if recipe.gradients_from_start == "step":
        _make_gradients(t, recipe, model, sharding)
    inputs = model.inputs(t)
    t.layer_hooks = None if sharding is None else sharding.units
    left_over = [] if sharding is None else sharding.left_over_gradients(t)
    t.moment = "start_of_step"
    t.tick("start of step")
    t.moment = "forward"
    t.tick("start of forward")
    left_over.clear()
    if recipe.gradients_from_start == "accumulation":
        _make_gradients(t, recipe, model, sharding)
    t.moment = "forward"
    if sharding is not None:
        sharding.before_model(t)
    loss, kept = model.train(t, inputs)
    t.held.clear()
    if sharding is not None:
        loss = sharding.after_model(t, loss)
    t.autocast = None
    t.weight_copies.clear()
    t.moment = "end_of_forward"
    t.tick("end of forward")
    t.moment = "backward"
    t.in_backward = True
    gradient = t.new((), loss.dtype, "gradient of loss")
    t.tick("gradient of loss")
    if loss.requires_grad:
        run_backward(t, loss.node, loss.output_index, gradient)
    if sharding is not None:
        sharding.after_backward(t)
    del loss, gradient, kept
    t.in_backward = False
    t.moment = "optimizer_step"
    t.tick("optimizer step")
    return t


def _inference(recipe: Recipe) -> Tape:
    t = Tape(grad_enabled=False, autocast=recipe.autocast, autocast_of_forward=recipe.autocast)
    model = recipe.body.build(t, recipe)
    inputs = model.inputs(t)
    t.moment = "forward"
    outputs = model.infer(t, inputs)
    t.tick("end of forward")
    del outputs, inputs
    return t


def _freeze(model: Model, techniques: Techniques) -> None:
    """Takes the gradient from parts of the model that are not trained."""
    frozen: list[Tensor] = []
    if techniques.frozen_table:
        named = ((name, weight) for _, name, weight in model.weights() if name != HEAD)
        frozen += [weight for _, weight in named if weight.dims[:1] in TABLE_ROWS]
    if techniques.frozen_images:
        frozen += getattr(model, "image_weights", list)()
    for weight in frozen:
        weight.node = None


def _make_gradients(t: Tape, recipe: Recipe, model: Model, sharding: FullyShard | None) -> None:
    """Gradients that backward will add to instead of making its own."""
    if sharding is not None:
        if recipe.sharding is not None and recipe.sharding.waits:
            sharding.make_whole_gradients(t)
        else:
            sharding.make_earlier_gradients(t)
        return
    for slot, name, weight in model.weights():
        if weight.requires_grad and weight.grad is None:
            with t.layer(slot), t.module(name):
                dtype = recipe.gradient_dtype if recipe.lora is None else weight.dtype
                weight.grad = t.new(weight.dims, dtype, "accumulated gradient", "gradient")
