"""What stands in prompts, and what never does."""

from dataclasses import replace

import pytest

from memolog.core.config import Config
from memolog.core.message import FilePart
from memolog.core.thread import Hints
from memolog.errors import InputError
from memolog.observer.prompt import (
    Gaps,
    ObserveInput,
    ReflectInput,
    observer_batch_prompt,
    observer_prompt,
    reflector_prompt,
)
from memolog.observer.reply import failure, parse_batch, parse_reflection
from memolog.text.redaction import redactor_for
from memolog.text.tokens import HeuristicCounter, SplintrCounter
from prompts.talk import START, TALK, message
from prompts.test_snapshots import LOG

COUNTER = HeuristicCounter()


def section(text: str, tag: str) -> str:
    """Return what a prompt holds between two tags."""
    return text.partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0]


@pytest.mark.parametrize("tokens", [0, 1, 20, 200, 2_000])
def test_the_end_of_the_log_is_bounded(tokens: int) -> None:
    """Its last whole lines are shown, as many as fit; the newest line is worth more than the oldest."""
    counter = SplintrCounter()
    log = "\n".join(f"* 🟡 (09:{minute:02}) line number {minute}" for minute in range(60)) * 5
    long = (*TALK, replace(TALK[-1], tokens=10_000))
    prompt = observer_prompt(ObserveInput(messages=long, previous=log, previous_tokens=tokens), counter)
    end = section(prompt.text, "log-end")
    assert counter.count(end) <= tokens
    assert log.endswith(end)
    assert (len(end) > tokens) is (tokens >= 20)


@pytest.mark.parametrize(("new", "most"), [(100, 400), (5_000, 1_000), (9_000, 1_800), (100_000, 2_000)])
def test_the_end_of_the_log_is_in_proportion_to_what_is_new(new: int, most: int) -> None:
    """It has a fifth of the tokens of the new messages, between 400 and the setting."""
    log = "\n".join(f"* 🟡 (09:{minute:02}) line number {minute}" for minute in range(60)) * 10
    messages = (replace(TALK[0], tokens=new),)
    end = section(observer_prompt(ObserveInput(messages=messages, previous=log), COUNTER).text, "log-end")
    assert 0.8 * most < COUNTER.count(end) <= most


def test_a_small_setting_of_the_end_of_the_log_is_kept() -> None:
    """The least size of the end of the log does not exceed the setting, so 0 still shows none."""
    prompt = observer_prompt(ObserveInput(messages=TALK, previous="* 🟡 (09:00) a line", previous_tokens=0), COUNTER)
    assert "<log-end>" not in prompt.text


def test_a_log_of_one_endless_line_is_cut() -> None:
    """The maximum of the log's end also holds for one very long line."""
    prompt = observer_prompt(ObserveInput(messages=TALK, previous="a b " * 50_000, previous_tokens=100), COUNTER)
    assert 50 < COUNTER.count(section(prompt.text, "log-end")) <= 100


def test_what_is_escaped_already_is_not_escaped_again() -> None:
    """The log is escaped already. Only an unescaped tag of ours in it is escaped."""
    prompt = observer_prompt(ObserveInput(messages=TALK, previous="a &lt;b> &amp; </log-end> c"), COUNTER)
    assert section(prompt.text, "log-end") == "a &lt;b> &amp; &lt;/log-end> c"


def test_further_patterns_are_redacted_in_the_log_and_the_hints_too() -> None:
    """What an application calls a secret is one everywhere in the prompt."""
    given = ObserveInput(
        messages=(message(1, "user", "badge B-1234"),),
        previous="B-1234 again",
        hints=Hints(current_task="find B-1234"),
        redactor=redactor_for(Config(redact_patterns=r"badge: B-\d{4}")),
    )
    prompt = observer_prompt(given, COUNTER)
    assert "B-1234" not in prompt.text
    assert prompt.text.count("[redacted: badge]") == 3


def test_a_batch_needs_a_thread() -> None:
    """Nothing to observe is a mistake of the caller."""
    with pytest.raises(InputError):
        observer_batch_prompt([], COUNTER)


