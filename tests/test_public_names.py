import pytest

import albert_tf


@pytest.mark.parametrize("name", albert_tf.__all__)
def test_every_public_name_is_there_and_listed(name):
    assert getattr(albert_tf, name).__name__ == name
    assert name in dir(albert_tf)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(AttributeError, match="'Bert'.*AlbertConfig, Albert"):
        albert_tf.Bert  # noqa: B018
