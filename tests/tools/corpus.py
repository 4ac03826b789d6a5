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
        yield yes(
            tool,
            call | {"reasoning": "because", "confidence": 0.9},
            '"ignored": ["confidence", "reasoning"]',
            "extra fields",
        )
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
    yes(Q, {"action": "redy"}, '"T-1"', "misspelt"),
    yes(Q, {"action": "raedy"}, '"T-1"', "misspelt"),
    yes(Q, {"action": "get_ready"}, '"T-1"', "another word"),
    yes(Q, {"action": "next"}, '"T-1"', "another word"),
    yes(Q, {"action": "get", "task": "T-3"}, "Write the docs", "another word"),
    yes(Q, {"action": "view", "id": "T-3"}, "Write the docs", "another word"),
    yes(Q, {"action": "shwo", "task": "T-3"}, "Write the docs", "misspelt"),
    yes(Q, {"action": "find", "query": "docs"}, '"T-3"', "another word"),
    yes(Q, {"action": "serach", "query": "docs"}, '"T-3"', "misspelt"),
    yes(Q, {"action": "list_tasks"}, '"T-5"', "another word"),
    yes(Q, {"action": "listTasks"}, '"T-5"', "camel case"),
    yes(Q, {"query": "docs"}, '"T-3"', "no action, but a query"),
    yes(Q, {"task": "T-3"}, "Write the docs", "no action, but a task"),
    yes(M, {"action": "add", "title": "New thing"}, "New thing", "another word"),
    yes(M, {"action": "create_task", "title": "New thing"}, "New thing", "another word"),
    yes(M, {"action": "crate", "title": "New thing"}, "New thing", "misspelt"),
    yes(M, {"title": "New thing"}, "New thing", "no action, but a title"),
    yes(M, {"action": "start", "task": "T-4"}, '"in_progress"', "another word"),
    yes(M, {"action": "claim_next"}, '"in_progress"', "another word"),
    yes(M, {"action": "complete", "task": "T-3", "summary": "x"}, '"closed"', "another word"),
    yes(M, {"action": "closed", "task": "T-3", "summary": "x"}, '"closed"', "misspelt"),
    yes(M, {"task": "T-3", "summary": "written"}, '"closed"', "no action, but a task and a summary"),
    yes(M, {"action": "add_dependency", "task": "T-3", "depends_on": "T-4"}, '"T-4"', "another word"),
    yes(
        M,
        {"action": "dep_remove", "task": "T-2", "depends_on": "T-1"},
        '"blocked_by": []',
        "the operation in the action",
    ),
    yes(M, {"action": "unblock", "task": "T-2", "depends_on": "T-1"}, '"blocked_by": []', "another word"),
    yes(M, {"action": "dep.add", "task": "T-3", "depends_on": "T-4"}, '"T-4"', "with a point"),
    yes(M, {"action": "updateContext", "section": "Decisions", "text": "- pnpm"}, "pnpm", "camel case"),
    yes(M, {"action": "update-context", "section": "Decisions", "text": "- pnpm"}, "pnpm", "with a dash"),
    yes(M, {"action": "remember", "section": "Decisions", "text": "- pnpm"}, "pnpm", "another word"),
    yes(M, {"section": "Decisions", "text": "- pnpm"}, "pnpm", "no action, but a section and a text"),
    yes(S, {"action": "fetch", "target": "g1"}, "LoginSchema", "another word"),
    yes(S, {"action": "reacll", "target": "g1"}, "LoginSchema", "misspelt"),
    yes(S, {"target": "m2"}, "LoginSchema", "no action, but a target"),
    yes(S, {"query": "LoginSchema"}, "LoginSchema", "no action, but a query"),
    yes(S, {"action": "find", "query": "LoginSchema"}, "LoginSchema", "another word"),
    no(Q, {"action": "create", "title": "x"}, "action of task-mutate", "an action of another tool"),
    no(Q, {"action": "claim", "task": "T-1"}, "action of task-mutate", "an action of another tool"),
    no(Q, {"action": "recall", "target": "g1"}, "action of memory-search", "an action of another tool"),
    no(M, {"action": "ready"}, "action of task-query", "an action of another tool"),
    no(M, {"action": "recall", "target": "g1"}, "action of memory-search", "an action of another tool"),
    no(S, {"action": "ready"}, "action of task-query", "an action of another tool"),
    no(S, {"action": "close", "task": "T-1"}, "action of task-mutate", "an action of another tool"),
    no(M, {"action": "delete", "task": "T-1"}, "is not an action", "nothing is deleted here"),
    no(M, {"action": "delete_all"}, "is not an action", "nothing is deleted here"),
    no(M, {"task": "T-1"}, "action is missing", "a change must be named"),
    no(M, {"text": "note this"}, "action is missing", "a change must be named"),
    no(S, {"text": 5}, "action is missing", "nothing tells what is meant"),
    no(Q, "show T-3", "not a JSON object", "a command, no call"),
]