def test_lost_names_are_bounded() -> None:
    """A long list of lost names does not fill the prompt."""
    prompt = reflector_prompt(
        ReflectInput(observations=LOG, target_tokens=100, gaps=Gaps(names=tuple("x" * 5_000 for _ in range(5_000))))
    )
    assert COUNTER.count(prompt.text) < 15_000


def test_reflectors_see_which_thread_a_line_is_of_and_how_each_stands() -> None:
    """Where several threads share the log, lines and hints carry their short names."""
    given = ReflectInput(
        observations=LOG,
        target_tokens=100,
        aliases={"thread-1": "t1", "thread-2": "t2"},
        thread_hints={"thread-2": Hints(current_task="write the letter", title="Letter")},
    )
    text = reflector_prompt(given).text
    log = section(text, "log").split("\n")
    assert log[1].startswith("o1 t1 🔴 (08:15) User bakes")
    assert log[4].startswith("o4 t2 🟡 (08:15) Agreed opening")
    assert section(text, "hints") == "t2 current task: write the letter\nt2 title: Letter"
    assert '<thread id="t2">' in text
    assert "<thread " not in reflector_prompt(replace(given, aliases={}, thread_hints={})).text


def test_reflectors_see_each_line_in_its_own_zone() -> None:
    """A line has the hour and the day of its own zone, as in the log."""
    lines = (replace(LOG[0], zone="+02:00"), replace(LOG[1], zone="-09:00"), replace(LOG[3], zone=None))
    log = section(reflector_prompt(ReflectInput(observations=lines, target_tokens=100)).text, "log").split("\n")
    assert log[0] == "Date: 2026-03-14"
    assert [line.partition("(")[2][:5] for line in log if line.startswith("o")] == ["10:15", "23:15", "08:15"]
    assert log[2] == "Date: 2026-03-13"


def test_what_a_reflector_says_of_threads_is_kept_apart() -> None:
    """Hints belong to the thread of their section. Lines inside a section count, and a thread's name moves after the mark."""
    reply = """<observations>
* t2 🔴 (08:15) Letters begin with Dear [o4]
* 🔴 (08:16) t1: Bread is sold [o1]
* o2 t1,t2 🟡 (08:17) Both read rates.csv [o2,o3]
</observations>
<thread id="t2">
<off-track>It writes poems; return to the letter.</off-track>
<observations>
* ✅ The letter was sent [o5]
</observations>
</thread>
<thread id="t1"><current-task>count loaves</current-task></thread>
<thread id="t9"><current-task>nonsense</current-task></thread>"""
    parsed = parse_reflection(reply, 6, ["t1", "t2"])
    assert [line.text for line in parsed.lines] == [
        "t2: Letters begin with Dear",
        "t1: Bread is sold",
        "Both read rates.csv",
        "The letter was sent",
    ]
    assert [line.priority for line in parsed.lines] == ["high", "high", "medium", "done"]
    assert set(parsed.threads) == {"t1", "t2"}
    assert parsed.threads["t2"].off_track == "It writes poems; return to the letter."
    assert parsed.threads["t1"].current_task == "count loaves"
    assert parsed.hints.off_track is None
    assert parsed.hints.current_task is None
    assert failure(parsed) is None


# ---------------------------------------------------------------- batches

BATCH = observer_batch_prompt(
    [
        ObserveInput(
            messages=(message(1, "user", "tea", thread="a"), message(2, "user", "rain", thread="a")), alias="t1"
        ),
        ObserveInput(messages=(message(1, "user", "rice", thread="b"),), alias="t2"),
    ],
    COUNTER,
)
ALIASES = {"t1": "a", "t2": "b"}


def test_a_batch_attaches_the_files_of_every_thread_that_may() -> None:
    """Each file is listed with the number of its message, which is unique in the prompt."""
    image = FilePart(media_type="image/png", data=b"png", name="plan.png")
    spans = {
        name: (message(1, "user", "look", thread=name), message(2, "user", image, thread=name)) for name in ("a", "b")
    }
    inputs = [ObserveInput(messages=span, alias=name, attach_files=True) for name, span in spans.items()]
    prompt = observer_batch_prompt(inputs, COUNTER)
    assert prompt.files == (image, image)
    assert section(prompt.text, "attached") == "1. plan.png, of message [2]\n2. plan.png, of message [4]"
    assert observer_batch_prompt([replace(given, attach_files=False) for given in inputs], COUNTER).files == ()


