"""What can be fine-tuned, by the names that users know the tasks by."""

from albert_tf import checks
from albert_tf.tasks.classification import sets as classification
from albert_tf.tasks.race import sets as race
from albert_tf.tasks.spec import FinetuningSpec
from albert_tf.tasks.squad import sets as squad

FINETUNINGS = (classification.FINETUNING, squad.FINETUNING, race.FINETUNING)


def find(task_name: str | FinetuningSpec) -> FinetuningSpec:
    """Returns what a task is fine-tuned with; its case does not matter."""
    if isinstance(task_name, FinetuningSpec):
        return task_name
    names = {name: one for one in FINETUNINGS for name in one.task_names}
    checks.check_choice("task_name", task_name.lower(), tuple(names))
    return names[task_name.lower()]
