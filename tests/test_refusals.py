"""What the root modules refuse: one table of inputs and messages."""

import pytest

from albert_tf import files, globs


def written(tmp_path, data):
    path = tmp_path / "values.json"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("call", "argument", "message"),
    [
        (files.check_local, "gs://b/corpus.txt", "remote path. Mount or copy"),
        (globs.expand_globs, "memory://nowhere/*", "No file matches 'mem"),
        (globs.expand_globs, "a/b*.txt", r"No file matches 'a/b\*"),
        (globs.shard_names, "train@0", "must have 1 to 99999 shards"),
        (globs.shard_names, "train@100000", "must have 1 to 99999"),
        (files.read_bytes, "s4://b/a", "'s4://b/a' cannot be read .*s4"),
    ],
)
def test_wrong_names_are_errors(call, argument, message):
    with pytest.raises((ValueError, OSError), match=message):
        call(argument)


@pytest.mark.parametrize(
    ("read", "data", "message"),
    [
        (files.read_text, b"Zo\xeb", r"values\.json' is not UTF-8 text"),
        (files.read_json, b"{", "values.json is damaged: it is not JSON"),
        (files.read_json_object, b"3", "expected a JSON object, found int"),
        (files.read_json_lines, b"1\n{\n", "damaged: line 2 is not JSON"),
    ],
)
def test_damaged_files_are_errors_that_name_them(tmp_path, read, data, message):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, data))


def test_another_value_than_an_object_is_an_error():
    with pytest.raises(ValueError, match="x.json.*as 'a', found list. Restore"):
        files.object_of({"a": []}, "a", "x.json")