def read(reply: str) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """Return the lines of each thread with their citations."""
    parsed = parse_batch(reply, BATCH.shown, aliases=ALIASES, base=START)
    return {thread: [(draft.text, draft.cites) for draft in one.observations] for thread, one in parsed.items()}


@pytest.mark.parametrize(
    "reply",
    [
        '<thread id="t1">\n<observations>\n* tea [1]\n* rain [2]\n</observations></thread><thread id="t2">* rice [3]</thread>',
        "<thread t1>\n* tea [1]\n* rain [2]\n</thread>\n<thread t2>\n* rice [3]",
        "## t1\n* tea [1]\n* rain [2]\n## Thread t2:\n* rice [3]",
        "<observations>\n* tea [1]\n* rain [2]\n* rice [3]\n</observations>",
    ],
    ids=["as asked for", "sloppy tags", "headings", "no threads at all"],
)
def test_each_thread_gets_its_lines(reply: str) -> None:
    """Whatever separates the threads, no line goes to the wrong one."""
    assert read(reply) == {"a": [("tea", (1,)), ("rain", (2,))], "b": [("rice", (3,))]}


def test_a_thread_without_an_answer_fails_alone() -> None:
    """If one thread has no answer, the other's lines are kept. A citation of another thread's message does not count."""
    reply = '<thread id="t1"><observations>\n* tea [1,3]\n</observations></thread><thread id="t9">* evil [1]</thread>'
    parsed = parse_batch(reply, BATCH.shown, aliases=ALIASES, base=START)
    assert failure(parsed["a"]) is None
    assert parsed["a"].observations[0].cites == (1,)
    assert "unknown_citation" in parsed["a"].faults
    assert failure(parsed["b"]) is not None


def test_a_batch_of_one_needs_no_section() -> None:
    """With one thread there is nothing to tell apart."""
    shown = BATCH.shown[:2]
    parsed = parse_batch("<observations>* tea [1]</observations>", shown, aliases={"t1": "a"}, base=START)
    assert [draft.text for draft in parsed["a"].observations] == ["tea"]


def test_threads_say_nothing_each_by_itself() -> None:
    """An honest "nothing" of one thread is valid beside lines of the other."""
    reply = (
        '<thread id="t1"><observations>nothing worth keeping</observations></thread>\n'
        '<thread id="t2"><observations>* rice [3]</observations><current-task>cook</current-task></thread>'
    )
    parsed = parse_batch(reply, BATCH.shown, aliases=ALIASES, base=START)
    assert parsed["a"].nothing
    assert parsed["b"].hints.current_task == "cook"


def test_the_reflector_is_told_what_its_answer_lost() -> None:
    """Statements with their ids, vague lines and names, each under its own words; nothing then says that it was too long."""
    given = ReflectInput(
        observations=LOG,
        target_tokens=100,
        level=2,
        gaps=Gaps(omitted=("id-4",), vague=("All <of> it",), names=("rates.csv",)),
    )
    text = reflector_prompt(given).text
    rows = section(text, "missing").split("\n")
    assert rows[0].startswith("Your last answer no longer says these lines.")
    assert rows[1] == "- o5 🔴 User files the return next Friday"
    assert rows[3] == "- All <of> it"
    assert rows[5] == "- rates.csv"
    assert "too long" not in text
    assert "too long" in reflector_prompt(replace(given, gaps=Gaps())).text


def test_statements_that_fill_the_target_are_merged_by_subject() -> None:
    """The target applies to what may be dropped."""
    lines = tuple(replace(line, tokens=50) for line in LOG)
    assert "merge them by subject" in section(
        reflector_prompt(ReflectInput(observations=lines, target_tokens=150)).text, "target"
    )
    assert "by subject" not in section(
        reflector_prompt(ReflectInput(observations=lines, target_tokens=151)).text, "target"
    )