_NAMES: list[Case] = [
    yes(Q, {"action": "show", "task": "t-3"}, "Write the docs", "a handle in small letters"),
    yes(Q, {"action": "show", "task": "T3"}, "Write the docs", "without the dash"),
    yes(Q, {"action": "show", "task": "#3"}, "Write the docs", "with a hash"),
    yes(Q, {"action": "show", "task": 3}, "Write the docs", "a number"),
    yes(Q, {"action": "show", "task": 3.0}, "Write the docs", "a number with a point"),
    yes(Q, {"action": "show", "task": "3"}, "Write the docs", "a number in a string"),
    yes(Q, {"action": "show", "task": "Write the docs"}, '"T-3"', "the title"),
    yes(Q, {"action": "show", "task": "write the DOCS"}, '"T-3"', "the title, other case"),
    yes(Q, {"action": "show", "task": "the docs"}, '"T-3"', "a part of the title that only one has"),
    yes(Q, {"action": "show", "task": "Write the dosc"}, '"T-3"', "the title, misspelt"),
    yes(Q, {"action": "show", "task": "T-3: Write the docs"}, '"T-3"', "handle and title"),
    yes(Q, {"action": "show", "task": "`T-3`"}, '"T-3"', "in quotation marks"),
    yes(Q, {"action": "show", "task": ["T-3"]}, '"T-3"', "in a list"),
    yes(Q, {"action": "show", "task": {"handle": "T-3"}}, '"T-3"', "in an object"),
    yes(Q, {"action": "show", "task": {"id": "T-3", "title": "Write the docs"}}, '"T-3"', "in an object"),
    yes(Q, {"action": "show", "task_id": "T-3"}, '"T-3"', "another name of the field"),
    yes(Q, {"action": "show", "taskId": "T-3"}, '"T-3"', "another name of the field"),
    yes(Q, {"action": "show", "handle": "T-3"}, '"T-3"', "another name of the field"),
    yes(Q, {"action": "show", "title": "Write the docs"}, '"T-3"', "another name of the field"),
    yes(M, {"action": "claim", "task": "fix the flaky test"}, '"T-4"', "the title"),
    yes(M, {"action": "claim", "task": "next"}, '"T-1"', "the next one"),
    yes(M, {"action": "claim", "task": ""}, '"T-1"', "none: the next one"),
    yes(M, {"action": "claim", "id": 4}, '"T-4"', "another name of the field"),
    yes(M, {"action": "close", "task": "flaky", "summary": "x"}, '"T-4"', "a word that only one has"),
    yes(M, {"action": "close", "task": "docs", "summary": "x"}, '"T-3"', "a word that only one has"),
    no(Q, {"action": "show", "task": "the login"}, "could be several", "two tasks have these words"),
    no(M, {"action": "close", "task": "login", "summary": "x"}, "could be several", "two tasks have this word"),
    no(M, {"action": "close", "task": "Write", "summary": "x"}, "could be several", "two tasks have this word"),
    no(Q, {"action": "show", "task": "T-99"}, "no task 'T-99'", "it does not exist"),
    no(Q, {"action": "show", "task": "deploy to the moon"}, "no task", "it does not exist"),
    no(M, {"action": "claim", "task": "T-99"}, "no task", "it does not exist"),
    no(M, {"action": "claim", "task": "T-2"}, "blocked by T-1", "it is blocked"),
    no(M, {"action": "claim", "task": "T-5"}, "closed", "it is closed"),
    no(M, {"action": "close", "task": "T-99", "summary": "x"}, "no task", "it does not exist"),
    no(M, {"action": "close", "task": "current", "summary": "x"}, "No task is in hand", "nothing is claimed"),
    no(Q, {"action": "show", "task": {}}, "`", "nothing is named"),
    no(Q, {"action": "show", "task": []}, "`", "nothing is named"),
    no(Q, {"action": "show", "task": ["T-1", "T-2"]}, "`", "two are named"),
    no(Q, {"action": "show", "task": True}, "`", "a truth is no task"),
    no(Q, {"action": "show", "task": "   "}, "`", "blanks are no task"),
    no(Q, {"action": "show"}, "`task` is missing", "a field is missing"),
    no(M, {"action": "dep", "task": "T-1"}, "`depends_on` is missing", "a field is missing"),
    no(M, {"action": "dep", "depends_on": "T-1"}, "`task` is missing", "a field is missing"),
    no(M, {"action": "dep", "task": "T-1", "depends_on": "T-2"}, "circle", "it would close a circle"),
    no(M, {"action": "dep", "task": "T-1", "depends_on": "T-1"}, "T-1", "a task does not wait for itself"),
    no(M, {"action": "dep", "task": "T-1", "depends_on": "T-77"}, "no task", "it does not exist"),
]

