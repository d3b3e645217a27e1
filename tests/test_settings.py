import dataclasses

from albert_tf import settings
from albert_tf.settings import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    ngram: int = setting(3, "Longest n-gram.")
    masking: str = setting(
        "static", "When masks are drawn.", choices=("a", "b")
    )
    plain: int = 1
    rate: float = setting(0.5, "Dropout rate.", affects_training=True)


def test_a_setting_is_a_field_with_default_help_and_choices():
    ngram, masking, plain, _ = dataclasses.fields(Config)

    assert Config() == Config(ngram=3, masking="static", plain=1)
    assert ngram.metadata["help"] == "Longest n-gram."
    assert ngram.metadata["choices"] == ()
    assert masking.metadata["choices"] == ("a", "b")
    assert not plain.metadata


def test_the_settings_of_the_weights_are_named():
    assert settings.affects_training(Config(rate=0.1)) == {"rate": 0.1}
