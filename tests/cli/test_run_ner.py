"""The command of tagging, from its flags to its files."""

import json

import albert_tf

ROWS = [
    f"{name}\tB-PER\nis\tO\nin\tO\n{city}\tB-LOC\n"
    for name in ("anna", "ben", "cleo", "dora")
    for city in ("rome", "oslo", "lima", "york")
]


def test_it_trains_evaluates_and_predicts(run_alone, model_flags, tmp_path):
    (tmp_path / "train.conll").write_text("\n".join(ROWS))
    (tmp_path / "new.txt").write_text("dora\nis\nin\nlima\n")

    done = run_alone(
        "run_ner.py",
        *model_flags,
        "--train_file=train.conll",
        "--predict_file=new.txt",
        "--validation_share=0.25",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--train_step=100",
        "--save_checkpoints_steps=50",
        "--learning_rate=0.01",
        "--output_dir=run",
        folder=tmp_path,
    )

    assert "f1 = 1\n" in done.stdout
    assert "Tags (IOB2): O, B-LOC, B-PER" in done.stderr
    run = tmp_path / "run"
    tags = "dora\tB-PER\nis\tO\nin\tO\nlima\tB-LOC\n\n"
    assert (run / "predictions.conll").read_text() == tags
    [line] = (run / "predictions.jsonl").read_text().splitlines()
    [answer] = albert_tf.load_predictor(run).predict(
        [["dora", "is", "in", "lima"]]
    )
    assert json.loads(line)["tags"] == answer["tags"]
    assert "Scores of entities" in (run / "report.html").read_text()
