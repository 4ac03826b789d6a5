"""Build a memory pack: one text with at most a given number of tokens, for an agent that starts to work.

Working memory and tasks are chosen first, then the newest messages and observations, then older observations of high priority.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from memolog.context.edge import said_lines, tasks_element, working_memory_text
from memolog.core.message import Message
from memolog.core.observation import MARKS
from memolog.core.thread import Hints
from memolog.errors import ThreadNotFound
from memolog.log.render import render_group
from memolog.tasks.rules import edge_lines
from memolog.text.cut import cut, cut_tokens
from memolog.text.dates import age
from memolog.text.escape import element, escape, fixed_text, one_line
from memolog.text.message_tokens import count_text
from memolog.text.redaction import parts_without_secrets, redactor_for
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.core.observation import Scope, Span
    from memolog.core.thread import ThreadInfo
    from memolog.log.snapshot import Snapshot
    from memolog.log.store import RecentThreads
    from memolog.memory import Memory
    from memolog.store import Store

TAG: Final = "memory-pack"
_PACK: Final = fixed_text("context/pack")
_PACK_LEFT_OUT: Final = fixed_text("context/pack_left_out")
_MARKED: Final = tuple(f"* {MARKS[mark]}" for mark in ("high", "done"))
_TITLE_CHARACTERS: Final = 80
_HINT_CHARACTERS: Final = 400
# Tokens of an opening and a closing tag, and of the note about missing lines.
_WRAPPING: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class PackConversation:
    """A thread with its log and the messages that the log does not cover yet. For the shared log, `thread` is None."""

    thread: str | None
    title: str | None = None
    at: datetime | None = None
    """The time of the last message."""
    groups: tuple[str, ...] = ()
    """The rendered texts of the groups, the oldest group first."""
    messages: tuple[Message, ...] = ()
    """The messages that no group covers, the oldest first."""
    earlier: int = 0
    """How many messages before `messages` no group covers."""
    light: frozenset[int] = frozenset()
    """The places in `groups` of groups whose lines count less: those about sub-agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackView:
    """All values from which a pack is built."""

    tokens: int
    now: datetime
    counter: TokenCounter
    zone: str | None = None
    working_memory: str | None = None
    task_lines: tuple[str, ...] = ()
    hints: Hints | None = None
    """The current task and suggested response of the current thread. None for a new thread."""
    conversations: tuple[PackConversation, ...] = ()
    """The most important conversation first."""
    more_lines: int = 0
    """How many lines of other logs were not read."""
    more_messages: int = 0
    """How many messages of other threads were not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The text of a pack, its tokens, and descriptions of the parts that did not fit. The text may be empty."""

    text: str = ""
    tokens: int = 0
    left_out: tuple[str, ...] = ()


