"""Text whose tokens are known: words of a vocabulary, and the tokenizer that has each as one token."""

import random
from collections.abc import Iterator

from tokenizers import Tokenizer, models, pre_tokenizers

TOKENS = 500
"""Words of each text."""
WORDS = [f"word{number:05d}" for number in range(30_000)]


def texts(count: int) -> Iterator[str]:
    chosen = random.Random(0)
    return (" ".join(chosen.choices(WORDS, k=TOKENS)) for _ in range(count))


def word_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0} | {word: i + 1 for i, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer
