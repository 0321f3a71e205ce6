"""A term: one product of named factors, which is one segment of memory.

The number on the chart, the formula in the *Why?* panel and the row of a report are this same object.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

Number: TypeAlias = int | float | NDArray[Any]
"""A plain number, or an array over the points of a sweep; formulas take either."""

Component = Literal[
    "weights", "gradients", "optimizer_states", "activations", "logits", "kv_cache", "temporaries", "overhead", "data"
]
HOST_COMPONENTS: tuple[Component, ...] = ("data", *(name for name in get_args(Component) if name != "data"))
"""What host RAM and disks hold; samples and batches lie below the rest."""
COMPONENTS: tuple[Component, ...] = HOST_COMPONENTS[1:]
"""What a GPU holds."""


class Factor(NamedTuple):
    """A named number in a product. `how` says how a derived number came about, e.g. `4096 / 2`."""

    name: str
    value: Number
    how: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """Memory of one kind, in bytes per GPU: the product of its factors.

    `alive` names the moments (in a plan) or instants (in a ledger) at which this memory is held;
    terms alive at one instant add up, others never do. `source` says where the rule comes from.
    A term is equal to itself alone, so that sums over many of them can be remembered cheaply.
    """

    component: Component
    name: str
    factors: tuple[Factor, ...]
    alive: tuple[str, ...]
    source: str
    bytes: Number = field(init=False)
    """The product of the factors; a fractional product (such as half a byte per weight) is rounded down."""

    def __post_init__(self) -> None:
        product: Number = 1
        for factor in self.factors:
            product = product * factor.value
        if isinstance(product, np.ndarray):
            product = np.floor(product).astype(np.int64) if product.dtype.kind == "f" else product
        else:
            product = int(product)
        object.__setattr__(self, "bytes", product)


def term(
    component: Component, name: str, alive: tuple[str, ...], source: str, /, **factors: "Number | tuple[Number, str]"
) -> Term:
    """A term written as its formula: `term("kv_cache", "KV cache", (...), "...", layers=32, kv_heads=8, ...)`.

    Underscores in factor names become spaces; a factor may be `(value, how it was derived)`.
    """
    return Term(component, name, tuple(_factor(key, value) for key, value in factors.items()), alive, source)


def _factor(key: str, value: "Number | tuple[Number, str]") -> Factor:
    name = key.replace("_", " ")
    return Factor(name, *value) if isinstance(value, tuple) else Factor(name, value)
