"""What SQuAD refuses: flags, files and questions."""

import json

import pytest

from albert_tf.tasks.spec import DataRequest
from albert_tf.tasks.squad import sets as sets_lib
from albert_tf.tasks.squad.sets import SquadConfig

CONTEXT = "Snow is white."
ANSWER = {"text": "Snow", "answer_start": 0}
QUESTION = {"id": "q0", "question": "What is white?", "answers": [ANSWER]}
VERSION_2 = {"version_2_with_negative": True}


def content(*rows):
    paragraph = {"context": CONTEXT, "qas": [QUESTION | row for row in rows]}
    return {"data": [{"title": "Weather", "paragraphs": [paragraph]}]}


@pytest.mark.parametrize(
    ("written", "values", "message"),
    [
        # Files.
        ("{", {}, "squad.json is damaged: it is not JSON"),
        ([], {}, "squad.json is not in SQuAD's format, .* TypeError"),
        ({"questions": []}, {}, "KeyError: 'data'"),
        ({"data": []}, {}, "squad.json has no examples"),
        ({"data": [{"title": "A"}]}, {}, "KeyError: 'context'"),
        (
            content({}, {"id": "q1", "answers": [{"text": "Snow"}]}),
            {},
            "after 1 questions. KeyError: 'answer_start'",
        ),
        *(
            (content(row), {}, f"after 0 questions.*{words}")
            for row, words in (
                ({"is_impossible": "yes"}, "'is_impossible' must be a bool"),
                ({"question": None}, "'question' must be a str, not None"),
                ({"id": 7.5}, "'id' must be a str"),
                ({"answers": ["Snow"]}, "TypeError"),
                ({"answers": [ANSWER | {"answer_start": "four"}]}, "be a int"),
            )
        ),
        (content({}, {}), {}, "two examples have the id 'q0'"),
        # Answers.
        (content({"answers": []}), {}, "1 of 1 .* nor `is_impossible`: q0"),
        (content({"answers": []}), VERSION_2, "1 of 1 questions have neither"),
        (
            content({"answers": [], "is_impossible": True}),
            {},
            "have no answer: q0. Pass --version_2_with_negative",
        ),
        (
            content({}, {"id": "q1", "answers": []}),
            {},
            "1 of 2 questions have no answer: q1",
        ),
        (content({"is_impossible": True}), {}, "question q0 .* has an answer"),
        # Flags.
        (content({}), {"train_file": ""}, "--train_file must be given"),
        (content({}), {"n_best_size": 0}, "`n_best_size` must be a whole num"),
        (content({}), {"start_n_top": 0}, "`start_n_top` must be a whole num"),
        (content({}), {"end_n_top": 17}, "`end_n_top` must be .* at most 16"),
        (content({}), {"dropout_prob": 1.0}, "`dropout_prob` must be"),
        (content({}), {"doc_stride": 0}, "`doc_stride` must be"),
        (content({}), {"max_query_length": 0}, "`max_query_length` must be"),
        (
            content({}),
            {"max_query_length": 93},
            "`max_query_length` must be .* at most 92",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(
    written, values, message, words, tmp_path
):
    path = tmp_path / "squad.json"
    is_text = isinstance(written, str)
    path.write_text(written if is_text else json.dumps(written), "utf-8")

    with pytest.raises(ValueError, match=message):
        sets_lib.read_sets(
            SquadConfig(**{"train_file": str(path)} | values),
            DataRequest(uses=["train"], tokenizer=words, max_seq_length=96),
        )
