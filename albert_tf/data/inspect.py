"""Shows pretraining records as text: `python -m albert_tf.data.inspect FILE`.

Each record is shown as a heading and one line for each segment. A token to
predict is shown as `[MASK:cat]` if it is masked, `{dog->cat}` if another token
replaces it, and `{cat}` if it was kept. Dynamic records are shown without
masks, which are drawn when they are read.

No TensorFlow.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import console, settings
from albert_tf.data import example_codec, record_source
from albert_tf.data.shards import Shard
from albert_tf.text import base
from albert_tf.text.base import Tokenizer
from albert_tf.text.tokenizer import Vocabulary
from albert_tf.text.wordpiece_tokenizer import WordPieceTokenizer

_LABELS = {
    "sop": ("in order", "swapped"),
    "nsp": ("B follows A", "B comes from elsewhere"),
    "none": ("one segment", "one segment"),
    None: ("in order", "swapped, or B comes from elsewhere"),
}


def _name(token_id: int, tokenizer: Tokenizer | None) -> tuple[str, str]:
    """Returns a space where a word starts, and the token or else its id."""
    if tokenizer is None:
        return " ", str(token_id)
    token = tokenizer.id_to_token(token_id)
    added = tokenizer.settings.added_tokens
    if token in base.SENTENCEPIECE_NAMES or token in added:
        return " ", token
    if isinstance(tokenizer, WordPieceTokenizer):
        rest = token.removeprefix("##")
        return (" " if rest == token else ""), rest
    rest = token.removeprefix("\u2581")
    return ("" if rest == token else " "), rest


def render_record(
    data: bytes, shard: Shard, tokenizer: Tokenizer | None
) -> str:
    """Returns a serialized example as lines of text."""
    fields = example_codec.decode_example(data)
    has_ids = shard if shard.has_sidecar else tokenizer
    mask_id = has_ids.special_ids.mask if has_ids else None
    objective = shard.settings.pair_objective
    is_dynamic = shard.settings.masking == "dynamic"
    ids = fields["pair_ids" if is_dynamic else "input_ids"].tolist()
    tokens = ["".join(_name(token_id, tokenizer)) for token_id in ids]
    if is_dynamic:
        size_a = int(fields["segment_a_length"][0])
        label = int(fields["pair_label"][0])
        # Segments are swapped when they are read.
        objective = "nsp" if size_a < len(tokens) else "none"
        heading = f"{len(tokens)} tokens without special ones, no masks yet"
    else:
        length = int(fields["input_mask"].sum())
        used = fields["masked_lm_weights"] > 0
        for position, original in zip(
            fields["masked_lm_positions"][used].tolist(),
            fields["masked_lm_ids"][used].tolist(),
            strict=True,
        ):
            shown, (space, target) = ids[position], _name(original, tokenizer)
            if shown == mask_id:
                target = f"[MASK:{target}]"
            elif shown == original:
                target = f"{{{target}}}"
            else:
                target = f"{{{_name(shown, tokenizer)[1]}->{target}}}"
            tokens[position] = space + target
        tokens = tokens[:length]
        size_a = int((fields["segment_ids"][:length] == 0).sum())
        label = int(fields["next_sentence_labels"][0])
        heading = f"{length} tokens of {len(ids)}, {used.sum()} to predict"
    lines = [f"{heading}, label {label}: {_LABELS[objective][label]}"]
    for name, segment in (("A", tokens[:size_a]), ("B", tokens[size_a:])):
        if segment:
            lines.append(f"  {name} ({len(segment)}) |{''.join(segment)}")
    return "\n".join(lines)


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = console.ArgumentParser(
        prog="python -m albert_tf.data.inspect",
        description="Shows pretraining records as text.",
    )
    parser.add_argument("file", help="a record file, or train@8 for eight")
    parser.add_argument(
        "-n", type=int, default=3, help="how many records to show (default 3)"
    )
    parser.add_argument("--spm_model_file", help="SentencePiece model")
    parser.add_argument("--vocab_file", help="WordPiece vocabulary")
    return parser.parse_args(arguments)


def _find_tokenizer(
    arguments: argparse.Namespace, source: record_source.RecordSource
) -> Tokenizer | None:
    """Loads the vocabulary that is named, else the vocabulary of the build."""
    shard = source.shard
    is_named = bool(arguments.spm_model_file or arguments.vocab_file)
    paths = vars(arguments) if is_named else shard.origin
    vocabulary = settings.read(Vocabulary, {**shard.config, **paths})
    try:
        tokenizer = vocabulary.load_tokenizer()
    except (FileNotFoundError, ValueError):
        if is_named:
            raise
        return None
    is_of_build = shard.tokenizer_hash in (None, tokenizer.fingerprint)
    return tokenizer if is_of_build else None


def _report(arguments: argparse.Namespace) -> Iterator[str]:
    source = record_source.open_records([arguments.file])
    tokenizer = _find_tokenizer(arguments, source)
    yield (
        f"{arguments.file}: {source.num_records} records, "
        f"{source.shard.settings.masking} masks"
        + ("" if tokenizer else ", as ids: not the vocabulary of the build")
    )
    shown = np.arange(source.num_records)[: arguments.n]
    for index, data in zip(shown, source.get(shown), strict=True):
        text = render_record(data, source.shard, tokenizer)
        yield f"\nrecord {index}: {text}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""

    def print_records() -> None:
        for line in _report(_parse_arguments(arguments)):
            sys.stdout.write(line + "\n")

    return console.run(print_records)


if __name__ == "__main__":
    sys.exit(main())
