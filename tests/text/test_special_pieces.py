import pytest

from albert_tf.text import special_pieces


def test_special_ids_are_found_by_name():
    ids = {"[MASK]": 7, "a": 1, "<pad>": 5, "[SEP]": 0, "[CLS]": 2, "<unk>": 9}

    assert special_pieces.find_special_ids(
        ids, special_pieces.SENTENCEPIECE_NAMES, "any.model"
    ) == special_pieces.SpecialIds(pad=5, unk=9, cls=2, sep=0, mask=7)


def test_missing_special_pieces_are_named_with_the_file():
    ids = {"[PAD]": 0, "[UNK]": 1, "[SEP]": 2}

    with pytest.raises(
        ValueError, match=r"my.txt: .* no piece \[CLS\], \[MASK\], which"
    ):
        special_pieces.find_special_ids(
            ids, special_pieces.WORDPIECE_NAMES, "my.txt"
        )
