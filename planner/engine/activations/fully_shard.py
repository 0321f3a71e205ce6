"""Fully sharded data parallel, a unit per layer and one for the rest: when weights are gathered, gradients scattered.

FSDP2 (`fully_shard`) gathers into a buffer and copies out; FSDP1 gathers into a flat parameter. Sources: torch 2.13
`torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py` (`unshard`, `wait_for_unshard`, `post_backward`),
`_fsdp_collectives.py` (`foreach_all_gather`, `foreach_reduce`), `_fsdp_state.py`; `torch/distributed/fsdp/
_runtime_utils.py` and `_flat_param.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

from planner.engine.activations.autograd import Gradients, record
from planner.engine.activations.recipe import Model, Recipe, Sharding
from planner.engine.activations.tape import Dims, Tape, Tensor
from planner.engine.term import Factor
from planner.model.counts import row_share, shard_shape
from planner.model.spec import ModelSpec
from planner.model.weights import weights

FSDP2 = "torch 2.13 FSDP2, _fsdp_param_group.py and _fsdp_collectives.py"
FSDP1 = "torch 2.13 FSDP1, fsdp/_runtime_utils.py and fsdp/_flat_param.py"
WEIGHTS = "weight copy"
GRADIENTS = "gradient"
WAITING = "whole gradients of earlier micro-batches"
ROOT = "root"


@dataclass(slots=True)
class Unit:
    """One parameter group: a layer, or everything outside the layers."""

    owner: "FullyShard"
    kind: str
    weights: list[Tensor]
    previous: "Unit | None" = None
    """The unit that ran before it in forward, which is gathered while this one runs backward."""
    gathered: Tensor | None = None
    """All-gather output that waits to be copied into parameters."""
    parameters: Tensor | None = None
    slot: str = ""
    waiting: list[Tensor] = field(default_factory=list)
    """Whole gradients of earlier micro-batches that have not been scattered (`unsharded_accumulated_grad`)."""
    stays_to_the_end: bool = False
    """Nothing in front of it is trained, so that no gradient of its input tells when it is done."""

    @property
    def gathered_dtype(self) -> str:
        """Float8 linear layers are gathered in one byte (torchao `float8/fsdp_utils.py`); what is outside is not."""
        sharding = self.owner.sharding
        return "fp8" if sharding.gathers_fp8 and self.kind != ROOT else sharding.compute_dtype

    @property
    def gradient(self) -> str:
        """The dimension of its gradients. With the original parameters, a flat one's holds frozen parts too.

        Without them a flat parameter is trained as a whole or not at all, so that adapters are units of their own
        (peft `utils/other.py: fsdp_auto_wrap_policy`).
        """
        return f"unit {self.kind}" if self.owner.sharding.keeps_gradients else f"trained in {self.kind}"

    @property
    def gradient_shard(self) -> str:
        """The dimension of a rank's part of them."""
        return f"shard of {self.kind}" if self.owner.sharding.keeps_gradients else f"trained shard of {self.kind}"

    def unshard(self, t: Tape) -> None:
        """Cast the shard, gather everybody's: into the flat parameter itself, or for a later copy into parameters."""
        if self.gathered is not None or self.parameters is not None:
            return
        dtype = self.gathered_dtype
        with t.module("fsdp", self.owner.source):
            cast = t.new((f"shard of {self.kind}",), dtype, "this rank's shard, cast", WEIGHTS)
            gathered = t.new((f"unit {self.kind}",), dtype, "gathered shards", WEIGHTS)
            t.tick("all-gather")
            del cast
        if self.owner.sharding.flat_parameters:
            self.parameters = gathered
        else:
            self.gathered = gathered

    def wait(self, t: Tape, *, forward: bool) -> None:
        """Copy the gathered shards into parameters. In forward the gathered ones stay until the next unit's copy."""
        if self.gathered is None:
            return
        before = self.owner.kept_gathered if forward else None
        with t.module("fsdp", self.owner.source):
            self.parameters = t.new((f"unit {self.kind}",), self.gathered_dtype, "whole parameters", WEIGHTS)
            t.tick("copy-out")
        del before
        if forward:
            self.owner.kept_gathered = self.gathered
        self.gathered = None

    def enter(self, t: Tape, x: Tensor) -> Tensor:
        """`pre_forward`: gather, and see to it that gradients are scattered once the input's gradient is there."""
        self.unshard(t)
        self.wait(t, forward=True)
        self.slot, self.stays_to_the_end = t.slot, not x.requires_grad
        return self._hook(t, x, self.post_backward)

    def leave(self, t: Tape, out: Tensor) -> Tensor:
        """`post_forward`: free the parameters, gather them again before the output's gradient is used."""
        keeps_root = self.owner.sharding.flat_parameters and self.kind == ROOT
        if self.owner.sharding.reshard_after_forward and not keeps_root:
            self.parameters = None
        self.previous, self.owner.latest = self.owner.latest, self
        return self._hook(t, out, self.pre_backward)

    def _hook(self, t: Tape, x: Tensor, hook: Callable[[Tape], None]) -> Tensor:
        def backward(t: Tape, gradients: Gradients, saved: Sequence[Tensor], needs: Sequence[bool]) -> Gradients:
            hook(t)
            gradient = gradients[0]
            return [None if gradient is None else gradient.handle(view=gradient.is_view)]

        out = x.handle(view=x.is_view)
        record(t, "fsdp hook", [x], [out], backward)
        return out

    def pre_backward(self, t: Tape) -> None:
        self.unshard(t)
        self.wait(t, forward=False)
        if self.previous is None:
            return
        # What outlives its layer must not be taken for something that every layer holds.
        with t.layer(self.previous.slot if self.previous.stays_to_the_end else t.slot):
            self.previous.unshard(t)

    def post_backward(self, t: Tape) -> None:
        """Reduce-scatter: a flat copy of all gradients in the reduce dtype, of which a shard comes back."""
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        for weight in self.weights:
            weight.grad = None
        sharding = self.owner.sharding
        if not (sharding.flat_parameters and gradients):
            self.parameters = None
        self.owner.reduce_input = None
        if not gradients:
            return
        if self.waiting and not sharding.flat_parameters:
            gradients, self.waiting = self.waiting, []  # to which those of this micro-batch were added
        with t.module("fsdp", self.owner.source):
            if sharding.flat_parameters:
                self._scatter_flat(t, gradients)
            else:
                self._scatter(t, gradients)

    def _scatter(self, t: Tape, gradients: list[Tensor]) -> None:
        """FSDP2: gradients are copied into one buffer, which stays until the next unit's."""
        sharding = self.owner.sharding
        self.owner.reduce_input = t.new(
            (f"trained in {self.kind}",), sharding.reduce_dtype, "gradients to be reduced", GRADIENTS
        )
        t.tick("gradients copied in")
        # The loop variable of `foreach_reduce` goes on holding the last gradient.
        last = gradients[-1]
        gradients.clear()
        self._keep_shard(t)
        del last

    def _scatter_flat(self, t: Tape, gradients: list[Tensor]) -> None:
        """FSDP1: the flat parameter's gradient, its cast to the reduce dtype, and the shard, all at once."""
        sharding = self.owner.sharding
        flat = t.new((self.gradient,), sharding.compute_dtype, "flat gradient", GRADIENTS)
        t.tick("gradients joined")
        gradients.clear()
        if self.waiting:
            flat = self.waiting.pop()  # to which it was added
        self.parameters = None
        cast = flat
        if sharding.reduce_dtype != sharding.compute_dtype:
            cast = t.new((self.gradient,), sharding.reduce_dtype, "flat gradient, cast", GRADIENTS)
            t.tick("flat gradient cast")
        self._keep_shard(t)
        del flat, cast

    def _keep_shard(self, t: Tape) -> None:
        sharding = self.owner.sharding
        shard = t.new((self.gradient_shard,), sharding.reduce_dtype, "sharded gradients", GRADIENTS)
        t.tick("reduce-scatter")
        if sharding.reduce_dtype != sharding.shard_dtype:
            shard = t.new((self.gradient_shard,), sharding.shard_dtype, "sharded gradients", GRADIENTS)
            t.tick("sharded gradients, cast")
        # Added in place to those of earlier micro-batches, where there are any.
        if not (sharding.offloads or self.owner.earlier):
            self.owner.scattered.append(shard)