async def context_pack(
    memory: "Memory",
    resource: str,
    thread: str | None = None,
    *,
    session: str | None = None,
    tokens: int = 4000,
    zone: str | None = None,
) -> Pack:
    """Return the most important parts of a resource's memory, with at most `tokens` tokens.

    `thread` is the current conversation. It is more important than the last active threads. The text is empty if there are no
    memories.
    """
    store, now = (await memory.open()).store, memory.clock.now()
    scope = memory.config.completed(await store.settings.get(resource)).scope
    own: ThreadInfo | None = None
    if thread is not None:
        with suppress(ThreadNotFound):
            own = await store.threads.get(resource, thread)
    # A shared log is read with any of its threads.
    newest = (await store.threads.list(resource, limit=1)).items if own is None and scope == "resource" else ()
    first = own or next(iter(newest), None)
    snapshot = (
        None
        if first is None
        else await store.logs.snapshot(resource, first.id, scope, create=False, newest=min(max(tokens // 25, 10), 500))
    )
    buffered: dict[str, list[Span]] = {}
    for group in snapshot.buffered if snapshot is not None and scope == "resource" else ():
        if group.thread and group.span:
            buffered.setdefault(group.thread, []).append(group.span)
    head = snapshot.thread if snapshot is not None else None
    recent = await store.logs.recent(resource, scope, tokens=tokens, own=head, buffered=buffered)
    groups = await _groups(store, snapshot) if snapshot is not None else ()
    conversations = _conversations(first, snapshot, groups, recent, scope)
    # The pack may be shown in another conversation, so secrets are removed.
    redactor = redactor_for(memory.config)
    conversations = [
        replace(one, messages=tuple(replace(m, parts=parts_without_secrets(m.parts, redactor)) for m in one.messages))
        for one in conversations
    ]
    facts = await _facts(store, resource, snapshot, of_thread=own is not None)
    tasks = await store.task_ready.overview(resource, now=now, thread=thread, session=session)
    return pack(
        PackView(
            tokens=tokens,
            now=now,
            counter=memory.counter,
            zone=zone,
            working_memory=working_memory_text(facts),
            task_lines=edge_lines(tasks, now=now, budget=tokens // 6, count=memory.counter.count),
            hints=own.hints if own is not None else None,
            conversations=tuple(conversations),
            more_lines=recent.more_lines,
            more_messages=recent.more_messages,
        )
    )


async def _facts(store: "Store", resource: str, snapshot: "Snapshot | None", *, of_thread: bool) -> dict[str, str]:
    """Return the working memory of the resource, and that of the thread of the snapshot."""
    if snapshot is None:
        document = await store.working_memory.get(resource, None)
        return {} if document is None else {"resource": document.current.text}
    # A new thread has no working memory, and that of another thread must not be shown.
    return {scope: text for scope, text in snapshot.facts.now.items() if of_thread or scope != "thread"}


def _conversations(
    first: "ThreadInfo | None",
    snapshot: "Snapshot | None",
    groups: tuple[str, ...],
    recent: "RecentThreads",
    scope: "Scope",
) -> list[PackConversation]:
    """Return the conversations of a pack: the thread of the snapshot, the recent threads, and last a shared log."""
    found = [
        PackConversation(
            thread=one.id,
            title=one.title,
            at=one.updated_at,
            groups=one.groups,
            messages=one.messages,
            earlier=one.earlier,
        )
        for one in recent.threads
    ]
    if first is None or snapshot is None:
        return found
    if scope == "thread":
        return [_uncovered_conversation(first, snapshot, groups), *found]
    below = {one.pk for one in recent.threads if one.is_of_subagent}
    light = frozenset(place for place, pk in enumerate(_threads_of_groups(snapshot)) if pk in below)
    shared = PackConversation(thread=None, groups=groups, light=light)
    return [_uncovered_conversation(first, snapshot, ()), *found, shared]


def _uncovered_conversation(thread: "ThreadInfo", snapshot: "Snapshot", groups: tuple[str, ...]) -> PackConversation:
    """Return the thread of a snapshot with the messages that neither the log nor a buffered group covers."""
    spans = [group.span for group in snapshot.buffered if group.thread == thread.id and group.span is not None]
    read, cursor = snapshot.tail, snapshot.cursor

    def is_held(seq: int) -> bool:
        return seq <= cursor or any(span.first <= seq <= span.last for span in spans)

    first = read[0].seq if read else 1
    return PackConversation(
        thread=thread.id,
        title=thread.title or thread.hints.title,
        at=thread.updated_at,
        groups=groups,
        messages=tuple(one for one in read if not is_held(one.seq)),
        earlier=sum(not is_held(seq) for seq in range(cursor + 1, first)),
    )


def _threads_of_groups(snapshot: "Snapshot") -> list[int | None]:
    """Return the threads of the groups that `_groups` returns, in their order."""
    return [group.thread_pk for group in snapshot.groups if group.text]


async def _groups(store: "Store", snapshot: "Snapshot") -> tuple[str, ...]:
    """Return the texts of active and buffered groups. A pack is not cached as a prefix, so groups need not be active."""
    ready = [group for group in snapshot.buffered if group.kind == "observer"]
    texts = [group.text for group in snapshot.groups if group.text]
    lines = await store.logs.observations(snapshot.resource, snapshot.log.pk, [group.id for group in ready])
    threads = sorted({group.thread for group in ready if group.thread})
    aliases = await store.logs.aliases(snapshot.resource, snapshot.log.pk, threads)
    for group in ready:
        alias = f"t{aliases[group.thread]}" if group.thread in aliases else None
        own = [line for line in lines if line.group == group.id]
        text = render_group(handle=group.handle, observations=own, previous=None, alias=alias, is_reflection=False)
        if text:
            texts.append(text)
    return tuple(texts)


def pack(view: PackView) -> Pack:
    """Return the most important parts of a memory with at most `view.tokens` tokens. The pack is empty if nothing fits."""
    entries = [entry for index, one in enumerate(view.conversations) for entry in _entries(view, index, one)]
    said = tuple(tuple(line for _, line in said_lines(one.messages, view.zone)) for one in view.conversations)
    fixed = _fixed(view)
    if not (entries or any(said) or any(name != "intro" for name, _ in fixed)):
        return Pack()
    room = view.tokens - sum(count_text(text, view.counter) for _, text in fixed) - _WRAPPING
    while room > -view.tokens or fixed:
        made = _packed(view, fixed, entries, said, max(room, 0))
        if made.tokens <= view.tokens:
            return made
        if room > 0:
            room -= max(made.tokens - view.tokens, room // 20 + 1)
        elif fixed:
            # Remove the least important part.
            fixed = fixed[:-1]
        else:
            break
    return Pack(left_out=("everything",))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A row of text of the log with the indented rows below it."""

    conversation: int
    group: int
    place: int
    heading: str
    text: str
    tokens: int
    is_light: bool = False


class _Chosen(NamedTuple):
    """The entries that are shown, and the newest messages of each conversation."""

    entries: frozenset[_Entry]
    lines: tuple[tuple[str, ...], ...]


def _packed(
    view: PackView,
    fixed: Sequence[tuple[str, str]],
    entries: Sequence[_Entry],
    said: Sequence[Sequence[str]],
    room: int,
) -> Pack:
    chosen = _choose(view, entries, said, room)
    texts = dict(fixed)
    left_out = tuple(_left_out(view, texts, entries, said, chosen))
    groups: dict[tuple[int, int], list[_Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.conversation, entry.group), []).append(entry)
    order = reversed(range(len(view.conversations)))
    log = "\n".join(filter(None, (_rendered_conversation(view, index, groups, chosen) for index in order)))
    note = _PACK_LEFT_OUT.replace("{what}", ", ".join(left_out)) if left_out else ""
    pieces = [texts.get("intro"), texts.get("facts"), log, texts.get("hints"), texts.get("tasks"), note]
    if not any(pieces[1:5]):
        return Pack(left_out=left_out)
    text = element(TAG, "\n".join(filter(None, pieces)))
    return Pack(text=text, tokens=count_text(text, view.counter), left_out=left_out)


def _fixed(view: PackView) -> list[tuple[str, str]]:
    """Return the parts that are chosen before log and messages, as (name, text), the most important first."""
    facts = escape((view.working_memory or "").strip())
    facts = cut_tokens(facts, view.tokens * 3 // 10, view.counter)
    hints = view.hints or Hints()
    at = age(hints.at, view.now) if hints.at else None
    given = {"current-task": hints.current_task, "suggested-response": hints.suggested_response}
    hint_elements = "\n".join(
        element(tag, one_line(cut(text, _HINT_CHARACTERS)), said=at) for tag, text in given.items() if text
    )
    texts = [
        ("facts", element("working-memory", facts) if facts.strip() else ""),
        ("tasks", tasks_element(view.task_lines)),
        # The introduction is left out of a small pack.
        ("intro", _PACK if count_text(_PACK, view.counter) <= view.tokens // 4 else ""),
        ("hints", hint_elements),
    ]
    return [(name, text) for name, text in texts if text]


def _choose(view: PackView, entries: Sequence[_Entry], said: Sequence[Sequence[str]], room: int) -> _Chosen:
    """Return the entries and messages that fit.

    Messages get a quarter of the room and the log the rest. Each may also use the room that the other does not need.
    """
    lines, spoken = _newest_lines(view, said, room // 4)
    shown, used = _newest_entries(entries, room - spoken)
    if used + spoken < room:
        lines, _ = _newest_lines(view, said, room - used)
    return _Chosen(shown, lines)


def _newest_lines(view: PackView, said: Sequence[Sequence[str]], room: int) -> tuple[tuple[tuple[str, ...], ...], int]:
    """Return the newest messages of each conversation that fit, and their tokens. The first conversation gets the room first."""
    shown, used = list[tuple[str, ...]](), 0
    for lines in said:
        own = list[str]()
        wrapping = _WRAPPING if lines else 0
        for line in reversed(lines):
            cost = count_text(line, view.counter) + 1
            if used + wrapping + cost > room:
                break
            used += cost
            own.append(line)
        used += wrapping if own else 0
        shown.append(tuple(reversed(own)))
    return tuple(shown), used


def _newest_entries(entries: Sequence[_Entry], room: int) -> tuple[frozenset[_Entry], int]:
    """Return the entries that fit, and their tokens. The newest are chosen first, then marked entries, then others."""
    newest = sorted(entries, key=lambda entry: (entry.conversation, -entry.group, -entry.place))
    marked = sorted((entry for entry in newest if entry.text.startswith(_MARKED)), key=lambda entry: entry.is_light)
    shown, groups, used = set[_Entry](), set[tuple[int, int]](), 0
    for candidates, limit in ((newest, room // 2), (marked, room), (newest, room)):
        for entry in candidates:
            group = entry.conversation, entry.group
            cost = entry.tokens + 1 + (0 if group in groups else _WRAPPING)
            if entry in shown or used + cost > limit:
                # Continue, because a shorter entry may still fit.
                continue
            shown.add(entry)
            groups.add(group)
            used += cost
    return frozenset(shown), used


def _entries(view: PackView, index: int, conversation: PackConversation) -> Iterable[_Entry]:
    for number, text in enumerate(conversation.groups):
        heading, place, lines = "", 0, list[str]()
        for line in [*text.split("\n")[1:-1], "* "]:
            if lines and not line.startswith(" "):
                body = "\n".join(lines)
                tokens = count_text(body, view.counter)
                yield _Entry(
                    conversation=index,
                    group=number,
                    place=place,
                    heading=heading,
                    text=body,
                    tokens=tokens,
                    is_light=number in conversation.light,
                )
                place, lines = place + 1, []
            if line.startswith(("* ", " ")):
                lines.append(line)
            elif line.startswith("Date: "):
                heading = line


_Groups: TypeAlias = dict[tuple[int, int], list[_Entry]]


def _rendered_conversation(view: PackView, index: int, groups: _Groups, chosen: _Chosen) -> str:
    conversation = view.conversations[index]
    shown = [_group(text, groups.get((index, number), []), chosen) for number, text in enumerate(conversation.groups)]
    body = "\n".join(filter(None, [*shown, *chosen.lines[index]]))
    if conversation.thread is None or not body:
        return body
    title = cut(conversation.title or "", _TITLE_CHARACTERS)
    said = age(conversation.at, view.now) if conversation.at else None
    return element("conversation", body, thread=conversation.thread, title=title, last=said)


def _group(text: str, own: Sequence[_Entry], chosen: _Chosen) -> str:
    """Return the text of a group with only the chosen entries. The text is empty if no entry was chosen."""
    shown = [entry for entry in own if entry in chosen.entries]
    if len(shown) == len(own):
        return text if own else ""
    if not shown:
        return ""
    lines = [f"[{len(own) - len(shown)} of {len(own)} lines left out]"]
    heading = ""
    for entry in shown:
        if entry.heading != heading:
            lines.append(heading := entry.heading)
        lines.append(entry.text)
    opening, *_, closing = text.split("\n")
    return "\n".join([opening, *lines, closing])


def _left_out(
    view: PackView,
    texts: dict[str, str],
    entries: Sequence[_Entry],
    said: Sequence[Sequence[str]],
    chosen: _Chosen,
) -> Iterable[str]:
    whole = escape((view.working_memory or "").strip())
    if whole and whole not in texts.get("facts", ""):
        yield "the end of the working memory" if "facts" in texts else "the working memory"
    if view.task_lines and "tasks" not in texts:
        yield "the tasks"
    lines = len(entries) + view.more_lines
    if missing := lines - len(chosen.entries):
        yield f"{missing} of {lines} lines of the log"
    messages = sum(map(len, said)) + sum(one.earlier for one in view.conversations) + view.more_messages
    if missing := messages - sum(map(len, chosen.lines)):
        yield f"{missing} of {messages} messages"
