import random

import pytest

from albert_tf.serving.graph_tokenizer import make
from tests import tiny

WORDS = ["[E1]", "falkon", "Müll", "co2", "u-boot", "c++", "漢字", "ΑΣ", "fi"]
TEXTS = [
    *("falkon", "a FALKON, falkons", "(Falkon)'s xfalkon", "falkon-FALKON"),
    *("[E1]falkon[E1]", "[falkon] falkon\x00falkon", "Mu\u0308ll müll mull"),
    *("CO2 co23 u-boot U-Boot u - boot", "c++ c+++ C++11", "漢字漢字、x漢字"),
    *("ΑΣ ας ασ ασα", "ﬁ ﬁx fiﬁ", "", "falkon\u0301 falkon\u093e\u200d"),
]


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("kind", ["spm_model_file", "vocab_file"])
def test_new_words_are_whole_words(
    kind, do_lower_case, tiny_spm_model, graph_tokenizer, text_maker, tmp_path
):
    tokens = [*"acfiknlou漢字+2-", "##a", "##l", "##k", "##o", "##n", "##s"]
    path = tiny.write_vocabulary(tmp_path / "vocab.txt", tokens)
    paths = {"spm_model_file": str(tiny_spm_model), "vocab_file": path}
    both = graph_tokenizer(**{kind: paths[kind]}, do_lower_case=do_lower_case)
    both.tokenizer = both.tokenizer.with_tokens(WORDS)
    both.graph = make(both.tokenizer)
    alphabet = [*WORDS, *WORDS, *" .,a1[]+s漢\u0308\u200d", "FALKON", "Σ"]
    rng = random.Random(1)
    texts = ["".join(rng.choices(alphabet, k=9)) for _ in range(2_000)]

    texts += TEXTS + text_maker.many("hard", 200, 7)

    assert both.differences(texts, max_ties=9) == []
