"""Tiny data sets in the forms in which LongMemEval, LoCoMo and BEAM are published. Their contents are our own."""

import json
from pathlib import Path
from typing import Any

__all__ = ["write_samples"]


def _turns(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"role": role, "content": text, "has_answer": number == 0}
        for said in pairs
        for number, (role, text) in enumerate(zip(("user", "assistant"), said, strict=True))
    ]


LONGMEMEVAL: list[dict[str, Any]] = [
    {
        "question_id": "q1",
        "question_type": "knowledge-update",
        "question": "How many plants do I water on the balcony?",
        "answer": "nine",
        "question_date": "2024/05/09 (Thu) 10:00",
        "haystack_dates": ["2024/05/07 (Tue) 18:30", "2024/05/02 (Thu) 09:15"],
        "haystack_session_ids": ["answer_b", "answer_a"],
        "answer_session_ids": ["answer_a", "answer_b"],
        "haystack_sessions": [
            _turns(("I bought two ferns, so I water nine plants on the balcony now.", "Nine plants, lovely.")),
            _turns(("I water seven plants on the balcony every evening.", "Seven is a good start.")),
        ],
    },
    {
        "question_id": "q2_abs",
        "question_type": "single-session-user",
        "question": "What is the name of my parrot?",
        "answer": "You did not mention a parrot.",
        "question_date": "2024/05/09 (Thu) 10:00",
        "haystack_dates": ["2024/05/02 (Thu) 09:15"],
        "haystack_session_ids": ["answer_c"],
        "answer_session_ids": ["answer_c"],
        "haystack_sessions": [_turns(("My cat Pixel sleeps all day.", "Cats do that."))],
    },
    {
        "question_id": "q3",
        "question_type": "single-session-preference",
        "question": "Which film should I watch?",
        "answer": "The user prefers short comedies without violence.",
        "question_date": "2024/05/09 (Thu) 10:00",
        "haystack_dates": ["2024/05/02 (Thu) 09:15"],
        "haystack_session_ids": ["answer_d"],
        "answer_session_ids": ["answer_d"],
        "haystack_sessions": [_turns(("I only like short comedies, nothing violent please.", "Understood."))],
    },
]

LOCOMO: list[dict[str, Any]] = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a greyhound called Comet."},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Great! I started pottery on Monday."},
            ],
            "session_2_date_time": "10:05 am on 1 June, 2023",
            "session_2": [
                {"speaker": "Ben", "dia_id": "D2:1", "text": "My first bowl broke.", "blip_caption": "a broken bowl"},
                {"speaker": "Ada", "dia_id": "D2:2", "text": "Oh no! Comet would have licked it clean."},
            ],
        },
        "qa": [
            {"question": "What is Ada's greyhound called?", "answer": "Comet", "evidence": ["D1:1"], "category": 4},
            {
                "question": "In which year did Ben start pottery?",
                "answer": 2023,
                "evidence": ["D1:2; D9:9"],
                "category": 2,
            },
            {
                "question": "What did Ada break?",
                "adversarial_answer": "a bowl",
                "evidence": ["D2:1"],
                "category": 5,
            },
        ],
    }
]

BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "time_anchor": "March-15-2024",
        "turns": [
            [
                {"id": 0, "role": "user", "content": "My locker code is cobalt-7. ->-> 1,1", "time_anchor": None},
                {"id": 1, "role": "assistant", "content": "I will remember the locker code."},
            ],
            [{"id": 2, "role": "user", "content": "  "}],
        ],
    },
    {
        "batch_number": 2,
        "time_anchor": "April-02-2024",
        "turns": [
            [
                {"id": 3, "role": "user", "content": "Please always answer in two sentences."},
                {"id": 4, "role": "assistant", "content": "Two sentences it is. Always."},
            ]
        ],
    },
]
BEAM_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "information_extraction": [
        {
            "question": "What is my locker code?",
            "answer": "cobalt-7",
            "rubric": ["It states cobalt-7."],
            "source_chat_ids": [0],
        }
    ],
    "abstention": [
        {
            "question": "Where is my locker?",
            "ideal_response": "There is no information about that.",
            "rubric": ["It says that this is not known."],
        }
    ],
    "instruction_following": [
        {
            "question": "How do I open it?",
            "expected_compliance": "An answer of two sentences.",
            "rubric": ["It has two sentences.", "It mentions the code."],
            "source_chat_ids": {"first": [0], "second": [3, 99]},
        }
    ],
}


def write_samples(folder: Path) -> None:
    """Write one file or folder of each data set."""
    (folder / "longmemeval_oracle.json").write_text(json.dumps(LONGMEMEVAL))
    (folder / "locomo10.json").write_text(json.dumps(LOCOMO))
    probing = folder / "beam" / "100K" / "1" / "probing_questions"
    probing.mkdir(parents=True)
    (probing / "probing_questions.json").write_text(json.dumps(BEAM_QUESTIONS))
    (probing.parent / "chat.json").write_text(json.dumps(BEAM_CHAT))
