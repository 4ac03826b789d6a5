"""What the observer reads of a conversation: dated, numbered, bounded, and nothing that it must not see."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memolog.core.message import FilePart, Message, Part, ReasoningPart, TextPart
from memolog.observer.transcript import PartWriter, split, transcript
from memolog.text.redaction import NO_REDACTION
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter
from prompts.talk import KEY, START, TALK, ZONE, call, message, result

HEURISTIC = HeuristicCounter()
EXACT = SplintrCounter()


def text_of(*messages: Message) -> str:
    """Return the transcript of some messages."""
    return transcript(messages, PartWriter(counter=HEURISTIC, zone=ZONE)).text


def test_messages_are_numbered_and_dated_in_the_zone_of_the_user() -> None:
    """Times are in the zone of the user, and each day has one heading."""
    read = transcript(TALK, PartWriter(counter=HEURISTIC, zone=ZONE))
    assert read.text.startswith(
        '<day>Saturday 2026-03-14, UTC+01:00</day>\n<message>[1] 09:16 user "Alice":\nThe VAT total'
    )
    assert read.text.count("<day>") == 2
    assert "<day>Monday 2026-03-16, UTC+01:00</day>\n<message>[5] 00:15 user:" in read.text
    assert [(shown.number, shown.seq, shown.role) for shown in read.shown] == [
        (1, 1, "user"),
        (2, 2, "assistant"),
        (3, 3, "tool"),
        (4, 4, "tool"),
        (5, 6, "user"),
        (6, 7, "assistant"),
    ]
    assert read.shown[4].at == START + timedelta(days=1, hours=15)


def test_a_change_of_the_offset_is_a_new_day_line() -> None:
    """Times before and after a change of the clocks cannot be confused."""

    class Summer(tzinfo):
        """An hour more from April on."""

        def utcoffset(self, dt: datetime | None) -> timedelta:
            return timedelta(hours=1 if dt is None or dt.month < 4 else 2)

        def dst(self, dt: datetime | None) -> timedelta:
            return self.utcoffset(dt) - timedelta(hours=1)

    read = transcript([message(1, "user", "a"), message(2, "user", "b", created_at=START + timedelta(days=30))],
                      PartWriter(counter=HEURISTIC, zone=Summer()))  # fmt: skip
    assert "2026-03-14, UTC+01:00" in read.text
    assert "2026-04-13, UTC+02:00" in read.text


@pytest.mark.parametrize("moment", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_moments_at_the_edge_of_time_are_shown(moment: datetime) -> None:
    """A moment that does not exist in the zone is told in UTC instead of raising."""
    text = text_of(message(1, "user", "old", created_at=moment))
    assert moment.date().isoformat() in text


def test_errors_and_continuations_say_so() -> None:
    """A call with its result, and one without, are in the snapshots."""
    assert '<result state="error">run\nboom</result>' in text_of(
        message(8, "tool", result("boom", name="run", is_error=True))
    )
    assert "[1] 09:16 assistant (continued):" in text_of(message(1, "assistant", "more", continuation=1))


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ([result("x", "gone")], "used the memory; the answer is not shown"),
        ([call("task-mutate", '{"action":"claim"}')], "used task-mutate claim; the answer is not shown"),
        ([call("task-query", "not JSON")], "used task-query; the answer is not shown"),
        ([TextPart(text="the whole log")], "used the memory; the answer is not shown"),
    ],
)
def test_own_messages_of_any_shape_are_one_line(parts: list[Part], line: str) -> None:
    """The content of a message of Memolog's tools is never shown."""
    assert f":\n{line}\n</message>" in text_of(message(1, "tool", *parts, own=True))


def test_tombstones_are_left_out() -> None:
    """What was withdrawn or forgotten is neither shown nor numbered."""
    text = text_of(message(1, "user", "a"), message(2, "user", "secret b", state="withdrawn"), message(3, "user", "c"))
    assert "secret" not in text
    assert "[2] 09:18 user:\nc" in text


def test_files_are_placeholders() -> None:
    """A file is named with its type and size; its bytes and what opens it are not shown."""
    text = text_of(
        *TALK,
        message(8, "user", FilePart(media_type="audio/mp3", url="data:audio/mp3;base64,QUFB", seconds=3.5)),
        message(9, "tool", result("see", "c9", files=(FilePart(media_type="image/png", data=b"abc"),))),
    )
    assert "<file>receipt.png, image/png, 640×480, 34 kB</file>" in text
    assert "<file>application/pdf, 12 pages, https://example.com/law.pdf</file>" in text
    assert "<file>audio/mp3, 3.5 s</file>" in text
    assert "<file>image/png, 3 bytes</file>" in text


def test_signatures_and_encrypted_blobs_are_never_shown() -> None:
    """Reasoning is shown without its signature, and so are results and parts of unknown kinds."""
    blob = "QUJD" * 500
    text = text_of(
        *TALK,
        message(8, "assistant", ReasoningPart(encrypted="only a blob")),
        message(9, "tool", result([{"type": "hit", "encrypted_content": "BBBB", "title": "found"}], "c9")),
        message(10, "tool", result(f"image data:image/png;base64,{blob} and {blob} end", "c10")),
    )
    for hidden in ("c2lnbmF0dXJl", "ZW5jcnlwdGVk", "AAAA", "only a blob", "BBBB", blob):
        assert hidden not in text
    assert "<reasoning>The rate table may be off.</reasoning>" in text
    assert '"title":"found"' in text
    assert "end</result>" in text


