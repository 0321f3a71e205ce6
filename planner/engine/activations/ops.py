"""PyTorch's operators on symbolic tensors: what each allocates, saves for backward and makes in backward.

Source: torch 2.13, `tools/autograd/derivatives.yaml` and `torch/csrc/autograd/FunctionsManual.cpp`, whose formulas
the `_backward` functions follow temporary by temporary.
"""

from collections.abc import Sequence

from planner.engine.activations.autograd import Backward, Gradients, record
from planner.engine.activations.tape import Dim, Dims, Tape, Tensor

Saved = Sequence[Tensor]
Needs = Sequence[bool]


def _only(gradients: Gradients) -> Tensor:
    gradient = gradients[0]
    assert gradient is not None
    return gradient


def _make(t: Tape, like: Tensor | Dims, dtype: str, label: str) -> Tensor:
    out = t.new(like.dims if isinstance(like, Tensor) else like, dtype, label)
    t.tick(label)
    return out


def _once(t: Tape, operator: str, dims: Dims, dtype: str, label: str) -> Tensor:
    """The output of a product, which a checkpointed region may keep instead of making it again."""
    if t.frame is None:
        return _make(t, dims, dtype, label)
    return t.frame.once(t, operator, lambda: (_make(t, dims, dtype, label),))[0]


