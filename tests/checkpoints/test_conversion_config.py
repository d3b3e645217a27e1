from albert_tf.checkpoints.conversion_config import ConversionConfig


def test_only_paths_and_the_format_are_needed():
    config = ConversionConfig(
        input_path="a", output_path="b", output_format="tf1"
    )

    assert (config.spm_model_file, config.do_lower_case) == (None, None)
