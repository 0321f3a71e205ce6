"""Host RAM while weights are loaded: who reads what, from which files, and what is cast on the way."""

from dataclasses import dataclass

from planner.engine.host.amounts import CACHED, HOST, amounts
from planner.engine.host.share import NodeShare
from planner.engine.rounding import smaller
from planner.engine.term import Factor, Number, Term

COPIES_SOURCE = (
    "transformers from_pretrained builds the model on the CPU in every process: 70 B in fp32 by 8 processes are 2.24 "
    "TB (huggingface/blog#1412); with cpu_ram_efficient_loading or zero.Init one copy per node will do "
    "(huggingface/transformers#25107)"
)
PICKLE_SOURCE = (
    "torch.load without mmap reads a pickled file whole: its tensors are there beside the model's until they are copied"
)
CAST_SOURCE = "transformers core_model_loading: a tensor is cast on its own, and both widths of it are alive"
MAPPED_SOURCE = "safetensors files are memory-mapped: every page read stays cached while there is room"
BUILT_SOURCE = (
    "torch modules are filled with random numbers on the CPU before they go to a GPU, in every process unless "
    "DeepSpeed zero.Init or FSDP makes one copy per server do"
)
PICKLED_SHARD_BYTES = 5 * 10**9
"""transformers 4, save_pretrained: max_shard_size "5GB"; pickled checkpoints are from that time."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights on disk and as they are wanted in memory."""

    parameters: Number
    parameter_bytes: float
    """Width in memory."""
    file_bytes: float
    """Width on disk."""
    largest_tensor: Number = 0
    """Elements of the largest tensor, which is cast as a whole."""
    pickled: bool = False
    shard_bytes: int | None = None


def loading_terms(checkpoint: Checkpoint, *, copies: Number, readers: Number | None = None) -> tuple[Term, ...]:
    """The checkpoint while it is loaded, on one node.

    `copies` models are built in host RAM at a time: one in each process, one for all, or none where tensors go
    straight to the GPU. `readers` processes read files; by default those that build a model, but at least one.
    """
    parameters = checkpoint.parameters
    size = Factor("bytes", checkpoint.parameter_bytes)
    readers = (copies or 1) if readers is None else readers
    reading = Factor("processes that read", readers)
    on_disk: Number = parameters * checkpoint.file_bytes
    terms: list[Term] = []
    if copies:
        built = (Factor("copies", copies), Factor("parameters", parameters), size)
        terms.append(Term("weights", "loading the checkpoint", built, HOST, COPIES_SOURCE))
    if checkpoint.file_bytes != checkpoint.parameter_bytes and checkpoint.largest_tensor:
        cast = (reading, Factor("largest tensor", checkpoint.largest_tensor), Factor("bytes", checkpoint.file_bytes))
        terms.append(Term("temporaries", "tensor being cast", cast, HOST, CAST_SOURCE))
    if checkpoint.pickled:
        shard = smaller(on_disk, checkpoint.shard_bytes or PICKLED_SHARD_BYTES)
        read = (reading, Factor("bytes", shard, "the largest file"))
        terms.append(Term("temporaries", "pickled file being read", read, HOST, PICKLE_SOURCE))
    else:
        mapped = (Factor("parameters", parameters), Factor("bytes", checkpoint.file_bytes))
        terms.append(Term("weights", "page cache of the weight files", mapped, CACHED, MAPPED_SOURCE))
    return tuple(terms)


def built_term(parameters: Number, width: float, copies: Number) -> Term:
    """A model with random weights, which no file gives: it is built on the CPU all the same."""
    factors = (Factor("copies", copies), Factor("parameters", parameters), Factor("bytes", width))
    return Term("weights", "model being built", factors, HOST, BUILT_SOURCE)


def sharding_copies_term(parameters: Number, width: float, share: NodeShare) -> Term:
    """Further whole copies in every process while FSDP prepares a model that each of them has loaded."""
    known = amounts()["fsdp_prepare_copies"]
    factors = (
        Factor("processes", share.ranks), known.factor("further copies"), Factor("parameters", parameters),
        Factor("bytes", width),
    )  # fmt: skip
    return Term("temporaries", "copies while sharding", factors, HOST, known.source)
