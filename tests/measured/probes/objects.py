"""What values and tokens take as Python and tokenizer objects, in a fresh process; prints JSON.

The order matters: memory that earlier work has freed would be used again, and so not be seen.
"""

import json
import random
import sys

from memory import growth
from sample_text import TOKENS, texts, word_tokenizer

ROWS = 2000


def main() -> None:
    rows, tokenizer = list(texts(ROWS)), word_tokenizer()
    count = ROWS * TOKENS
    floats, _ = growth(lambda: [list(map(random.uniform, [0.0] * TOKENS, [1.0] * TOKENS)) for _ in range(ROWS)])
    lists, _ = growth(
        lambda: [(list(map(random.randint, [1000] * TOKENS, [30_000] * TOKENS)), [1] * TOKENS) for _ in range(ROWS)]
    )
    encodings, _ = growth(lambda: tokenizer.encode_batch(rows))
    measured = {"list_value_bytes": floats, "list_token_bytes": lists, "encoding_bytes": encodings}
    json.dump({name: size / count for name, size in measured.items()}, sys.stdout)


if __name__ == "__main__":
    main()