@dataclass(slots=True)
class FullyShard:
    """All units of a model, and what they share."""

    sharding: Sharding
    units: dict[str, Unit] = field(default_factory=dict)
    """By slot; the root's is empty."""
    latest: Unit | None = None
    kept_gathered: Tensor | None = None
    reduce_input: Tensor | None = None
    scattered: list[Tensor] = field(default_factory=list)
    earlier: list[Tensor] = field(default_factory=list)
    """Sharded gradients of the micro-batches before."""

    @classmethod
    def of(cls, sharding: Sharding, model: Model) -> "FullyShard":
        shared = cls(sharding)
        for slot, _, weight in model.weights():
            unit = shared.units.setdefault(slot, Unit(shared, unit_kind(slot), []))
            if all(weight is not other for other in unit.weights):
                unit.weights.append(weight)
        return shared

    @property
    def source(self) -> str:
        return FSDP1 if self.sharding.flat_parameters else FSDP2

    @property
    def root(self) -> Unit:
        return self.units[""]

    def left_over_gradients(self, t: Tape) -> list[Tensor]:
        """Sharded gradients of the step before, where zeroing did not free them."""
        if not self.sharding.keeps_gradients or self.sharding.offloads:
            return []
        return self._shards(t, "sharded gradients of the last step")

    def make_earlier_gradients(self, t: Tape) -> None:
        """What the micro-batches before this one have left on a rank (`sharded_param.grad`, `_saved_grad_shard`)."""
        if not self.sharding.offloads:
            self.earlier = self._shards(t, "sharded gradients of earlier micro-batches")

    def make_whole_gradients(self, t: Tape) -> None:
        """What earlier micro-batches have left where none was scattered (`no_sync`, `set_requires_gradient_sync`).

        FSDP2 adds them up in the reduce dtype, or in the weights' own gradients where that is theirs; FSDP1 in the
        flat parameter's gradient.
        """
        sharding = self.sharding
        same = sharding.reduce_dtype == sharding.compute_dtype
        for slot, unit in self.units.items():
            trained = [weight for weight in unit.weights if weight.requires_grad]
            with t.layer(slot), t.module("fsdp", self.source):
                if sharding.flat_parameters:
                    unit.waiting = [t.new((unit.gradient,), sharding.compute_dtype, WAITING, GRADIENTS)][: len(trained)]
                elif same:
                    for weight in trained:
                        weight.grad = t.new(weight.dims, sharding.compute_dtype, WAITING, GRADIENTS)
                else:
                    unit.waiting = [t.new(weight.dims, sharding.reduce_dtype, WAITING, GRADIENTS) for weight in trained]

    def _shards(self, t: Tape, what: str) -> list[Tensor]:
        made: list[Tensor] = []
        for slot, unit in self.units.items():
            if not any(weight.requires_grad for weight in unit.weights):
                continue
            with t.layer(slot), t.module("fsdp", self.source):
                dims = (unit.gradient_shard,)
                made.append(t.new(dims, self.sharding.shard_dtype, what, GRADIENTS))
        return made

    def before_model(self, t: Tape) -> None:
        self.root.unshard(t)
        self.root.wait(t, forward=True)

    def after_model(self, t: Tape, loss: Tensor) -> Tensor:
        out = self.root.leave(t, loss)
        self.kept_gathered = None
        return out

    def after_backward(self, t: Tape) -> None:
        """The final callback: the root's gradients, those of units whose input needed none, and the last buffers."""
        self.root.post_backward(t)
        for unit in self.units.values():
            if unit.stays_to_the_end and unit is not self.root:
                with t.layer(unit.slot):
                    unit.post_backward(t)
        self.reduce_input = None


