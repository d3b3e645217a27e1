import pathlib
import subprocess
import sys

import pytest

from albert_tf.config import AlbertConfig, published_config
from albert_tf.modeling import summary
from albert_tf.modeling.pretraining_model import PretrainingModel

_ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base_v2", 11_683_584),
        ("large_v1", 17_683_968),
        ("xlarge_v2", 58_724_864),
        ("xxlarge_v1", 222_595_584),
        ("base_zh", 10_547_968),
    ],
)
def test_published_models_have_the_published_parameters(name, expected):
    assert summary.encoder_parameters(published_config(name)) == expected


@pytest.mark.parametrize(
    ("embedding_size", "strategy", "millions"),
    [
        (128, "all", 12),
        (128, "attention", 64),
        (128, "ffn", 38),
        (128, "none", 89),
        (768, "all", 31),
        (768, "attention", 83),
        (768, "ffn", 57),
        (768, "none", 108),
    ],
)
def test_sharing_strategies_have_the_sizes_of_table_4(
    embedding_size, strategy, millions
):
    config = AlbertConfig(
        vocab_size=30000,
        embedding_size=embedding_size,
        hidden_size=768,
        num_attention_heads=12,
        intermediate_size=3072,
        parameter_sharing=strategy,
    )

    count = summary.encoder_parameters(config)

    # The last is 109.08 million by the architecture, 108.49 without pooler.
    assert abs(count / 1e6 - millions) < 1.1


def test_the_parts_add_up_to_the_built_model(tiny_config):
    parts = [*summary.encoder_parts(tiny_config)]
    parts += summary.head_parts(tiny_config)

    built = PretrainingModel(tiny_config).count_params()

    assert sum(part.parameters for part in parts) == built


def test_operations_of_one_layer_by_hand():
    config = AlbertConfig(
        vocab_size=100,
        embedding_size=2,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
    )

    flops = {
        part.name: part.flops
        for list_parts in (summary.encoder_parts, summary.head_parts)
        for part in list_parts(config, length=10)
    }

    assert flops["embedding projection"] == 2 * 2 * 4
    # Four 4x4 products; 10 scores of 4 entries, 10 values of 4.
    assert flops["attention sublayers"] == 2 * (4 * 16 + 10 * 4 + 10 * 4)
    assert flops["feed-forward sublayers"] == 2 * (4 * 8 + 8 * 4)
    # 15% of the positions: 4x2 transform and 2x100 decoder.
    assert flops["masked-LM head"] == pytest.approx(
        0.15 * 2 * (4 * 2 + 2 * 100)
    )
    # Once for each sequence of 10.
    assert flops["pooler"] == pytest.approx(2 * 4 * 4 / 10)
    assert flops["sentence-order head"] == pytest.approx(2 * 4 * 2 / 10)


def test_sharing_saves_parameters_and_no_operations():
    shared = summary.encoder_parts(published_config("base_v2"))
    config = AlbertConfig(
        **published_config("base_v2").to_dict() | {"parameter_sharing": "none"}
    )

    apart = summary.encoder_parts(config)

    assert [part.flops for part in shared] == [part.flops for part in apart]


def test_the_table_shows_training_as_three_forward_passes(capsys):
    summary.main(["--config=base_v2", "--length=128"])

    lines = capsys.readouterr().out.splitlines()
    total = next(line for line in lines if line.startswith("total"))
    _, parameters, forward, training = total.split()
    assert parameters == f"{11_683_584 + 128_688 + 2 * 768 + 2:,}"
    config = published_config("base_v2")
    parts = [*summary.encoder_parts(config, 128)]
    parts += summary.head_parts(config, 128)
    millions = sum(part.flops for part in parts) / 1e6
    assert float(forward) == pytest.approx(millions, abs=0.01)
    assert float(training) == pytest.approx(3 * millions, abs=0.01)
    assert any("11,683,584" in line for line in lines)


def test_reads_a_file(tmp_path, capsys):
    path = tmp_path / "albert_config.json"
    published_config("large_v2").to_json_file(path)

    summary.main([f"--config={path}"])

    assert "17,683,968" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config=huge"], "--config=huge is neither a file nor a published"),
        (
            ["--config=base_v2", "--length=0"],
            "`--length` must be a whole number",
        ),
    ],
)
def test_bad_arguments_end_with_one_line(arguments, words):
    with pytest.raises(SystemExit, match=f"error: {words}"):
        summary.main(arguments)


def test_does_not_import_tensorflow():
    program = (
        "import sys; from albert_tf.modeling import summary; "
        "summary.main(['--config=base_v2']); "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )

    subprocess.run([sys.executable, "-c", program], cwd=_ROOT, check=True)
