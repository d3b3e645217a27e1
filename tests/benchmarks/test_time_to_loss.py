import json

from benchmarks import time_to_loss


def test_seconds_are_of_the_batches_of_each_phase(tmp_path):
    lines = [
        {"step": 2, "sequences_per_second": 4, "batch_size": 8},
        # Something else ran on the machine: the median is 4.
        {"step": 4, "sequences_per_second": 1, "batch_size": 8},
        {"step": 6, "sequences_per_second": 4, "batch_size": 8},
        {"step": 7, "sequences_per_second": 5, "batch_size": 20},
        # More masked words take longer.
        {"step": 8, "sequences_per_second": 2, "masked_lm_prob": 0.4},
        {"step": 8, "eval_masked_lm_loss": 6.0},
    ]
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "metrics.jsonl").write_text(text)
    (tmp_path / "run.json").write_text('{"train_batch_size": 20}')

    *_, last = time_to_loss.timed_lines(tmp_path)

    # 6 x 8 sequences, 4 a second; then 20, 5 a second; then 20, 2 a second.
    assert last["seconds"] == 12 + 4 + 10
