"""Passages written for these tests, in RACE's layout."""

import json

import pytest

from albert_tf.tasks.race.examples import MultipleChoiceExample

PASSAGES = {
    "train/middle": [
        {
            "id": "middle1.txt",
            "article": "Ann has a red boat. She sails it on the lake.",
            "questions": ["What colour is the boat?", "Ann _ on the lake."],
            "options": [
                ["Red.", "Blue.", "Green.", "White."],
                ["swims", "sails", "skates", "sleeps"],
            ],
            "answers": ["A", "B"],
        }
    ],
    "dev/middle": [
        {
            "id": "middle2.txt",
            "article": "Tom lost his dog in the park on Monday.",
            "questions": ["Who lost a dog?"],
            "options": [["Ann", "Tom", "Bob", "Sue"]],
            "answers": ["B"],
        }
    ],
    "dev/high": [
        {
            "id": "high3.txt",
            "article": "The old bridge fell because nobody repaired it.",
            "questions": ["Why did the bridge fall?", "When was that"],
            "options": [
                ["Rain", "Age", "Neglect", "War"],
                ["Then", "Now", "Never", "Once"],
            ],
            "answers": ["C", "D"],
        }
    ],
    "test/high": [
        {
            "id": "high4.txt",
            "article": "A letter came for Sue. It was from the king.",
            "questions": ["From whom was the letter?"],
            "options": [["The queen", "The king", "A friend", "A bank"]],
        }
    ],
}
# A line of JSON.
QUESTION = {
    "id": "q1",
    "article": "Snow is white.",
    "question": "What is white?",
    "options": ["Snow", "Coal", "Grass"],
    "answer": "A",
}


@pytest.fixture
def race_folder(tmp_path):
    """Train, dev and unlabelled test passages, one a file."""
    for part, passages in PASSAGES.items():
        folder = tmp_path / "RACE" / part
        folder.mkdir(parents=True)
        for passage in passages:
            name = passage["id"].removeprefix(part.split("/")[1])
            (folder / name).write_text(json.dumps(passage), encoding="utf-8")
    return tmp_path


@pytest.fixture
def make_example():
    """Makes a question; arguments override."""

    def make(**changes):
        settings = {
            "guid": "1",
            "article": "Snow is white.",
            "question": "What is white?",
            "options": ("Snow", "Coal", "Grass"),
            "label": 0,
        }
        return MultipleChoiceExample(**settings | changes)

    return make