def pass_on(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    return [_only(gradients).handle() if need else None for need in needs]


def view(t: Tape, x: Tensor, *dims: Dim) -> Tensor:
    """Another shape of the same memory: view, transpose, expand, slice of a whole."""
    out = x.handle(dims or None, view=True)
    record(t, "view", [x], [out], _view_backward)
    return out


def _view_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    return [_only(gradients).handle(view=True)]


def contiguous(t: Tape, x: Tensor, *dims: Dim, label: str = "contiguous copy") -> Tensor:
    """A copy in another layout (`clone`); its gradient passes through unchanged."""
    out = _make(t, dims or x.dims, x.dtype, label)
    record(t, "clone", [x], [out], pass_on)
    return out


def to(t: Tape, x: Tensor, dtype: str, label: str = "") -> Tensor:
    """`x` in another dtype: itself where it already has it, else a copy."""
    if x.dtype == dtype:
        return x
    out = _make(t, x, dtype, label or f"{dtype} copy")
    record(t, "to", [x], [out], pass_on)
    return out


def add(t: Tape, a: Tensor, b: Tensor, label: str = "sum") -> Tensor:
    out = _make(t, a if len(a.dims) >= len(b.dims) else b, wider(a.dtype, b.dtype), label)
    record(t, "add", [a, b], [out], pass_on)
    return out


def wider(one: str, other: str) -> str:
    return "fp32" if "fp32" in (one, other) else one


def elementwise(t: Tape, x: Tensor, label: str) -> Tensor:
    """An operator that keeps nothing and makes one tensor in backward (scaling, negation)."""
    out = _make(t, x, x.dtype, label)
    record(t, label, [x], [out], _elementwise_backward)
    return out


def elementwise_in_place(t: Tape, x: Tensor, label: str) -> Tensor:
    """The same, written over its input."""
    out = x.handle()
    t.tick(label)
    record(t, label, [x], [out], _elementwise_backward)
    return out


def _elementwise_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = _only(gradients)
    return [_make(t, gradient, gradient.dtype, "gradient")]


def shift(t: Tape, x: Tensor, label: str) -> Tensor:
    """Addition of a constant: nothing is kept, the gradient passes through."""
    out = _make(t, x, x.dtype, label)
    record(t, label, [x], [out], pass_on)
    return out


def mul(t: Tape, a: Tensor, b: Tensor, label: str = "product") -> Tensor:
    """Keeps each factor that the other one's gradient needs."""
    out = _make(t, a if len(a.dims) >= len(b.dims) else b, wider(a.dtype, b.dtype), label)
    keep = ([a] if b.requires_grad else []) + ([b] if a.requires_grad else [])
    record(t, "mul", [a, b], [out], _mul_backward, keep)
    return out


def _mul_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = _only(gradients)
    dtype = wider(gradient.dtype, saved[0].dtype)
    return [_make(t, gradient, dtype, "gradient of product") if need else None for need in needs]


def square(t: Tape, x: Tensor) -> Tensor:
    """`x.pow(2)`; backward is `grad * (2 * x.pow(1))`, three tensors at once."""
    out = _make(t, x, x.dtype, "square")
    record(t, "pow", [x], [out], _square_backward, [x])
    return out


def _square_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    x = saved[0]
    power = _make(t, x, x.dtype, "x ** 1")
    scaled = _make(t, x, x.dtype, "2 * x")
    gradient = _make(t, x, x.dtype, "gradient of square")
    del power, scaled
    return [gradient]


def mean(t: Tape, x: Tensor, over: int = 1) -> Tensor:
    """Mean over the last dimension or more of them, kept as 1; backward spreads it out again."""
    out = _make(t, (*x.dims[:-over], *(1,) * over), x.dtype, "mean")
    record(t, "mean", [x], [out], _spread(x.dims))
    return out


def _spread(dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_make(t, dims, _only(gradients).dtype, "gradient of mean")]

    return backward


def rsqrt(t: Tape, x: Tensor) -> Tensor:
    out = _make(t, x, x.dtype, "rsqrt")
    record(t, "rsqrt", [x], [out], _rsqrt_backward, [out])
    return out


def _rsqrt_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = _only(gradients)
    scaled = _make(t, gradient, gradient.dtype, "-0.5 * grad")
    cube = _make(t, gradient, gradient.dtype, "rsqrt ** 3")
    out = _make(t, gradient, gradient.dtype, "gradient of rsqrt")
    del scaled, cube
    return [out]


def activation(t: Tape, x: Tensor, name: str) -> Tensor:
    """SiLU, GELU: keep the input. ReLU keeps the output."""
    out = _make(t, x, x.dtype, name)
    record(t, name, [x], [out], _activation_backward, [out if name == "relu" else x])
    return out


def _activation_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    gradient = _only(gradients)
    return [_make(t, gradient, gradient.dtype, "gradient of activation")]


def dropout(t: Tape, x: Tensor) -> Tensor:
    """`native_dropout`: output and a one-byte mask, of which the mask is kept."""
    out = t.new(x.dims, x.dtype, "dropped")
    mask = t.new(x.dims, "bool", "dropout mask")
    t.tick("dropout")
    record(t, "dropout", [x], [out], _elementwise_backward, [mask])
    return out


def softmax(t: Tape, x: Tensor, dtype: str = "fp32") -> Tensor:
    """Softmax over the last dimension in `dtype`; keeps its output."""
    out = _make(t, x, dtype, "softmax")
    record(t, "softmax", [x], [out], _softmax_backward, [out])
    return out


def _softmax_backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
    return [_make(t, saved[0], _only(gradients).dtype, "gradient of softmax")]


def cat_halves(t: Tape, x: Tensor, half: Dim) -> Tensor:
    """`rotate_half`: `cat((-x[d/2:], x[:d/2]))`. Backward gives zeros of the whole for each slice."""
    first = _slice(t, x, half)
    second = _slice(t, x, half)
    return _cat(t, elementwise(t, second, "negative half"), first, x.dims)


def _slice(t: Tape, x: Tensor, half: Dim) -> Tensor:
    out = x.handle((*x.dims[:-1], half), view=True)
    record(t, "slice", [x], [out], _slice_backward(x.dims))
    return out


def _slice_backward(dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_make(t, dims, _only(gradients).dtype, "gradient of slice")]

    return backward


def _cat(t: Tape, a: Tensor, b: Tensor, dims: Dims) -> Tensor:
    out = _make(t, dims, a.dtype, "rotated half")

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = _only(gradients)
        return [gradient.handle((*dims[:-1], a_half), view=True) if need else None for need in needs]

    a_half = a.dims[-1]
    record(t, "cat", [a, b], [out], backward)
    return out


def matmul(t: Tape, a: Tensor, b: Tensor, dims: Dims, label: str) -> Tensor:
    """A product of two activations or of an activation and a weight; keeps what either gradient needs."""
    made_of_weight = b.storage.tape is None or b.storage.record.kind == "weight copy"
    out = _once(t, "mm" if made_of_weight else "bmm", dims, a.dtype, label)
    keep = ([a] if b.requires_grad else []) + ([b] if a.requires_grad else [])
    record(t, "mm", [a, b], [out], _matmul_backward(a.dims, b.dims), keep)
    return out


def _matmul_backward(a_dims: Dims, b_dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = _only(gradients)
        first = _make(t, a_dims, gradient.dtype, "gradient of input") if needs[0] else None
        second = _make(t, b_dims, gradient.dtype, "gradient of weight") if needs[1] else None
        return [first, second]

    return backward


def embedding(t: Tape, weight: Tensor, dims: Dims, indices: Tensor) -> Tensor:
    """Rows of the table; its gradient is dense, the size of the whole table."""
    prompted = t.techniques.virtual_tokens == "prompt" and weight.dims[0] == "table rows"
    own: Dims = tuple("sequence behind the prompt" if prompted and dim == "sequence" else dim for dim in dims)
    out = _make(t, own, weight.dtype, "embedding")
    record(t, "embedding", [weight], [out], _table_backward(weight.dims), [indices])
    return _behind_prompt(t, out, dims) if prompted else out


def _behind_prompt(t: Tape, embedded: Tensor, dims: Dims) -> Tensor:
    """Prompt tuning: the sequence, which counts them, behind trained tokens (peft 0.21, `peft_model.py`).

    What checkpointing makes require a gradient is what the token table gives, before both are joined.
    """
    if t.techniques.embedding_gradient and not embedded.requires_grad:
        embedded = t.leaf(embedded)
    prompt = t.trained("prompt", ("virtual tokens", embedded.dims[-1]), "fp32")
    joined = _make(t, dims, embedded.dtype, "prompt and sequence")
    record(t, "cat", [prompt, embedded], [joined], _prompt_backward(embedded.dims))
    return joined


def _prompt_backward(embedded: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        gradient = _only(gradients)
        own = gradient.handle((gradient.dims[0], "virtual tokens", gradient.dims[-1]), view=True)
        return [own, gradient.handle(embedded, view=True) if needs[1] else None]

    return backward


def _table_backward(dims: Dims) -> Backward:
    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_make(t, dims, _only(gradients).dtype, "gradient of table")]

    return backward


def addmm(t: Tape, bias: Tensor, a: Tensor, b: Tensor, dims: Dims, label: str) -> Tensor:
    """`bias + a @ b`; the bias's gradient is the incoming one, which the engine then sums."""
    out = _once(t, "addmm", dims, a.dtype, label)
    keep = ([a] if b.requires_grad else []) + ([b] if a.requires_grad else [])
    products = _matmul_backward(a.dims, b.dims)

    def backward(t: Tape, gradients: Gradients, saved: Saved, needs: Needs) -> Gradients:
        return [_only(gradients).handle() if needs[0] else None, *products(t, gradients, saved, needs[1:])]

    record(t, "addmm", [bias, a, b], [out], backward, keep)
    return out


def record_cast(t: Tape, source: Tensor, copy: Tensor) -> None:
    """Makes `copy`, a cast made elsewhere, differentiable in `source`."""
    record(t, "to", [source], [copy], pass_on)


def repeat(t: Tape, x: Tensor, dims: Dims, label: str) -> Tensor:
    """`expand` and copy; backward sums the copies' gradients back to the original shape."""
    out = _make(t, dims, x.dtype, label)
    record(t, "repeat", [x], [out], pass_on)
    return out
