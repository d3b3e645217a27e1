"""The data half of a task."""

import subprocess
import sys

from albert_tf.tasks import task_data


def test_a_data_half_names_its_records_scores_and_files():
    names = {name for name in vars(task_data.TaskData) if name[0] != "_"}

    assert names == {
        "name",
        "headline",
        "array_specs",
        "settings",
        "vocab_size",
        "records",
        "scores",
        "write_predictions",
    }


def test_it_is_imported_without_tensorflow():
    code = (
        "import sys; import albert_tf.tasks.task_data; "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
