"""Hard texts, and the same texts in every format that `Documents` reads."""

import bz2
import gzip
import json

import pytest
from hypothesis import strategies as st

# Letters with accents in both forms, ligatures, fractions, Hangul, spaces of
# several kinds, controls, and characters that lower-case oddly.
_HARD = "aZ é\u0301ñ\tﬁ½1,İΣσ한\u1112\u1161\u00a0\u3000\x00\x1c你！\u0345ẞ$^"
hard_texts = st.text(max_size=40) | st.text(st.sampled_from(_HARD), max_size=40)
NAMES = [
    *("a.jsonl", "a.jsonl.gz", "a.jsonl.bz2", "a.jsonl.zst", "a.parquet"),
    *("wiki.xml", "wiki.xml.gz", "wiki.xml-p1p41242.bz2", "wiki.xml.zst"),
]


def write(path, texts, field="text"):
    """Writes texts in the format that the name of the file says."""
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({field: texts}), path)
        return
    if ".xml" in path.name:
        pytest.importorskip("mwparserfromhell")
        pages = "".join(
            f"<page><ns>0</ns><revision><text>{text}</text></revision></page>"
            for text in texts
        )
        data = f"<mediawiki>{pages}</mediawiki>".encode()
    else:
        data = "\n".join(json.dumps({field: text}) for text in texts).encode()
    if path.suffix == ".zst":
        data = pytest.importorskip("backports.zstd").compress(data)
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
