import io

import pytest

from albert_tf import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_the_progress_bar_is_for_terminals(stream, monkeypatch):
    stderr = stream()
    monkeypatch.setattr("sys.stderr", stderr)

    with progress.bar(total=4, done=1) as bar:
        bar.update()

    assert ("2/4" in stderr.getvalue()) == stderr.isatty()
