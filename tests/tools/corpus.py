"""Calls as models make them, badly, and how a person would judge each.

A case is a tool, what was sent, and either what the answer must hold (a success) or what the error must say (a refusal).
The world that they act on is `world.py`: T-1 "Write the login schema", T-2 "Add the login endpoint" (waits for T-1), T-3 "Write
the docs", T-4 "Fix the flaky test", T-5 "Set up the project" (closed), messages m1 to m3 of thread t1, group g1.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["CASES", "Case"]

Q, M, S = "task-query", "task-mutate", "memory-search"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call, and the judgement of it."""

    tool: str
    arguments: Any
    success: bool
    says: str
    """What the answer must hold, as JSON, or what the error must say."""
    why: str


def yes(tool: str, arguments: Any, says: str = "", why: str = "") -> Case:
    """A call whose meaning is clear."""
    return Case(tool=tool, arguments=arguments, success=True, says=says, why=why)


def no(tool: str, arguments: Any, says: str, why: str = "") -> Case:
    """A call that must be refused, saying this."""
    return Case(tool=tool, arguments=arguments, success=False, says=says, why=why)


def does(tool: str, action: str, says: str, why: str, /, **fields: Any) -> Case:
    """A call of an action with these fields, whose meaning is clear."""
    return yes(tool, {"action": action, **fields}, says, why)


def fails(tool: str, action: str, says: str, why: str, /, **fields: Any) -> Case:
    """A call of an action with these fields that must be refused, saying this."""
    return no(tool, {"action": action, **fields}, says, why)


def _wrappings() -> Iterator[Case]:
    """The arguments are right, but wrapped in something."""
    plain: list[tuple[str, dict[str, Any], str]] = [
        (Q, {"action": "ready"}, '"T-1"'),
        (Q, {"action": "show", "task": "T-3"}, "Write the docs"),
        (Q, {"action": "search", "query": "flaky"}, '"T-4"'),
        (M, {"action": "create", "title": "Rename the table"}, "Rename the table"),
        (M, {"action": "claim", "task": "T-4"}, '"in_progress"'),
        (M, {"action": "close", "task": "T-3", "summary": "written"}, '"closed"'),
        (S, {"action": "recall", "target": "g1"}, "LoginSchema"),
        (S, {"action": "recall", "target": "working-memory"}, "Tally"),
    ]
    for tool, call, says in plain:
        text = json.dumps(call)
        yield yes(tool, text, says, "JSON in a string")
        yield yes(tool, json.dumps(text), says, "JSON in a string in a string")
        yield yes(tool, f"```json\n{text}\n```", says, "JSON in a code block")
        yield yes(tool, f"  {text}\n", says, "blanks around it")
        yield yes(tool, text[:-1] + ",}", says, "a comma too many")
        yield yes(tool, text.encode(), says, "bytes")
        yield yes(tool, [call], says, "a list of one object")
        yield yes(tool, {"arguments": call}, says, "wrapped in arguments")
        yield yes(tool, {"input": text}, says, "wrapped in input, as a string")
        yield yes(tool, {tool: call}, says, "wrapped in the tool's name")
        yield yes(
            tool,
            {"params": {k: v for k, v in call.items() if k != "action"}, "action": call["action"]},
            says,
            "half wrapped",
        )
        yield yes(tool, {call["action"]: {k: v for k, v in call.items() if k != "action"}}, says, "the action as a key")
        extra = call | {"reasoning": "because", "confidence": 0.9}
        yield no(tool, extra, "`reasoning` is not a field of", "extra fields")
        empty: dict[str, Any] = {
            Q: {"related": False, "labels": []},
            M: {"clear": [], "labels": [], "why": ""},
            S: {"sources": [], "section": "", "mode": None},
        }[tool]
        yield yes(tool, empty | call, says, "empty fields of other actions")
        yield no(tool, call | {"Action": "list"}, "`action` has two values", "two actions")
        yield yes(tool, {k.upper(): v for k, v in call.items()}, says, "names in capitals")
        yield yes(tool, call | {"labels": None, "cursor": None, "thread": None}, says, "nulls for what is optional")
        yield yes(tool, call | {"action": f" {call['action'].upper()} "}, says, "the action in capitals, with blanks")
        yield no(tool, [call, call], "not a list of 2", "two calls in one")
        yield no(tool, text[:-2], "not a JSON object", "JSON that was cut off")


