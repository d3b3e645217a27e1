from albert_tf.tasks.classification.config import ClassificationConfig


def test_a_table_has_the_columns_of_the_flags():
    config = ClassificationConfig(
        task_name="Custom",
        text_columns=("subject", "body"),
        label_column="topics",
        id_column="key",
        multi_label=True,
        label_separator="|",
    )

    assert config.name == "custom"
    assert config.columns.texts == ("subject", "body")
    assert config.columns.label == "topics"
    assert config.columns.guid == "key"
    assert config.columns.separator == "|"