@dataclass(frozen=True, slots=True)
class UnitWeight:
    """One weight of a unit."""

    dims: Dims
    trained: bool
    packed: bool
    """Quantized to 4 bits: gathered as it is stored, two weights per byte."""


@lru_cache(maxsize=256)
def unit_weights(recipe: Recipe) -> Mapping[str, tuple[UnitWeight, ...]]:
    """All weights of one unit of each kind."""
    model = recipe.body.build(Tape(), replace(recipe, sharding=None))
    found: dict[str, tuple[UnitWeight, ...]] = {}
    seen: set[int] = set()
    for slot, _, weight in model.weights():
        if id(weight) not in seen and not slot.endswith(("/middle", "/last")):
            seen.add(id(weight))
            packed = recipe.quantized_base and bool(slot) and len(weight.dims) > 1 and not weight.requires_grad
            one = UnitWeight(weight.dims, weight.requires_grad, packed)
            found[unit_kind(slot)] = (*found.get(unit_kind(slot), ()), one)
    return found


@lru_cache(maxsize=256)
def weight_shapes(spec: ModelSpec, tensor_parallel: int) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """The true shapes of all weights of one unit of each kind; of models with one stack alone."""
    found: dict[str, tuple[tuple[int, ...], ...]] = {}
    for weight, copies in weights(spec) if len(spec.stacks) == 1 else ():
        kind = ROOT if weight.group is None else str(weight.group)
        layers = 1 if weight.group is None else spec.stack.groups[weight.group].count
        found[kind] = (*found.get(kind, ()), *([shard_shape(weight, tensor_parallel)] * (copies // layers)))
    return found


def unit_symbols(
    recipe: Recipe,
    symbols: Mapping[str, Factor],
    ranks: int,
    experts: int = 1,
    shapes: Mapping[str, tuple[tuple[int, ...], ...]] | None = None,
    *,
    cuts_experts: bool = False,
) -> tuple[Factor, ...]:
    """How many parameters a unit of each kind has, how many are trained, and how many of them a rank holds.

    Experts that `experts` of the ranks share are divided over fewer ranks, each of which holds fewer of them. With
    `shapes`, ranks share out the rows of each weight, and what they gather is padded like what they hold.
    """
    found: list[Factor] = []
    spread = min(experts, ranks)
    for kind, unit in unit_weights(recipe).items():
        what = "outside the layers" if kind == ROOT else "of a layer"
        trained = tuple(weight for weight in unit if weight.trained)
        for counted, name, shard, title in (
            (unit, f"unit {kind}", f"shard of {kind}", f"parameters {what}"),
            (trained, f"trained in {kind}", f"trained shard of {kind}", f"trained parameters {what}"),
        ):
            sizes = [_elements(weight, symbols) for weight in counted]
            elements = sum(sizes)
            own = () if shapes is None else _true_shapes(counted, shapes.get(kind, ()), symbols)
            if elements and sum(prod(shape) for shape in own) == elements:
                share = sum(prod(row_share(shape, ranks, cuts_experts=cuts_experts)) for shape in own)
                found += [
                    Factor(name, share * ranks, f"{elements} {title}, padded to whole rows per rank"),
                    Factor(shard, share, f"rows of {elements} {title} / {ranks} ranks"),
                ]
                continue
            apart = sum(size for size, weight in zip(sizes, counted, strict=True) if _is_expert(weight.dims))
            whole = elements + apart * (spread - 1)
            found += [
                Factor(name, elements, title),
                Factor(shard, -(-whole // ranks), f"{whole} {title} / {ranks} ranks"),
            ]
    return tuple(found)


def _true_shapes(
    counted: Sequence[UnitWeight], own: tuple[tuple[int, ...], ...], symbols: Mapping[str, Factor]
) -> tuple[tuple[int, ...], ...]:
    """Shapes of the model's own weights, if they are counted, and of adapters beside them: (rank, …) or (…, rank)."""
    adapters: list[tuple[int, ...]] = []
    for weight in counted:
        if "rank" in weight.dims:
            dims = [int(symbols[dim].value) if isinstance(dim, str) else dim for dim in weight.dims]
            first = dims[0] if weight.dims[0] == "rank" else prod(dims[:-1])
            adapters.append((first, prod(dims) // first))
    return (*(own if len(adapters) < len(counted) else ()), *adapters)


def _elements(weight: UnitWeight, symbols: Mapping[str, Factor]) -> int:
    """Elements; packed ones count as 16-bit words."""
    size = prod(int(symbols[dim].value) if isinstance(dim, str) else dim for dim in weight.dims)
    return -(-size // 4) if weight.packed else size


def _is_expert(shape: Dims) -> bool:
    return any(isinstance(dim, str) and dim.endswith("own experts") for dim in shape)


def unit_kind(slot: str) -> str:
    """Layers of a kind are units of one size."""
    return slot.partition("/")[0] if slot else ROOT
