"""The closed lists of the scenario: each value with a short label for people."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from planner.scenario.declaration import Choices
from planner.scenario.families import CUSTOM, families
from planner.scenario.records import Record, records


def _labels(found: Mapping[str, Record], first: Iterable[str]) -> dict[str, str]:
    """A list that is data: the label of every record, those of `first` leading in their order."""
    return {name: found[name].label for name in dict.fromkeys((*(name for name in first if name in found), *found))}


TASKS = Choices(
    {
        "causal-lm": "Text generation",
        "masked-lm": "Masked language model",
        "sequence-classification": "Text classification",
        "seq2seq-lm": "Text to text",
        "image-classification": "Image classification",
        "feature-extraction": "Embeddings",
        "speech-seq2seq": "Speech to text",
        "question-answering": "Question answering",
        "token-classification": "Token classification",
        "image-text-to-text": "Vision and language",
        "audio-text-to-text": "Sound and language",
        "diffusion": "Image diffusion",
    }
)
PRECISIONS = Choices(
    {
        "fp32": "fp32",
        "tf32": "TF32 (fp32 storage)",
        "amp-fp16": "AMP fp16 (fp32 weights)",
        "amp-bf16": "AMP bf16 (fp32 weights)",
        "bf16": "bf16 throughout",
        "fp16": "fp16 throughout",
        "bf16-fp32-master": "bf16, fp32 master",
        "fp16-fp32-master": "fp16, fp32 master",
        "fp8": "fp8 matrix products",
    }
)
ATTENTIONS = Choices({"eager": "Eager", "sdpa": "SDPA", "flash_attention_2": "FlashAttention 2"})
ATTENTION_MASKS = Choices({"none": "Not passed", "full": "All ones", "padded": "Padded"})
CHECKPOINTINGS = Choices({"none": "None", "selective": "Selective", "full": "Full"})
SELECTIVE_POLICIES = Choices(
    {
        "core-attention": "Attention core",
        "op-sac": "Every other matrix product",
        "every-2nd-layer": "Every second layer",
        "every-nth-layer": "One layer in n",
    }
)
ENCODED_AHEAD = Choices(
    {
        "nothing": "Nothing: encoders run in each step",
        "text": "Embeddings of prompts",
        "latents": "Latents of images",
        "everything": "Embeddings and latents",
    }
)
LOSSES = Choices(
    {
        "full_logits": "All logits at once",
        "chunked": "In chunks",
        "fused_linear": "Fused with the head",
        "cut_cross_entropy": "Cut cross-entropy",
        "fused_cross_entropy": "Fused cross-entropy",
    }
)
PROFILES = Choices(
    {
        "hf-transformers": "Hugging Face Transformers",
        "megatron-core": "Megatron Core",
        "torchtitan": "torchtitan",
        "torchtune": "torchtune",
        "litgpt": "LitGPT",
        "composer-mpt": "Composer (MPT)",
    }
)
_OPTIMIZERS = records("optimizers")
OPTIMIZERS = Choices(_labels(_OPTIMIZERS, ("adamw", "adam", "sgd", "sgd_momentum")))
OPTIMIZER_KERNELS = {name: record.implementations for name, record in _OPTIMIZERS.items()}
"""Which implementations each optimizer has; `*` is one of its own that is always used."""
FP32_OPTIMIZERS = frozenset(name for name, record in _OPTIMIZERS.items() if record.needs_fp32)
"""Optimizers whose code fails on 16-bit weights."""
OPTIMIZER_IMPLEMENTATIONS = Choices(
    {"foreach": "foreach", "fused": "Fused", "for-loop": "One tensor at a time", "transformers": "Transformers' own"}
)
STATE_DTYPES = Choices({"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"})
HALF_DTYPES = Choices({"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"})
FP8_RECIPES = Choices({"tensorwise": "One scale per tensor", "rowwise": "One per row", "blockwise": "One per block"})
EXPERTS_IMPLEMENTATIONS = Choices({"grouped_mm": "Grouped products", "batched_mm": "Batched products"})
TOKEN_DISPATCHERS = Choices({"allgather": "All-gather", "alltoall": "All-to-all"})
OFFLOADS = Choices({"none": "On the GPU", "cpu": "Host RAM", "nvme": "NVMe"})

SHARDING_BACKENDS = Choices(
    {
        "ddp": "PyTorch DDP",
        "fsdp1": "PyTorch FSDP1",
        "fsdp2": "PyTorch FSDP2",
        "deepspeed": "DeepSpeed ZeRO",
        "megatron-distributed-optimizer": "Megatron distributed optimizer",
        "zero-redundancy-optimizer": "PyTorch ZeroRedundancyOptimizer",
    }
)
REPORTED_STAGES = Choices({"fullest": "Fullest stage", "first": "First stage", "last": "Last stage"})
CONTEXT_PARALLEL_MODES = Choices({"ring": "Ring attention", "ulysses": "Ulysses"})

SMOKE_TESTS = Choices(
    {
        "construct": "Construct only",
        "shapes": "Check shapes only",
        "forward": "Forward",
        "forward_backward": "Forward and backward",
    }
)
METHODS = Choices(
    {
        "full": "All weights",
        "lora": "LoRA",
        "qlora": "QLoRA",
        "dora": "DoRA",
        "last_layers": "Last layers only",
        "prefix": "Prefix tuning",
        "prompt": "Prompt tuning",
    }
)
_FORMATS = records("quantization")
GGUF_TYPES = tuple(name for name, record in _FORMATS.items() if record.kind == "gguf")
WEIGHTS = Choices(
    {
        name: f"GGUF {label}" if name in GGUF_TYPES else label
        for name, label in _labels(
            _FORMATS,
            (
                *("bf16", "fp16", "fp32", "fp8", "int8", "awq-int4", "gptq-int4", "nf4", "mxfp4", "nvfp4"),
                *("q8_0", "q6_k", "q5_k_m", "q5_k_s", "q4_k_m", "q4_k_s", "q4_0", "iq4_xs", "iq4_nl", "q3_k_m"),
            ),
        ).items()
    }
)
BASE_QUANTIZATIONS = Choices(
    {name: WEIGHTS[name] for name in ("nf4-double", "nf4", "fp4", "int8", "gptq-int4", "awq-int4")}
)
LORA_TARGETS = Choices({"all-linear": "All linear layers", "attention": "Attention only"})
OBJECTIVES = Choices({"sft": "Supervised (SFT)", "dpo": "Preferences (DPO)", "ppo": "PPO", "grpo": "GRPO"})
REFERENCES = Choices(
    {
        "automatic": "Adapters off, else a copy",
        "copy": "A frozen copy",
        "adapters-off": "The policy with its adapters off",
        "none": "None, or computed beforehand",
    }
)
PLACEMENTS = Choices({"automatic": "Automatic", "colocated": "On the policy's GPUs", "apart": "On other GPUs"})
VALUE_UPDATES = Choices(
    {
        "automatic": "In turn in a pipeline, else together",
        "together": "In one step with the policy (TRL)",
        "in-turn": "In a step of its own (verl, OpenRLHF)",
    }
)
ROLLOUTS = Choices({**PLACEMENTS, "policy": "The policy itself (generate)"})
ROLLOUT_SOFTWARE = Choices({"vllm": "vLLM", "sglang": "SGLang", "transformers": "Transformers"})
EVALUATED_LOGITS = Choices({"all": "Every position", "last": "Last position"})

DATA_KINDS = Choices({"text": "Text", "images": "Images", "video": "Video", "audio": "Audio", "tabular": "Tables"})
SAMPLE_TYPES = Choices({"uint8": "uint8", "fp16": "fp16", "fp32": "fp32", "fp64": "fp64"})
GPU_PREPROCESSINGS = Choices(
    {"none": "On the CPU", "decode": "Decode and augment on the GPU", "dataframe": "Data frames on the GPU (cuDF)"}
)
WORKER_STARTS = Choices({"fork": "Forked", "spawn": "Started afresh (spawn)"})
LOADINGS = Choices(
    {
        "automatic": "Automatic",
        "every_process": "Every process loads all",
        "one_process": "One process per server loads",
        "streamed": "Tensor by tensor to the GPU",
        "from_scratch": "None: random weights",
    }
)
WEIGHT_FILES = Choices({"safetensors": "safetensors", "pickle": "Pickled (.bin, .pt)"})
CHECKPOINT_CONTENTS = Choices({"resumable": "Weights and optimizer states", "weights": "Weights only"})

ENGINES = Choices(
    {
        "vllm": "vLLM",
        "sglang": "SGLang",
        "tensorrt-llm": "TensorRT-LLM",
        "llama.cpp": "llama.cpp",
        "transformers": "Transformers generate",
    }
)
KV_DTYPES = Choices(
    {
        "fp32": "fp32",
        "bf16": "bf16",
        "fp16": "fp16",
        "fp8": "fp8",
        "int8": "int8",
        "q8_0": "Q8_0",
        "q5_1": "Q5_1",
        "q5_0": "Q5_0",
        "q4_1": "Q4_1",
        "q4_0": "Q4_0",
        "iq4_nl": "IQ4_NL",
    }
)
DRAFT_METHODS = Choices(
    {
        "automatic": "Automatic",
        "mtp": "Own draft layer (MTP)",
        "draft-model": "A smaller model",
        "eagle": "EAGLE head",
        "eagle3": "EAGLE-3 head",
        "ngram": "N-grams of the prompt",
    }
)
PIPELINE_OFFLOADS = Choices(
    {"none": "On the GPU", "model": "On the host, one at a time", "sequential": "On the host, layer by layer"}
)
GGUF_KV_DTYPES = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")

FAMILIES = Choices({CUSTOM: "Any transformer", **{name: found.label for name, found in families().items()}})
NORMS = Choices({"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"})
ACTIVATIONS = Choices(
    {"silu": "SiLU", "gelu": "GELU", "gelu_tanh": "GELU (tanh)", "relu": "ReLU", "relu2": "ReLU squared"}
)
POSITIONS = Choices(
    {
        "rope": "Rotary (RoPE)",
        "learned": "Learned table",
        "sinusoidal": "Sinusoidal",
        "alibi": "ALiBi",
        "relative": "Relative bias",
        "none": "None",
    }
)

Task = Annotated[str, TASKS]
Precision = Annotated[str, PRECISIONS]
AttentionImplementation = Annotated[str, ATTENTIONS]
AttentionMask = Annotated[str, ATTENTION_MASKS]
Checkpointing = Annotated[str, CHECKPOINTINGS]
SelectivePolicy = Annotated[str, SELECTIVE_POLICIES]
EncodedAhead = Annotated[str, ENCODED_AHEAD]
LossImplementation = Annotated[str, LOSSES]
ActivationProfile = Annotated[str, PROFILES]
Optimizer = Annotated[str, OPTIMIZERS]
OptimizerImplementation = Annotated[str, OPTIMIZER_IMPLEMENTATIONS]
StateDtype = Annotated[str, STATE_DTYPES]
HalfDtype = Annotated[str, HALF_DTYPES]
Fp8Recipe = Annotated[str, FP8_RECIPES]
ExpertsImplementation = Annotated[str, EXPERTS_IMPLEMENTATIONS]
TokenDispatcher = Annotated[str, TOKEN_DISPATCHERS]
OffloadTarget = Annotated[str, OFFLOADS]
ShardingBackend = Annotated[str, SHARDING_BACKENDS]
ReportedStage = Annotated[str, REPORTED_STAGES]
ContextParallelMode = Annotated[str, CONTEXT_PARALLEL_MODES]
SmokeTest = Annotated[str, SMOKE_TESTS]
Method = Annotated[str, METHODS]
BaseQuantization = Annotated[str, BASE_QUANTIZATIONS]
LoraTargets = Annotated[str, LORA_TARGETS]
Objective = Annotated[str, OBJECTIVES]
Reference = Annotated[str, REFERENCES]
Placement = Annotated[str, PLACEMENTS]
ValueUpdate = Annotated[str, VALUE_UPDATES]
Rollout = Annotated[str, ROLLOUTS]
RolloutSoftware = Annotated[str, ROLLOUT_SOFTWARE]
EvaluatedLogits = Annotated[str, EVALUATED_LOGITS]
DataKind = Annotated[str, DATA_KINDS]
SampleType = Annotated[str, SAMPLE_TYPES]
GpuPreprocessing = Annotated[str, GPU_PREPROCESSINGS]
WorkerStart = Annotated[str, WORKER_STARTS]
LoadingStrategy = Annotated[str, LOADINGS]
WeightFiles = Annotated[str, WEIGHT_FILES]
CheckpointContents = Annotated[str, CHECKPOINT_CONTENTS]
ServingEngine = Annotated[str, ENGINES]
WeightFormat = Annotated[str, WEIGHTS]
KvDtype = Annotated[str, KV_DTYPES]
DraftMethod = Annotated[str, DRAFT_METHODS]
PipelineOffload = Annotated[str, PIPELINE_OFFLOADS]
FamilyChoice = Annotated[str, FAMILIES]
NormChoice = Annotated[str, NORMS]
Activation = Annotated[str, ACTIVATIONS]
PositionEmbedding = Annotated[str, POSITIONS]

WITHOUT_CHECKPOINTS = ("albert", "convnext", "convnextv2", "dinov3_convnext", "mpnet", "resnet")
"""Model types whose classes lack `supports_gradient_checkpointing` in transformers 5.24 and 4.57, and so refuse it."""