_NOTHING: list[Case] = [
    *(
        no(tool, empty, says, "nothing was sent")
        for tool in (Q, M, S)
        for empty, says in (
            (None, "must be one object"),
            ("", "must be one object"),
            ({}, "action is missing"),
            ([], "not a list of 0"),
            (5, "must be one object"),
            (True, "must be one object"),
            ("please help me", "not a JSON object"),
            ("null", "must be one object"),
            ([[[[[[{"action": "ready"}]]]]]], "must be one object"),
            ({"action": None}, "action is missing"),
            ({"action": ""}, "is not an action"),
            ({"action": 5}, "is not an action"),
            ({"action": ["ready"]}, "is not an action"),
            ({"action": {}}, "is not an action"),
            ({"action": "explode"}, "is not an action"),
            ({"action": "delete"}, "is not an action"),
            ({"action": "drop_all"}, "is not an action"),
            ({"foo": "bar"}, "action is missing"),
        )
    ),
]

_ACTIONS: list[Case] = [
    yes(Q, "ready", '"T-1"', "the action alone"),
    yes(Q, "  list ", '"T-5"', "the action alone"),
    yes(Q, {"query": "docs"}, '"T-3"', "no action, but a query"),
    yes(Q, {"task": "T-3"}, "Write the docs", "no action, but a task"),
    yes(S, {"target": "m2"}, "LoginSchema", "no action, but a target"),
    yes(S, {"query": "LoginSchema"}, "LoginSchema", "no action, but a query"),
    does(S, "updateContext", "pnpm", "camel case", section="Decisions", text="- pnpm"),
    does(S, "update-context", "pnpm", "a hyphen", section="Decisions", text="- pnpm"),
    does(M, "dep_remove", '"blocked_by": []', "the operation in the action", task="T-2", depends_on="T-1"),
    does(M, "dep.add", '"T-4"', "with a point", task="T-3", depends_on="T-4"),
    fails(M, "dep_add", "is not an action", "two operations", op="remove", task="T-3", depends_on="T-4"),
    fails(Q, "redy", "Did you mean ready?", "misspelt"),
    fails(Q, "next", "Did you mean ready?", "another word"),
    fails(Q, "get", "Did you mean show?", "another word", task="T-3"),
    fails(Q, "view", "Did you mean show?", "another word", id="T-3"),
    fails(Q, "find", "Did you mean search?", "another word", query="docs"),
    fails(Q, "listTasks", "Did you mean list?", "another word"),
    fails(M, "add", "Did you mean create?", "another word", title="New thing"),
    fails(M, "crate", "Did you mean create?", "misspelt", title="New thing"),
    fails(M, "start", "Did you mean claim?", "another word", task="T-4"),
    fails(M, "claim_next", "Did you mean claim?", "another word"),
    fails(M, "complete", "Did you mean close?", "another word", task="T-3", summary="x"),
    fails(M, "closed", "Did you mean close?", "misspelt", task="T-3", summary="x"),
    fails(M, "open", "Did you mean reopen?", "another word", task="T-5"),
    fails(M, "re-opn", "Did you mean reopen?", "misspelt", task="T-5"),
    fails(M, "unclaim", "Did you mean release?", "another word", task="T-4"),
    fails(M, "edit", "Did you mean update?", "another word", task="T-4", priority=1),
    fails(M, "add_dependency", "Did you mean dep?", "another word", task="T-3", depends_on="T-4"),
    fails(M, "unblock", "Did you mean dep?", "another word", task="T-2", depends_on="T-1"),
    fails(M, "note", "Did you mean remember of memory-search?", "a word for another tool", text="x"),
    fails(S, "fetch", "Did you mean recall?", "another word", target="g1"),
    fails(S, "nope", "is not an action", "nothing like it", target="g1"),
    fails(S, "save", "Did you mean remember?", "another word", text="x"),
    fails(M, "create" * 5_000, "is not an action", "beyond all measure", title="x"),
    no(M, {"title": "New thing"}, "action is missing", "a change must be named"),
    no(M, {"task": "T-3", "summary": "written"}, "action is missing", "a change must be named"),
    no(S, {"section": "Decisions", "text": "- pnpm"}, "action is missing", "a change must be named"),
    no(S, {"query": "x", "text": "y"}, "action is missing", "it could be two things"),
    fails(M, "remember", "action of memory-search", "an action of another tool", text="x"),
    fails(M, "update_context", "action of memory-search", "an action of another tool", text="x"),
    fails(Q, "create", "action of task-mutate", "an action of another tool", title="x"),
    fails(Q, "recall", "action of memory-search", "an action of another tool", target="g1"),
    fails(M, "ready", "action of task-query", "an action of another tool"),
    fails(S, "ready", "action of task-query", "an action of another tool"),
    fails(M, "delete", "is not an action", "nothing is deleted here", task="T-1"),
    no(M, {"task": "T-1"}, "action is missing", "a change must be named"),
    no(M, {"text": "note this"}, "action is missing", "a change must be named"),
    no(S, {"text": 5}, "action is missing", "nothing tells what is meant"),
    no(Q, "show T-3", "not a JSON object", "a command, no call"),
]

