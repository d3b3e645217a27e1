"""Writes the same texts in every format that `Documents` reads."""

import bz2
import gzip
import json

import pytest

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
