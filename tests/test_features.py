from albert_tf import features


def test_static_records_hold_the_fields_the_original_reads():
    # google-research/albert, create_pretraining_data.py: names and kinds of
    # `write_instance_to_example_files`.
    expected = {
        "input_ids": (7, "int64"),
        "input_mask": (7, "int64"),
        "segment_ids": (7, "int64"),
        "token_boundary": (7, "int64"),
        "masked_lm_positions": (3, "int64"),
        "masked_lm_ids": (3, "int64"),
        "masked_lm_weights": (3, "float32"),
        "next_sentence_labels": (1, "int64"),
    }

    found = features.static_pretraining_features(
        max_seq_length=7, max_predictions=3
    )

    assert {f.record_name: (f.length, f.dtype) for f in found} == expected
    renamed = {f.name: f.record_name for f in found if f.name != f.record_name}
    assert renamed == {"sentence_order_labels": "next_sentence_labels"}


def test_dynamic_records_hold_pairs_of_any_length():
    found = features.dynamic_pretraining_features()

    assert {f.name: f.length for f in found} == {
        "pair_ids": None,
        "token_boundary": None,
        "segment_a_length": 1,
        "pair_label": 1,
    }
