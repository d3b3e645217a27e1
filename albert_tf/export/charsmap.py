"""The normalisation rules inside a SentencePiece model.

Data flow: model -> [this file] -> rules -> `sentencepiece_graph`.

A model carries its rules as bytes: a double array (Aoe 1989, as in Darts) over
UTF-8, whose values are offsets into text. Of some 200,000 rules, only those
that our own normalisation can meet are read.

Floor: export.

Source: google/sentencepiece, normalizer.cc (format of the bytes).
"""

from collections.abc import Iterator, Set

import numpy as np

_HEADER_SIZE = 4
_VALUE_BITS = np.uint32(0x7FFFFFFF)
_LABEL_BITS = np.uint32(0x800000FF)
_NUM_BYTES = 256


def read_rules(charsmap: bytes, alphabet: Set[str]) -> dict[str, str]:
    """Returns what sequences become.

    Args:
        charsmap: `precompiled_charsmap` of a model; may be empty.
        alphabet: The characters that sequences may be made of.

    Raises:
        ValueError: The bytes are damaged.
    """
    if not charsmap:
        return {}
    try:
        rules = _Rules(charsmap)
        return dict(rules.find(0, "", alphabet))
    except (IndexError, ValueError) as error:
        raise ValueError(
            "The normalisation rules of the SentencePiece model are damaged. "
            "Use the model as it was published."
        ) from error


class _Rules:
    """The double array and the texts that it points to."""

    def __init__(self, charsmap: bytes) -> None:
        size = int.from_bytes(charsmap[:_HEADER_SIZE], "little")
        trie = charsmap[_HEADER_SIZE : _HEADER_SIZE + size]
        self._texts = charsmap[_HEADER_SIZE + size :]
        self._units = np.frombuffer(trie, np.dtype("<u4"))
        shift = (self._units & (1 << 9)) >> 6
        offsets = ((self._units >> 10) << shift).astype(np.int64)
        # The child that a label leads to lies at `base ^ label`.
        self._bases = np.arange(len(offsets)) ^ offsets
        self._labels = self._units & _LABEL_BITS

    def find(
        self, node: int, prefix: str, alphabet: Set[str]
    ) -> Iterator[tuple[str, str]]:
        """Yields the rules below a node that stands for a whole prefix."""
        for code, character_node in self._characters(node, b""):
            character = code.decode()
            if character not in alphabet:
                continue
            sequence = prefix + character
            value = self._value(character_node)
            if value is not None:
                yield sequence, value
            yield from self.find(character_node, sequence, alphabet)

    def _characters(
        self, node: int, code: bytes
    ) -> Iterator[tuple[bytes, int]]:
        """Yields the UTF-8 characters that leave a node."""
        if code and len(code) == _code_size(code[0]):
            yield code, node
            return
        wanted = np.arange(1, _NUM_BYTES)
        places = self._bases[node] ^ wanted
        wanted = wanted[places < len(self._units)]
        places = places[places < len(self._units)]
        is_child = self._labels[places] == wanted
        for place, label in zip(
            places[is_child].tolist(), wanted[is_child].tolist(), strict=True
        ):
            yield from self._characters(place, code + bytes([label]))

    def _value(self, node: int) -> str | None:
        if not self._units[node] >> 8 & 1:
            return None
        place = self._bases[node]
        start = int(self._units[place] & _VALUE_BITS)
        return self._texts[start : self._texts.index(b"\0", start)].decode()


def _code_size(first_byte: int) -> int:
    """Returns how many bytes a UTF-8 character has."""
    return 1 + sum(first_byte >= least for least in (0xC0, 0xE0, 0xF0))
