import numpy as np

from albert_tf.data import word_groups

# [CLS] a a' b [SEP] c' d d' d' [SEP] pad, where ' continues a word.
IS_MASKABLE = np.array([[0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0]], bool)
IS_WORD_START = np.array([[1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0]], bool)


def test_pieces_join_the_word_before_them_but_not_across_a_separator():
    words = word_groups.find_words(IS_MASKABLE, IS_WORD_START)

    # Words: a a' | b | c' | d d' d'; 4 stands for no word.
    assert words.of_piece.tolist() == [[4, 0, 0, 1, 4, 2, 3, 3, 3, 4, 4]]
    assert words.bounds.tolist() == [[0, 2, 3, 4, 7]]


def test_words_left_are_counted_to_the_end_of_the_segment():
    words = word_groups.find_words(IS_MASKABLE, IS_WORD_START)

    assert words.num_left.tolist() == [[2, 1, 2, 1]]


def test_a_row_with_fewer_words_proposes_nothing_beyond_them():
    maskable = np.array([[0, 1, 1, 1, 0], [0, 1, 0, 0, 0]], bool)

    words = word_groups.find_words(maskable, np.ones_like(maskable))

    assert words.num_left.tolist() == [[3, 2, 1], [1, 0, 0]]
    assert words.bounds.tolist() == [[0, 1, 2, 3], [0, 1, 1, 1]]


def test_marked_words_become_marked_pieces():
    words = word_groups.find_words(IS_MASKABLE, IS_WORD_START)

    pieces = word_groups.words_to_pieces(
        words, np.array([[True, False, False, True]])
    )

    assert np.nonzero(pieces[0])[0].tolist() == [1, 2, 6, 7, 8]
