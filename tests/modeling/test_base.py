"""How layers are saved; `test_conformance` has more."""

import pytest

from albert_tf.modeling.albert_model import AlbertModel


def test_what_is_known_of_one_model_is_not_shared_with_another():
    with pytest.raises(TypeError):
        AlbertModel.metadata["labels"] = ["spam"]
