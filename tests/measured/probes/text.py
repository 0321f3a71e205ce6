"""Text on its way to Arrow, in a fresh process: bytes of files, and what tokenizing takes at its fullest.

Called with rows in all and per step of `map`; writes where it is started, and prints JSON.
"""

import json
import sys
from pathlib import Path

import datasets
from memory import highest
from sample_text import texts, word_tokenizer


def bytes_of(data: datasets.Dataset) -> int:
    return sum(Path(file["filename"]).stat().st_size for file in data.cache_files)


def main(rows: int, step: int) -> None:
    datasets.disable_progress_bars()
    tokenizer = word_tokenizer()
    raw = Path("raw.jsonl")
    with raw.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps({"text": text}) + "\n" for text in texts(rows))
    converted = datasets.load_dataset("json", data_files=str(raw), split="train", cache_dir="cache")
    made: list[datasets.Dataset] = []

    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        found = tokenizer.encode_batch(batch["text"])
        return {"input_ids": [item.ids for item in found], "attention_mask": [item.attention_mask for item in found]}

    def tokenize() -> None:
        made.append(
            converted.map(
                encode, batched=True, batch_size=step, remove_columns=["text"], cache_file_name="./tokenized.arrow"
            )
        )

    measured = {"map_bytes": highest(tokenize), "raw_bytes": raw.stat().st_size, "rows": rows}
    json.dump({**measured, "converted_bytes": bytes_of(converted), "tokenized_bytes": bytes_of(made[0])}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
