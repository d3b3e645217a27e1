"""Texts that are hard on words and offsets."""

NASTY = [
    "",
    "   ",
    "Angela Merkel visited Paris.",
    "U.S. don't, 1,234.5 (e-mail) @a_1 #x ... 25, x25,",
    "line\r\nbreak\ttab \u2028 no\u00a0break\x1cfile\x85next",
    "👩‍👩‍👧‍👦 🇩🇪😀😀 ﷺ ½ ⅣΑΣ ΑΣ'Α Σ",
    "cafe\u0301 e\u0327\u0301 \u0301x \u200b a\u200bb \ufeff",
    "他在北京（Beijing）工作，你好！漢" * 9,
    "nul\0nul \0 ##ing [MASK] [CLS] <pad> ▁a ▁",
    "한국어 \u1112\u1161\u11ab です。",
]
