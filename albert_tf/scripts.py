"""Scripts that are written without blanks between words."""

# Thai, Lao, Tibetan, Burmese, Khmer; kana, ideographs, their halves: for `[]`.
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff"
    "\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
