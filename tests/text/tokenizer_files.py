"""Tokenizers of other programs: with bytes, and as transformers makes them."""

import sentencepiece
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import models, normalizers, pre_tokenizers


def train_with_bytes(path, sentences, **settings):
    """Trains a SentencePiece model that writes unknown characters as bytes."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=str(path.with_suffix("")),
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols="[CLS],[SEP],[MASK]",
        minloglevel=2,
        **settings,
    )
    return str(path)


def is_number_comma(piece):
    """Returns whether a piece is a number with a comma behind it."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def write_tokenizer_json(path, model_file, *, do_lower_case=True, is_old=False):
    """Writes a SentencePiece model as transformers does, `AlbertConverter`.

    Older versions do not list the user-defined pieces. Returns the model.
    """
    with open(model_file, "rb") as file:
        model = sentencepiece_model_pb2.ModelProto.FromString(file.read())
    made = tokenizers.Tokenizer(
        models.Unigram(
            [
                (p.piece, p.score - 100 * is_number_comma(p.piece))
                for p in model.pieces
            ],
            1,
            False,
        )
    )
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("``", '"'),
            normalizers.Replace("''", '"'),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            *([normalizers.Lowercase()] if do_lower_case else []),
            normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
            normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    )
    marks = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    made.pre_tokenizer = marks
    if is_old:
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), marks]
        )
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    made.add_special_tokens(special)
    if not is_old:
        made.add_tokens([p.piece for p in model.pieces if p.type == 4])
    made.save(str(path))
    return model
