from albert_tf.data.build_summary import BuildCounts, BuildReport

COUNTS = BuildCounts(
    documents=3,
    sentences=1200,
    pieces=20_000,
    unknown_pieces=50,
    chunks_without_pair=7,
    records=400,
    label_1_records=190,
    record_pieces=40_000,
    masked_pieces=6_000,
)


def report(**changes):
    values = {
        "counts": COUNTS,
        "built": COUNTS,
        "kept_files": (),
        "seconds": 2.0,
        "masking": "static",
        "pair_objective": "sop",
        "max_seq_length": 128,
    }
    return BuildReport(**values | changes)


def lines(text):
    pairs = (line.split("  ", 1) for line in str(text).splitlines())
    return {name: value.strip() for name, value in pairs}


def test_counts_add_up():
    total = COUNTS + COUNTS + BuildCounts(documents=1)

    assert total.documents == 7
    assert total.record_pieces == 80_000


def test_the_summary_of_a_static_build():
    assert lines(report()) == {
        "documents": "3",
        "sentences": "1,200",
        "pieces": "20,000",
        "unknown pieces": "0.25%",
        "records": "400",
        "chunks without a pair": "7",
        "label 1": "47.5%",
        "mean length": "100.0 of 128",
        "padding": "21.9%",  # 1 - 100 / 128
        "masked pieces": "15.0%",
        "pieces a second": "10,000 read, 20,000 written",
    }


def test_what_a_dynamic_build_leaves_to_the_reader_is_said():
    summary = lines(report(masking="dynamic"))

    assert summary["label 1"] == "half, drawn when read"
    assert summary["masked pieces"] == "drawn when read"


def test_next_sentence_labels_are_drawn_at_the_build():
    summary = lines(report(masking="dynamic", pair_objective="nsp"))

    assert summary["label 1"] == "47.5%"


def test_single_segments_have_no_labels():
    assert lines(report(pair_objective="none"))["label 1"] == "no pairs"


def test_a_run_that_found_all_finished_has_no_speed():
    text = str(report(built=BuildCounts(), kept_files=("a", "b")))

    first, second, *rest = text.splitlines()
    summary = lines("\n".join(rest))
    assert first == "a is finished; it is kept"
    assert second == "b is finished; it is kept"
    assert summary["pieces a second"] == "nothing to build"
    assert summary["records"] == "400"