def test_secrets_are_redacted_everywhere() -> None:
    """Text, arguments, results, names and file names are shown without keys; switched off, they are."""
    key = KEY
    messages = [
        message(1, "user", f"key {key}", FilePart(media_type="a/b", name=f"{key}.txt"), speaker=key),
        message(2, "assistant", call("run", {"env": key}), ReasoningPart(text=key)),
        message(3, "tool", result({"stdout": key})),
    ]
    assert key not in text_of(*messages)
    assert text_of(*messages).count("Anthropic key") == 6
    assert transcript(messages, PartWriter(counter=HEURISTIC, redactor=NO_REDACTION)).text.count(key) == 6


def test_reasoning_is_shortened_and_tool_results_are_cut_in_the_middle() -> None:
    """Both ends stay, and a mark says how much is missing."""
    rows = "\n".join(f"row {number}" for number in range(20_000))
    read = transcript(
        [message(1, "assistant", ReasoningPart(text=rows), call("cat", rows)), message(2, "tool", result(rows))],
        PartWriter(counter=EXACT),
    )
    assert EXACT.count(read.text) <= 2 * 10_000 + 200 + 100
    for tag in ("reasoning", "call", "result"):
        body = read.text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        assert "row 0" in body
        assert "row 19999" in body
        assert "characters left out …]" in body
    cut = read.text.partition("<result>")[2].partition("</result>")[0]
    missing = int(cut.partition("[… ")[2].partition(" characters")[0].replace(",", ""))
    assert abs(len(rows) - missing - (len(cut) - len(f"[… {missing:,} characters left out …]"))) < 10


def test_a_cut_tears_no_grapheme_and_no_entity() -> None:
    """Neither an emoji of several characters nor an HTML entity is divided."""
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    for filler in (family, "</log>"):
        for size in range(30, 60):
            head, _, tail = PartWriter(counter=HEURISTIC).body(filler * 3_000, size).partition("\n[… ")
            tail = tail.partition("…]\n")[2]
            whole = "&lt;/log>" if filler == "</log>" else family
            for end in (head, tail):
                left = end.replace(whole, "")
                assert left == "" or ("&" not in left.removeprefix("&lt;") and ";" not in left.removeprefix("&lt;"))


def test_lists_of_text_parts_are_shown_as_their_text() -> None:
    """What a tool protocol wraps in parts reads like text."""
    parts = [{"type": "text", "text": "line one"}, {"type": "text", "text": "line two"}]
    assert "line one\nline two</result>" in text_of(message(1, "tool", result(parts)))


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize("counter", [HEURISTIC, EXACT], ids=["heuristic", "exact"])
@pytest.mark.parametrize("most", [200, 500, 3_000])
def test_the_whole_is_bounded(counter: TokenCounter, most: int) -> None:
    """One giant, many giants, many parts or very many messages: the transcript stays within its bound."""
    giant = "word <tag> & " * 100_000
    crowds: list[Sequence[Message]] = [
        [message(1, "user", giant)],
        [message(number, "user", giant[:50_000]) for number in range(1, 20)],
        [message(1, "user", *(FilePart(media_type="a/b") for _ in range(5_000)))],
        [message(number, "user", "tiny") for number in range(1, 3_000)],
        [message(1, "user", giant, call("x", giant), "short"), message(2, "tool", result(giant))],
    ]
    for messages in crowds:
        read = transcript(messages, PartWriter(counter=counter, most_tokens=most))
        assert counter.count(read.text) <= most
        assert "left out" in read.text or "<left-out>" in read.text
        assert read.text.count("<message>") == read.text.count("</message>") == len(read.shown) > 0


def test_short_messages_keep_their_words_beside_a_giant() -> None:
    """Only the long message is shortened."""
    read = transcript(
        [message(1, "user", "We chose port 8443."), message(2, "tool", result("x y " * 100_000))],
        PartWriter(counter=HEURISTIC, most_tokens=400),
    )
    assert "We chose port 8443.\n</message>" in read.text
    assert HEURISTIC.count(read.text) > 300


part_texts = st.text(max_size=300)
rows = st.lists(st.tuples(st.sampled_from(["user", "assistant", "pair"]), part_texts, st.integers(1, 40)), max_size=25)


@settings(max_examples=60, deadline=None)
@given(rows=rows, most=st.integers(200, 1_500))
def test_pieces_are_consecutive_whole_and_within_the_bound(rows: list[tuple[str, str, int]], most: int) -> None:
    """Every message is in exactly one piece, in order; pairs stay together; each transcript fits."""
    messages: list[Message] = []
    for role, text, times in rows:
        seq = len(messages) + 1
        if role == "pair":
            messages += [
                message(seq, "assistant", call("x", text, f"c{seq}")),
                message(seq + 1, "user", "meanwhile"),
                message(seq + 2, "tool", result(text * times, f"c{seq}")),
            ]
        else:
            messages.append(message(seq, "user" if role == "user" else "assistant", text * times))
    pieces = split(messages, PartWriter(counter=HEURISTIC, most_tokens=most))
    assert [one for piece in pieces for one in piece] == messages
    for piece in pieces:
        assert HEURISTIC.count(transcript(piece, PartWriter(counter=HEURISTIC, most_tokens=most)).text) <= most
        calls = {part.id for one in piece for part in one.parts if part.type == "tool_call"}
        answers = {part.call_id for one in piece for part in one.parts if part.type == "tool_result"}
        assert calls == answers


def test_pieces_are_not_smaller_than_they_need_be() -> None:
    """Small messages share a piece."""
    messages = [message(number, "user", "twenty words " * 10) for number in range(1, 41)]
    pieces = split(messages, PartWriter(counter=HEURISTIC, most_tokens=1_000))
    assert 2 <= len(pieces) <= 4
