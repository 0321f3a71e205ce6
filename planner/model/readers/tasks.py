"""Which task a configuration is for, and the head that this task puts on a stack."""

from planner.errors import ModelError
from planner.model.readers.config import Config
from planner.model.spec import TASKS, Head, Task

_ENDINGS: tuple[tuple[str, Task], ...] = (
    ("ForCausalLM", "causal-lm"),
    ("LMHeadModel", "causal-lm"),
    ("ForMaskedLM", "masked-lm"),
    ("ForPreTraining", "masked-lm"),
    ("ForSequenceClassification", "sequence-classification"),
    ("ForTokenClassification", "token-classification"),
    ("ForQuestionAnswering", "question-answering"),
    ("ForImageClassification", "image-classification"),
    ("Model", "feature-extraction"),
    ("ModelWithProjection", "feature-extraction"),
)


def task_of(config: Config, asked: str | None, usual: Task) -> Task:
    """The task asked for, else the one that `architectures` names, else the `usual` one of the family."""
    if asked is not None:
        return known_task(asked)
    architecture = architecture_of(config)
    if architecture.endswith("ForConditionalGeneration"):
        return usual
    return next((task for ending, task in _ENDINGS if architecture.endswith(ending)), usual)


def known_task(name: str) -> Task:
    """`name` as a task, or an error that lists them."""
    for task in TASKS:
        if name == task:
            return task
    raise ModelError(f"The task “{name}” is not known; it must be one of {', '.join(TASKS)}.")


def architecture_of(config: Config) -> str:
    """The first class that the file names, or an empty text."""
    named = config.raw("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def decoder_head(config: Config, task: Task, vocab_size: int, *, tied: bool, bias: bool = False) -> Head | None:
    """The head of a decoder: token logits, or the small classifiers of `modeling_layers.py` in transformers."""
    if task in ("causal-lm", "image-text-to-text", "audio-text-to-text", "seq2seq-lm", "speech-seq2seq"):
        return Head(vocab_size, tied, bias)
    if task == "sequence-classification":
        return Head(config.labels(), kind="classification", name="score")
    if task == "token-classification":
        return Head(config.labels(), bias=True, kind="classification", name="score")
    if task == "question-answering":
        return Head(2, bias=True, kind="classification", name="qa_outputs")
    if task == "feature-extraction":
        return None
    raise ModelError(f"{config.where}: a model of type “{config.model_type}” has no head for the task “{task}”.")