_VALUES: list[Case] = [
    yes(Q, {"action": "ready", "limit": "2"}, '"T-1"', "a number in a string"),
    yes(Q, {"action": "ready", "limit": 2.0}, '"T-1"', "a number with a point"),
    yes(Q, {"action": "ready", "limit": 1000}, '"T-4"', "more than there may be: as many as there may be"),
    yes(Q, {"action": "ready", "limit": 0}, '"T-1"', "none: at least one"),
    yes(Q, {"action": "ready", "limit": -5}, '"T-1"', "fewer than none: at least one"),
    yes(Q, {"action": "ready", "max_results": 1}, '"cursor"', "another name of the field"),
    yes(Q, {"action": "ready", "labels": "auth"}, '"T-1"', "one label instead of a list"),
    yes(Q, {"action": "ready", "labels": '["auth"]'}, '"T-1"', "a list in a string"),
    yes(Q, {"action": "ready", "tags": ["auth"]}, '"T-1"', "another name of the field"),
    yes(Q, {"action": "ready", "labels": []}, '"T-4"', "no labels"),
    yes(Q, {"action": "ready", "labels": ""}, '"T-4"', "no labels"),
    yes(Q, {"action": "ready", "type": "Bug"}, '"T-4"', "a type in capitals"),
    yes(Q, {"action": "ready", "type": "defect"}, '"T-4"', "another word for a type"),
    yes(Q, {"action": "ready", "kind": "bug"}, '"T-4"', "another name of the field"),
    yes(Q, {"action": "ready", "max_priority": "P1"}, '"T-1"', "a priority with its letter"),
    yes(Q, {"action": "ready", "max_priority": "high"}, '"T-1"', "a priority as a word"),
    yes(Q, {"action": "ready", "priority": 1}, '"T-1"', "another name of the field"),
    yes(Q, {"action": "list", "status": "done"}, '"T-5"', "another word for a status"),
    yes(Q, {"action": "list", "status": "CLOSED"}, '"T-5"', "in capitals"),
    yes(Q, {"action": "list", "status": "todo"}, '"T-3"', "another word for a status"),
    yes(Q, {"action": "list", "status": "in progress"}, '"tasks": []', "with a blank"),
    yes(Q, {"action": "list", "status": "In-Progress"}, '"tasks": []', "with a dash"),
    yes(Q, {"action": "list", "blocked": "true"}, '"T-2"', "a truth in a string"),
    yes(Q, {"action": "list", "blocked": 1}, '"T-2"', "a truth as a number"),
    yes(Q, {"action": "list", "blocked": "no"}, '"T-3"', "a truth as a word"),
    yes(Q, {"action": "show", "task": "T-3", "related": "yes"}, '"messages"', "a truth as a word"),
    yes(Q, {"action": "show", "task": "T-3", "include_messages": True}, '"messages"', "another name of the field"),
    yes(Q, {"action": "search", "q": "docs"}, '"T-3"', "another name of the field"),
    yes(Q, {"action": "search", "keywords": "docs"}, '"T-3"', "another name of the field"),
    yes(Q, {"action": "search", "query": '))) "(*'}, '"tasks"', "any text is a query"),
    yes(Q, {"action": "search", "query": "'; DROP TABLE tasks; --"}, '"tasks"', "any text is a query"),
    yes(Q, {"action": "search", "query": "zzzz"}, '"tasks": []', "nothing is found"),
    yes(M, {"action": "create", "title": "x", "priority": "1"}, '"priority": 1', "a number in a string"),
    yes(M, {"action": "create", "title": "x", "priority": "P0"}, '"priority": 0', "a priority with its letter"),
    yes(M, {"action": "create", "title": "x", "priority": "urgent"}, '"priority": 0', "a priority as a word"),
    yes(M, {"action": "create", "title": "x", "priority": "Low"}, '"priority": 3', "a priority as a word"),
    yes(M, {"action": "create", "title": "x", "type": "story"}, '"feature"', "another word for a type"),
    yes(M, {"action": "create", "title": "x", "type": "fature"}, '"feature"', "a type, misspelt"),
    yes(M, {"action": "create", "name": "Named"}, "Named", "another name of the field"),
    yes(M, {"action": "create", "task": "Named"}, "Named", "another name of the field"),
    yes(M, {"action": "create", "title": "x", "labels": "a, b"}, '["a", "b"]', "labels in one string"),
    yes(M, {"action": "create", "title": "x", "depends_on": "T-3"}, '"blocked": true', "another name of the field"),
    yes(M, {"action": "create", "title": "x", "blocked_by": 3}, '"blocked": true', "a number instead of a list"),
    yes(
        M, {"action": "create", "title": "x", "blocked_by": ["write the docs"]}, '"blocked": true', "a title in a list"
    ),
    yes(M, {"action": "create", "title": "x", "blocked_by": "T-3, T-4"}, '"blocked": true', "a list in one string"),
    yes(
        M, {"action": "create", "title": "x", "blocked_by": [{"handle": "T-3"}]}, '"blocked": true', "objects in a list"
    ),
    yes(M, {"action": "create", "title": "x", "due": "2026-04-01"}, "2026-04-01", "a day without a time"),
    yes(
        M,
        {"action": "create", "title": "x", "deadline": "2026-04-01T10:00:00Z"},
        "2026-04-01",
        "another name of the field",
    ),
    yes(M, {"action": "create", "title": "x", "due": "2026-04-01 10:00"}, "2026-04-01", "a time without a zone"),
    yes(M, {"action": "create", "title": "x", "due": ""}, '"x"', "no day"),
    yes(M, {"action": "create", "title": "x", "claim": "true"}, '"in_progress"', "a truth in a string"),
    yes(
        M, {"action": "create", "title": "x", "status": "closed"}, '"ignored": ["status"]', "a field that is not there"
    ),
    yes(M, {"action": "create", "title": "  Trimmed  "}, '"Trimmed"', "blanks around a title"),
    yes(
        M,
        {"action": "create", "title": "Write the login schema"},
        "likely_duplicates",
        "it is there already, and is told",
    ),
    yes(
        M, {"action": "close", "task": "T-3", "summary": "x", "reason": "done"}, '"closed"', "another word for a reason"
    ),
    yes(
        M,
        {"action": "close", "task": "T-3", "summary": "x", "reason": "won't fix"},
        '"closed"',
        "another word for a reason",
    ),
    yes(
        M,
        {"action": "close", "task": "T-3", "summary": "x", "status": "completed"},
        '"closed"',
        "another name of the field",
    ),
    yes(M, {"action": "close", "task": "T-3", "result": "x"}, '"closed"', "another name of the field"),
    yes(M, {"action": "close", "task": "T-3", "summary": "x", "claim_next": "yes"}, '"next"', "a truth as a word"),
    yes(M, {"action": "dep", "task": "T-3", "depends_on": "T-4"}, '"T-4"', "no operation: add"),
    yes(M, {"action": "dep", "op": "ADD", "task": 3, "depends_on": 4}, '"T-4"', "numbers and capitals"),
    yes(
        M,
        {"action": "dep", "operation": "delete", "task": "T-2", "depends_on": "T-1"},
        '"blocked_by": []',
        "another word",
    ),
    yes(M, {"action": "dep", "task": "T-3", "blocked_by": "T-4"}, '"T-4"', "another name of the field"),
    yes(M, {"action": "dep", "task": "T-3", "depends_on": ["T-4"]}, '"T-4"', "a list of one"),
    yes(
        M,
        {"action": "dep", "task": "T-3", "depends_on": "T-4", "kind": "relates"},
        '"blocked_by": []',
        "a kind, misspelt",
    ),
    yes(M, {"action": "link", "task": "T-1", "messages": "m2"}, '"linked": 1', "one message instead of a list"),
    yes(M, {"action": "link", "task": "T-1", "message_id": "m2"}, '"linked": 1', "another name of the field"),
    yes(M, {"action": "link", "task": "T-1", "messages": [1, 2]}, '"linked": 2', "numbers"),
    yes(M, {"action": "link", "task": "T-1", "messages": "1-2"}, '"linked": 2', "a span"),
    yes(M, {"action": "link", "task": "T-1", "messages": ["#1..2"]}, '"linked": 2', "a span, written otherwise"),
    yes(M, {"action": "link", "task": "T-1", "messages": ["1-2", "2", "m2"]}, '"linked": 2', "the same ones again"),
    yes(
        M,
        {"action": "link", "task": "T-1", "messages": "m1, m2", "as": "result"},
        '"as": "output"',
        "another word for a kind",
    ),
    yes(
        M,
        {"action": "link", "task": "T-1", "messages": ["m2"], "kind": "output"},
        '"as": "output"',
        "another name of the field",
    ),
    yes(
        M, {"action": "update_context", "section": "## Decisions", "text": "- pnpm"}, "pnpm", "a heading with its marks"
    ),
    yes(
        M,
        {"action": "update_context", "heading": "decisions", "content": "- pnpm"},
        "pnpm",
        "other names of the fields",
    ),
    yes(
        M,
        {"action": "update_context", "section": "Decisions", "text": "- pnpm", "mode": "set"},
        "pnpm",
        "another word for a mode",
    ),
    yes(M, {"action": "update_context", "text": "Uses pnpm"}, "Uses pnpm", "no section: at the end"),
    yes(
        M,
        {"action": "update_context", "section": "New one", "text": "x"},
        "# New one",
        "a section that is not there yet",
    ),
    yes(M, {"action": "update_context", "task": "T-3", "text": "half done"}, "half done", "a note at a task"),
    yes(
        M,
        {"action": "update_context", "section": "Decisions", "text": "x", "scope": "conversation"},
        '"thread"',
        "another word for a scope",
    ),
    yes(S, {"action": "recall", "id": "m2"}, "LoginSchema", "another name of the field"),
    yes(S, {"action": "recall", "target": 2}, "LoginSchema", "a number: of this thread"),
    yes(S, {"action": "recall", "target": "1-2"}, "LoginSchema", "a span: of this thread"),
    yes(S, {"action": "recall", "message_id": "m2", "detail": "all"}, "LoginSchema", "another word for a detail"),
    yes(S, {"action": "recall", "group": "g1"}, "LoginSchema", "another name of the field"),
    yes(S, {"action": "recall", "target": ["g1"]}, "LoginSchema", "a list of one"),
    yes(S, {"action": "recall", "target": "Working Memory"}, "Tally", "written otherwise"),
    yes(
        S,
        {"action": "search", "query": "LoginSchema", "sources": "messages"},
        "LoginSchema",
        "another word for a source",
    ),
    yes(S, {"action": "search", "query": "LoginSchema", "limit": "3"}, "LoginSchema", "a number in a string"),
    yes(S, {"action": "search", "query": "LoginSchema", "role": "AI"}, "LoginSchema", "another word for a role"),
    yes(S, {"action": "search", "query": "LoginSchema", "thread": "this"}, "LoginSchema", "this thread"),
    yes(S, {"action": "search", "query": "LoginSchema", "since": "2026-03-01"}, "LoginSchema", "a day"),
    yes(S, {"action": "search", "query": '"unclosed ((('}, '"results"', "any text is a query"),
    yes(S, {"action": "search", "query": "nothing like this anywhere qqq"}, '"results"', "nothing is found"),
    no(Q, {"action": "ready", "limit": "many"}, "`limit`", "no number"),
    no(Q, {"action": "ready", "limit": [1]}, "`limit`", "a list is no number"),
    no(Q, {"action": "ready", "limit": True}, "`limit`", "a truth is no number"),
    no(Q, {"action": "ready", "limit": 2.5}, "`limit`", "half a task"),
    no(Q, {"action": "ready", "type": "banana"}, "`type`", "no such type"),
    no(Q, {"action": "ready", "type": 5}, "`type`", "a number is no type"),
    no(Q, {"action": "ready", "max_priority": 9}, "`max_priority`", "there is no priority 9"),
    no(Q, {"action": "ready", "max_priority": "soon"}, "`max_priority`", "no priority"),
    no(Q, {"action": "ready", "cursor": "nonsense"}, "", "a cursor that nobody gave out"),
    no(
        Q,
        {"action": "search", "query": "docs", "cursor": "nonsense"},
        "is not a cursor",
        "a cursor that nobody gave out",
    ),
    no(Q, {"action": "list", "status": "banana"}, "`status`", "no such status"),
    no(Q, {"action": "list", "blocked": "maybe"}, "`blocked`", "neither true nor false"),
    no(Q, {"action": "list", "labels": {"a": 1}}, "`labels", "an object is no label"),
    no(Q, {"action": "search"}, "`query` is missing", "a field is missing"),
    no(Q, {"action": "search", "query": ""}, "`query`", "an empty query"),
    no(Q, {"action": "search", "query": "   "}, "`query`", "a query of blanks"),
    no(Q, {"action": "search", "query": ["a", "b"]}, "`query`", "a list is no query"),
    no(Q, {"action": "search", "query": {"text": "a"}}, "`query`", "an object is no query"),
    no(M, {"action": "create"}, "`title` is missing", "a field is missing"),
    no(M, {"action": "create", "title": ""}, "`title`", "an empty title"),
    no(M, {"action": "create", "title": "  "}, "`title`", "a title of blanks"),
    no(M, {"action": "create", "title": "x" * 501}, "`title`", "a title beyond all measure"),
    no(M, {"action": "create", "title": 5}, "`title`", "a number is no title"),
    no(M, {"action": "create", "title": ["a"]}, "`title`", "a list is no title"),
    no(M, {"action": "create", "title": "x", "priority": 7}, "`priority`", "there is no priority 7"),
    no(M, {"action": "create", "title": "x", "priority": -1}, "`priority`", "there is no priority -1"),
    no(M, {"action": "create", "title": "x", "priority": "yesterday"}, "`priority`", "no priority"),
    no(M, {"action": "create", "title": "x", "type": "banana"}, "`type`", "no such type"),
    no(M, {"action": "create", "title": "x", "due": "soon"}, "`due`", "no date"),
    no(M, {"action": "create", "title": "x", "due": 5}, "`due`", "a number is no date"),
    no(M, {"action": "create", "title": "x", "due": "2026-13-45"}, "`due`", "no such day"),
    no(M, {"action": "create", "title": "x", "blocked_by": "T-99"}, "no task", "it does not exist"),
    no(M, {"action": "create", "title": "x", "blocked_by": ["T-3", "T-99"]}, "no task", "one of them does not exist"),
    no(M, {"action": "create", "title": "x", "parent": "T-99"}, "no task", "it does not exist"),
    no(M, {"action": "create", "title": "x", "claim": "perhaps"}, "`claim`", "neither true nor false"),
    no(M, {"action": "close", "task": "T-3"}, "`summary` is missing", "a field is missing"),
    no(M, {"action": "close", "task": "T-3", "summary": ""}, "`summary`", "an empty summary"),
    no(M, {"action": "close", "summary": "done"}, "`task` is missing", "a field is missing"),
    no(M, {"action": "close", "task": "T-3", "summary": "x", "reason": "banana"}, "`reason`", "no such reason"),
    no(M, {"action": "close", "task": "T-5", "summary": "x"}, "closed", "it is closed already"),
    no(M, {"action": "dep", "op": "banana", "task": "T-3", "depends_on": "T-4"}, "`op`", "no such operation"),
    no(M, {"action": "dep", "task": "T-3", "depends_on": "T-4", "kind": "hates"}, "`kind`", "no such kind"),
    no(M, {"action": "link", "task": "T-1"}, "`messages` is missing", "a field is missing"),
    no(M, {"action": "link", "task": "T-1", "messages": []}, "`messages`", "no message"),
    no(M, {"action": "link", "task": "T-1", "messages": "m99"}, "no message", "it does not exist"),
    no(M, {"action": "link", "task": "T-1", "messages": ["m2"], "as": "banana"}, "`as`", "no such kind"),
    no(M, {"action": "update_context"}, "`text` is missing", "a field is missing"),
    no(M, {"action": "update_context", "section": "Decisions"}, "`text` is missing", "a field is missing"),
    no(M, {"action": "update_context", "mode": "remove"}, "`section`", "the whole cannot be replaced here"),
    no(
        M,
        {"action": "update_context", "mode": "replace", "text": "x"},
        "`section`",
        "the whole cannot be replaced here",
    ),
    no(M, {"action": "update_context", "mode": "remove", "section": "Nowhere"}, "no section", "it does not exist"),
    no(
        M,
        {"action": "update_context", "section": "Decisions", "text": "x" * 20_000},
        "more than the limit",
        "far too long",
    ),
    no(
        M,
        {"action": "update_context", "section": "Decisions", "text": "a\n# Other\nb"},
        "would end it",
        "two sections in one",
    ),
    no(M, {"action": "update_context", "task": "T-99", "text": "x"}, "no task", "it does not exist"),
    no(M, {"action": "update_context", "task": "T-5", "text": "x"}, "closed", "it is closed"),
    no(M, {"action": "update_context", "section": "Decisions", "text": ["a"]}, "`text`", "a list is no text"),
    no(S, {"action": "search"}, "`query` is missing", "a field is missing"),
    no(S, {"action": "search", "query": 5}, "`query`", "a number is no query"),
    no(S, {"action": "search", "query": "x", "since": "recently"}, "`since`", "no date"),
    no(S, {"action": "search", "query": "x", "sources": ["banana"]}, "`sources", "no such source"),
    no(S, {"action": "search", "query": "x", "role": "banana"}, "`role`", "no such role"),
    no(S, {"action": "recall"}, "`target` is missing", "a field is missing"),
    no(S, {"action": "recall", "target": ""}, "`target`", "nothing is named"),
    no(S, {"action": "recall", "target": "g99"}, "g99", "it does not exist"),
    no(S, {"action": "recall", "target": "no-such-message"}, "no-such-message", "it does not exist"),
    no(S, {"action": "recall", "target": "g1", "cursor": "nonsense"}, "cursor", "a cursor that nobody gave out"),
    no(S, {"action": "recall", "target": "g1", "detail": "banana"}, "`detail`", "no such detail"),
    no(S, {"action": "recall", "target": {"a": {"b": 1}}}, "`target`", "an object that names nothing"),
]

_TOOLS: list[Case] = [
    yes("task_query", {"action": "ready"}, '"T-1"', "another spelling of the tool"),
    yes("TaskQuery", {"action": "ready"}, '"T-1"', "another spelling of the tool"),
    yes("mcp__memolog__task-query", {"action": "ready"}, '"T-1"', "with its server's name"),
    yes("memolog.task-query", {"action": "ready"}, '"T-1"', "with its package's name"),
    yes("functions.memory_search", {"action": "recall", "target": "g1"}, "LoginSchema", "with a prefix"),
    no("tasks", {"action": "ready"}, "no tool", "no such tool"),
    no("", {"action": "ready"}, "no tool", "no tool at all"),
    no("delete-everything", {}, "no tool", "no such tool"),
    no("task-query-2", {"action": "ready"}, "no tool", "no such tool"),
]

CASES: list[Case] = [*_wrappings(), *_NOTHING, *_ACTIONS, *_NAMES, *_VALUES, *_TOOLS]
