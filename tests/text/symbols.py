"""Lists of symbols that are no words."""

import json

from albert_tf.text import tokenizer

# As PL-BERT's: padding, marks, a blank, capitals, letters and marks of IPA; the
# apostrophe comes twice, the second time behind a combining mark.
SYMBOLS = "$,. MUabhdtʃəlˈoʊwɜː'\u0361\u0329'"
PHONEMES = {
    "symbols": SYMBOLS,
    "special": {"pad": "$", "unk": "U", "mask": "M"},
    "word_border": " ",
}
LONG = {
    "symbols": {"$": 0, "t": 3, "ʃ": 4, "tʃ": 9, "aɪ": 7, "U": 5, "M": 6},
    "special": {"pad": "$", "unk": "U", "mask": "M"},
}
EVENTS = {
    "symbols": ["<pad>", "?", "login", "buy", "[CLS]", "[SEP]", "[MASK]"],
    "special": {
        "pad": "<pad>",
        "unk": "?",
        "cls": "[CLS]",
        "sep": "[SEP]",
        "mask": "[MASK]",
    },
    "are_separated": True,
}


def write(folder, values=PHONEMES):
    """Writes a list; returns its path."""
    path = folder / "a.symbols.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def load(folder, values=PHONEMES):
    """Returns the tokenizer of a list."""
    return tokenizer.load_tokenizer(vocab_file=write(folder, values))
