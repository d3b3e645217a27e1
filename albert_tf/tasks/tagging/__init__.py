"""Tags of words: named entities, parts of speech, word segmentation."""