_NAMES: list[Case] = [
    does(Q, "show", "Write the docs", "a handle in small letters", task="t-3"),
    does(Q, "show", "Write the docs", "without the dash", task="T3"),
    does(Q, "show", "Write the docs", "with a hash", task="#3"),
    does(Q, "show", "Write the docs", "a number", task=3),
    does(Q, "show", "Write the docs", "a number with a point", task=3.0),
    does(Q, "show", "Write the docs", "a number in a string", task="3"),
    does(Q, "show", '"T-3"', "the title", task="Write the docs"),
    does(Q, "show", '"T-3"', "the title, other case", task="write the DOCS"),
    does(Q, "show", '"T-3"', "a part of the title that only one has", task="the docs"),
    does(Q, "show", '"T-3"', "the title, misspelt", task="Write the dosc"),
    does(Q, "show", '"T-3"', "handle and title", task="T-3: Write the docs"),
    does(Q, "show", '"T-3"', "in quotation marks", task="`T-3`"),
    does(Q, "show", '"T-3"', "in a list", task=["T-3"]),
    does(Q, "show", '"T-3"', "in an object", task={"handle": "T-3"}),
    does(Q, "show", '"T-3"', "in an object", task={"id": "T-3", "title": "Write the docs"}),
    fails(Q, "show", "Did you mean `task`?", "another name of the field", task_id="T-3"),
    fails(Q, "show", "Did you mean `task`?", "another name of the field", taskId="T-3"),
    fails(Q, "show", "Did you mean `task`?", "another name of the field", title="Write the docs"),
    does(M, "claim", '"T-4"', "the title", task="fix the flaky test"),
    does(M, "claim", '"T-1"', "the next one", task="next"),
    does(M, "claim", '"T-1"', "none: the next one", task=""),
    fails(M, "claim", "Did you mean `task`?", "another name of the field", id=4),
    fails(M, "close", "Near to it: T-4", "a word that only one has", task="flaky", summary="x"),
    fails(Q, "show", "could be several", "two tasks have these words", task="the login"),
    fails(M, "close", "Near to it: T-", "a part of two titles", task="login", summary="x"),
    fails(Q, "show", "no task T-99", "it does not exist", task="T-99"),
    fails(Q, "show", "no task", "it does not exist", task="deploy to the moon"),
    fails(M, "claim", "blocked by T-1", "it is blocked", task="T-2"),
    fails(M, "claim", "closed", "it is closed", task="T-5"),
    fails(M, "close", "No task is in hand", "nothing is claimed", task="current", summary="x"),
    fails(Q, "show", "`", "nothing is named", task={}),
    fails(Q, "show", "`", "nothing is named", task=[]),
    fails(Q, "show", "`", "two are named", task=["T-1", "T-2"]),
    fails(Q, "show", "`", "a truth is no task", task=True),
    fails(Q, "show", "`", "blanks are no task", task="   "),
    fails(Q, "show", "`task` is missing", "a field is missing"),
    fails(M, "dep", "`depends_on` is missing", "a field is missing", task="T-1"),
    fails(M, "dep", "`task` is missing", "a field is missing", depends_on="T-1"),
    fails(M, "dep", "circle", "it would close a circle", task="T-1", depends_on="T-2"),
    fails(M, "dep", "T-1", "a task does not wait for itself", task="T-1", depends_on="T-1"),
    fails(M, "dep", "no task", "it does not exist", task="T-1", depends_on="T-77"),
]

_VALUES: list[Case] = [
    does(Q, "ready", '"T-1"', "a number in a string", limit="2"),
    does(Q, "ready", '"T-1"', "a number with a point", limit=2.0),
    does(Q, "ready", '"T-4"', "more than there may be: as many as there may be", limit=1000),
    does(Q, "ready", '"T-1"', "none: at least one", limit=0),
    fails(Q, "ready", "Did you mean `limit`?", "another name of the field", max_results=1),
    does(Q, "ready", '"T-1"', "one label instead of a list", labels="auth"),
    does(Q, "ready", '"T-1"', "a list in a string", labels='["auth"]'),
    fails(Q, "ready", "Did you mean `labels`?", "another name of the field", tags=["auth"]),
    does(Q, "ready", '"T-4"', "no labels", labels=[]),
    does(Q, "ready", '"T-4"', "a type in capitals", type="Bug"),
    does(Q, "ready", '"T-4"', "another word for a type", type="defect"),
    fails(Q, "ready", "Did you mean `type`?", "another name of the field", kind="bug"),
    does(Q, "ready", '"T-1"', "a priority with its letter", max_priority="P1"),
    does(Q, "ready", '"T-1"', "a priority as a word", max_priority="high"),
    fails(Q, "ready", "Did you mean `max_priority`?", "another name of the field", priority=1),
    does(Q, "list", '"T-5"', "another word for a status", status="done"),
    does(Q, "list", '"T-3"', "another word for a status", status="todo"),
    does(Q, "list", '"tasks": []', "with a blank", status="in progress"),
    does(Q, "list", '"T-2"', "a truth in a string", blocked="true"),
    does(Q, "list", '"T-2"', "a truth as a number", blocked=1),
    does(Q, "list", '"T-3"', "a truth as a word", blocked="no"),
    does(Q, "show", '"messages"', "a truth as a word", task="T-3", related="yes"),
    fails(Q, "show", "Did you mean `related`?", "another name of the field", task="T-3", include_messages=True),
    fails(Q, "search", "Did you mean `query`?", "another name of the field", q="docs"),
    does(Q, "search", '"tasks"', "any text is a query", query='))) "(*'),
    does(Q, "search", '"tasks"', "any text is a query", query="'; DROP TABLE tasks; --"),
    does(Q, "search", '"tasks": []', "nothing is found", query="zzzz"),
    does(M, "create", '"priority": 0', "a priority as a word", title="x", priority="urgent"),
    does(M, "create", '"feature"', "another word for a type", title="x", type="story"),
    fails(M, "create", "Did you mean `title`?", "another name of the field", name="Named"),
    fails(M, "create", "Did you mean `title`?", "another name of the field", task="Named"),
    does(M, "create", '["a", "b"]', "labels in one string", title="x", labels="a, b"),
    fails(M, "create", "Did you mean `blocked_by`?", "another name of the field", title="x", depends_on="T-3"),
    does(M, "create", '"blocked": true', "a number instead of a list", title="x", blocked_by=3),
    does(M, "create", '"blocked": true', "a title in a list", title="x", blocked_by=["write the docs"]),
    does(M, "create", '"blocked": true', "a list in one string", title="x", blocked_by="T-3, T-4"),
    does(M, "create", "2026-04-01", "a day without a time", title="x", due="2026-04-01"),
    does(M, "create", "2026-04-01", "a time without a zone", title="x", due="2026-04-01 10:00"),
    does(M, "create", '"x"', "no day", title="x", due=""),
    does(M, "create", '"in_progress"', "a truth in a string", title="x", claim="true"),
    fails(M, "create", "`status` is not a field of create", "a field that is not there", title="x", status="closed"),
    does(M, "create", '"Trimmed"', "blanks around a title", title="  Trimmed  "),
    does(M, "create", "likely_duplicates", "it is there already, and is told", title="Write the login schema"),
    does(M, "close", '"closed"', "another word for a reason", task="T-3", summary="x", reason="won't fix"),
    fails(
        M, "close", "Did you mean `reason`?", "another name of the field", task="T-3", summary="x", status="completed"
    ),
    fails(M, "close", "Did you mean `summary`?", "another name of the field", task="T-3", result="x"),
    does(M, "close", '"next"', "a truth as a word", task="T-3", summary="x", claim_next="yes"),
    does(M, "dep", '"T-4"', "no operation: add", task="T-3", depends_on="T-4"),
    does(M, "dep", '"T-4"', "numbers and capitals", op="ADD", task=3, depends_on=4),
    fails(M, "dep", "Did you mean `op`?", "another word", operation="delete", task="T-2", depends_on="T-1"),
    fails(M, "dep", "Did you mean `depends_on`?", "another name of the field", task="T-3", blocked_by="T-4"),
    does(M, "dep", '"T-4"', "a list of one", task="T-3", depends_on=["T-4"]),
    fails(M, "dep", "`kind`", "a kind, misspelt", task="T-3", depends_on="T-4", kind="relates"),
    does(M, "link", '"linked": 1', "one message instead of a list", task="T-1", messages="m2"),
    fails(M, "link", "Did you mean `messages`?", "another name of the field", task="T-1", message_id="m2"),
    does(M, "link", '"linked": 2', "numbers", task="T-1", messages=[1, 2]),
    does(M, "link", '"linked": 2', "a span", task="T-1", messages="1-2"),
    does(M, "link", '"linked": 2', "a span, written otherwise", task="T-1", messages=["#1..2"]),
    does(M, "link", '"linked": 2', "the same ones again", task="T-1", messages=["1-2", "2", "m2"]),
    yes(
        M,
        {"action": "link", "task": "T-1", "messages": "m1, m2", "as": "result"},
        '"as": "output"',
        "another word for a kind",
    ),
    fails(M, "link", "Did you mean `as`?", "another name of the field", task="T-1", messages=["m2"], kind="output"),
    does(S, "update_context", "pnpm", "a heading with its marks", section="## Decisions", text="- pnpm"),
    fails(
        S,
        "update_context",
        "Did you mean `section`?",
        "other names of the fields",
        heading="decisions",
        content="- pnpm",
    ),
    does(S, "update_context", "pnpm", "another word for a mode", section="Decisions", text="- pnpm", mode="set"),
    does(S, "update_context", "Uses pnpm", "no section: at the end", text="Uses pnpm"),
    does(S, "update_context", "# New one", "a section that is not there yet", section="New one", text="x"),
    does(S, "update_context", "half done", "a note at a task", task="T-3", text="half done"),
    does(M, "update", '"priority": 0', "a priority as a word", task="T-3", priority="urgent"),
    does(M, "update", "Write all docs", "a title", task="write the docs", title="Write all docs"),
    does(M, "update", '["api", "docs"]', "labels replaced", task="T-3", labels="api, docs"),
    does(M, "update", "2026-04-01", "a day", task="T-3", due="2026-04-01"),
    does(M, "reopen", '"open"', "with why", task="T-5", why="not done"),
    does(M, "reopen", '"open"', "the title", task="set up the project"),
    does(S, "remember", "- Deploys on Fridays [t1 #3", "a fact", text="Deploys on Fridays"),
    does(S, "remember", '"section": "Notes"', "a note", text="x", kind="NOTE"),
    does(S, "remember", "[t1 #2,", "a message id", text="x", source="m2"),
    does(S, "remember", "[t1 #1-2,", "a span", text="x", source="#1-2"),
    does(S, "remember", "[g1 of t1,", "a group", text="x", source="g1"),
    does(S, "remember", "[docs/a.md,", "a file", text="x", source="docs/a.md"),
    does(S, "remember", '"section": "decisions"', "a section that is there", text="pnpm", section="decisions"),
    does(S, "remember", "half done", "at a task", task="T-3", text="half done"),
    does(
        S, "update_context", '"thread"', "another word for a scope", section="Decisions", text="x", scope="conversation"
    ),
    fails(S, "recall", "Did you mean `target`?", "another name of the field", id="m2"),
    does(S, "recall", "LoginSchema", "a number: of this thread", target=2),
    does(S, "recall", "LoginSchema", "a span: of this thread", target="1-2"),
    fails(S, "recall", "Did you mean `target`?", "another word for a detail", message_id="m2", detail="all"),
    does(S, "recall", "Tally", "written otherwise", target="Working Memory"),
    does(S, "search", "LoginSchema", "another word for a source", query="LoginSchema", sources="messages"),
    does(S, "search", "LoginSchema", "another word for a role", query="LoginSchema", role="AI"),
    does(S, "search", "LoginSchema", "this thread", query="LoginSchema", thread="this"),
    does(S, "search", "LoginSchema", "a day", query="LoginSchema", since="2026-03-01"),
    does(S, "search", '"results"', "any text is a query", query='"unclosed ((('),
    does(S, "search", '"results"', "nothing is found", query="nothing like this anywhere qqq"),
    fails(Q, "ready", "`limit`", "no number", limit="many"),
    fails(Q, "ready", "`limit`", "a truth is no number", limit=True),
    fails(Q, "ready", "`limit`", "half a task", limit=2.5),
    fails(Q, "ready", "`type`", "no such type", type="banana"),
    fails(Q, "ready", "`max_priority`", "there is no priority 9", max_priority=9),
    fails(Q, "ready", "", "a cursor that nobody gave out", cursor="nonsense"),
    fails(Q, "search", "is not a cursor", "a cursor that nobody gave out", query="docs", cursor="nonsense"),
    fails(Q, "list", "`status`", "no such status", status="banana"),
    fails(Q, "list", "`blocked`", "neither true nor false", blocked="maybe"),
    fails(Q, "list", "`labels", "an object is no label", labels={"a": 1}),
    fails(Q, "search", "`query` is missing", "a field is missing"),
    fails(Q, "search", "`query`", "an empty query", query=""),
    fails(Q, "search", "`query`", "an object is no query", query={"text": "a"}),
    fails(M, "create", "`title` is missing", "a field is missing"),
    fails(M, "create", "`title`", "an empty title", title=""),
    fails(M, "create", "`title`", "a title beyond all measure", title="x" * 501),
    fails(M, "create", "`title`", "a number is no title", title=5),
    fails(M, "create", "`priority`", "there is no priority 7", title="x", priority=7),
    fails(M, "create", "`priority`", "no priority", title="x", priority="yesterday"),
    fails(M, "create", "`type`", "no such type", title="x", type="banana"),
    fails(M, "create", "`due`", "no date", title="x", due="soon"),
    fails(M, "create", "`due`", "no such day", title="x", due="2026-13-45"),
    fails(M, "create", "no task", "one of them does not exist", title="x", blocked_by=["T-3", "T-99"]),
    fails(M, "create", "no task", "it does not exist", title="x", parent="T-99"),
    fails(M, "create", "`claim`", "neither true nor false", title="x", claim="perhaps"),
    fails(M, "close", "`summary` is missing", "a field is missing", task="T-3"),
    fails(M, "close", "`task` is missing", "a field is missing", summary="done"),
    fails(M, "close", "`reason`", "no such reason", task="T-3", summary="x", reason="banana"),
    fails(M, "close", "closed", "it is closed already", task="T-5", summary="x"),
    fails(M, "dep", "`op`", "no such operation", op="banana", task="T-3", depends_on="T-4"),
    fails(M, "dep", "`kind`", "no such kind", task="T-3", depends_on="T-4", kind="hates"),
    fails(M, "link", "`messages` is missing", "a field is missing", task="T-1"),
    fails(M, "link", "`messages`", "no message", task="T-1", messages=[]),
    fails(M, "link", "no message", "it does not exist", task="T-1", messages="m99"),
    no(M, {"action": "link", "task": "T-1", "messages": ["m2"], "as": "banana"}, "`as`", "no such kind"),
    fails(S, "update_context", "`text` is missing", "a field is missing"),
    fails(S, "update_context", "`text` is missing", "a field is missing", section="Decisions"),
    fails(S, "update_context", "`section`", "the whole cannot be replaced here", mode="remove"),
    fails(S, "update_context", "`section`", "the whole cannot be replaced here", mode="replace", text="x"),
    fails(S, "update_context", "no section", "it does not exist", mode="remove", section="Nowhere"),
    fails(S, "update_context", "more than the limit", "far too long", section="Decisions", text="x" * 20_000),
    fails(S, "update_context", "would end the", "two sections in one", section="Decisions", text="a\n# Other\nb"),
    fails(S, "update_context", "no task", "it does not exist", task="T-99", text="x"),
    fails(S, "update_context", "closed", "it is closed", task="T-5", text="x"),
    fails(S, "update_context", "`text`", "a list is no text", section="Decisions", text=["a"]),
    fails(M, "update", "Nothing to change", "nothing is changed", task="T-3"),
    fails(M, "update", "close or reopen", "a status is not a field", task="T-3", status="closed"),
    fails(M, "update", "`task` is missing", "a field is missing", title="x"),
    fails(M, "update", "`clear", "no such field", task="T-3", clear=["title"]),
    fails(M, "update", "only once", "set and emptied", task="T-3", due="2026-04-01", clear="due"),
    fails(M, "update", "Near to it: T-3", "a part of a title", task="docs", priority=1),
    fails(M, "release", "Only a claimed task", "nobody works on it", task="T-4"),
    fails(M, "release", "`task` is missing", "a field is missing"),
    fails(M, "reopen", "Only a closed task", "it is open", task="T-1"),
    fails(M, "reopen", "no task T-99", "it does not exist", task="T-99"),
    fails(M, "reopen", "`title` is not a field of reopen", "another field", title="T-5"),
    fails(M, "create", "Did you mean `title`?", "misspelt", titel="x"),
    fails(M, "claim", "no task", "two handles", task="T-3 or T-4"),
    fails(S, "remember", "`text` is missing", "a field is missing"),
    fails(S, "remember", "`text`", "blanks are no fact", text="   "),
    fails(S, "remember", "`text`", "a list is no text", text=["a"]),
    fails(S, "remember", "`kind`", "no such kind", text="x", kind="banana"),
    fails(S, "remember", "99", "no such message", text="x", source="99"),
    fails(S, "remember", "at most", "far too long", text="x", source="y" * 5_000),
    fails(S, "remember", "more than the limit", "far too long", text="x" * 20_000),
    fails(S, "remember", "no task", "it does not exist", text="x", task="T-99"),
    fails(S, "remember", "Did you mean `text`?", "another name of the field", fact="x", content="x"),
    fails(S, "search", "`query` is missing", "a field is missing"),
    fails(S, "search", "`query`", "a number is no query", query=5),
    fails(S, "search", "`since`", "no date", query="x", since="recently"),
    fails(S, "search", "`sources", "no such source", query="x", sources=["banana"]),
    fails(S, "search", "`role`", "no such role", query="x", role="banana"),
    fails(S, "recall", "`target` is missing", "a field is missing"),
    fails(S, "recall", "`target`", "nothing is named", target=""),
    fails(S, "recall", "g99", "it does not exist", target="g99"),
    fails(S, "recall", "no-such-message", "it does not exist", target="no-such-message"),
    fails(S, "recall", "cursor", "a cursor that nobody gave out", target="g1", cursor="nonsense"),
    fails(S, "recall", "is not a cursor", "half of a cursor", target="g1", cursor="f.1"),
    fails(S, "recall", "no part 99", "a part that the message does not have", target="m1", part=99),
    fails(S, "recall", "`detail`", "no such detail", target="g1", detail="banana"),
    fails(S, "recall", "`target`", "an object that names nothing", target={"a": {"b": 1}}),
]

_TOOLS: list[Case] = [
    does("task_query", "ready", '"T-1"', "another spelling of the tool"),
    does("TaskQuery", "ready", '"T-1"', "another spelling of the tool"),
    does("mcp__memolog__task-query", "ready", '"T-1"', "with its server's name"),
    does("memolog.task-query", "ready", '"T-1"', "with its package's name"),
    does("mem__task_query", "ready", '"T-1"', "with the name of another server"),
    does("functions.memory_search", "recall", "LoginSchema", "with a prefix", target="g1"),
    fails("tasks", "ready", "no tool", "no such tool"),
    fails("", "ready", "no tool", "no tool at all"),
    no("delete-everything", {}, "no tool", "no such tool"),
    fails("task-query-2", "ready", "no tool", "no such tool"),
]

CASES: list[Case] = [*_wrappings(), *_NOTHING, *_ACTIONS, *_NAMES, *_VALUES, *_TOOLS]
