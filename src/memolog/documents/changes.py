"""Changes of a document, as functions from the present document to the wanted one.

A change is pure: after a lost race it runs again on the document as it is then.
"""

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, cast

from memolog.documents.markdown import with_section, without_section
from memolog.documents.merging import merged, merged_values
from memolog.documents.schema import check_schema, problems
from memolog.domain.codec import JsonObject, object_text
from memolog.domain.errors import DocumentConflict, DocumentInvalid, DocumentNotFound, DocumentTooLarge
from memolog.domain.working_memory import Document, DocumentFormat, DocumentVersion

__all__ = [
    "Change",
    "SectionMode",
    "Wanted",
    "author_of_conflict",
    "checked",
    "edited_section",
    "merged_patch",
    "replaced",
    "restored",
    "settled",
    "unified",
    "value_of",
]

SectionMode: TypeAlias = Literal["replace", "append", "remove"]
_MOST_TOLD: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a document should be."""

    text: str
    format: DocumentFormat = "markdown"
    schema: JsonObject | None = None


Change: TypeAlias = Callable[[Document | None], Wanted]


def value_of(text: str) -> JsonObject:
    """Return the object that a JSON document holds; an empty one is the empty object."""
    if not text.strip():
        return {}
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentInvalid(
            f"The text is not valid JSON: {error}.",
            why="This working memory is JSON.",
            then="Pass an object, or its JSON.",
        ) from error
    if not isinstance(value, Mapping):
        raise DocumentInvalid("The working memory must be one JSON object.", then="Pass an object with named fields.")
    return cast("JsonObject", value)


def _json(value: JsonObject) -> str:
    object_text("The working memory", value)
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


# ---------------------------------------------------------------- changes


def replaced(content: str | JsonObject, schema: JsonObject | None = None) -> Change:
    """Return the change to another content: Markdown, or an object, with a schema if one is given."""
    if schema is not None:
        check_schema(schema)

    def change(present: Document | None) -> Wanted:
        held = None if present is None else present.schema
        has_text = present is not None and bool(present.current.text.strip())
        was_json = present is not None and has_text and present.format == "json"
        is_json = was_json or not isinstance(content, str) or schema is not None or held is not None
        if has_text and not was_json and schema is None and not isinstance(content, str):
            raise DocumentInvalid(
                "This working memory is Markdown, not JSON.", then="Pass text, or a schema to turn it into JSON."
            )
        if not is_json:
            return Wanted(text=_text(content))
        value = value_of(content) if isinstance(content, str) else content
        return Wanted(text=_json(value), format="json", schema=held if schema is None else schema)

    return change


def merged_patch(patch: JsonObject) -> Change:
    """Return the change by a JSON merge patch: fields take the place of fields, null takes one away."""
    if not isinstance(patch, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DocumentInvalid(
            f"`patch` must be an object, got {type(patch).__name__}.",
            then="Pass the fields that change; null removes one.",
        )

    def change(present: Document | None) -> Wanted:
        if present is not None and present.format != "json" and present.current.text.strip():
            raise DocumentInvalid("Only a JSON working memory can be merged.", then="Edit a section of this one.")
        value: JsonObject = value_of(present.current.text) if present is not None else {}
        schema = present.schema if present is not None else None
        return Wanted(text=_json(_patched(value, patch)), format="json", schema=schema)

    return change


def _patched(value: object, patch: object) -> JsonObject:
    # RFC 7396: a value that is not an object takes the place of what was there; a missing target is an empty object.
    result = dict(cast("JsonObject", value)) if isinstance(value, Mapping) else {}
    for name, item in cast("JsonObject", patch).items():
        if item is None:
            result.pop(name, None)
        elif isinstance(item, Mapping):
            result[name] = _patched(result.get(name), cast("JsonObject", item))
        else:
            result[name] = item
    return result


def edited_section(heading: str, text: str | None, mode: SectionMode = "replace") -> Change:
    """Return the change of one section: its content replaced, added to, or the section removed."""
    if mode not in {"replace", "append", "remove"}:
        raise DocumentInvalid(f"`mode` must be 'replace', 'append' or 'remove', got {mode!r}.")

    def change(present: Document | None) -> Wanted:
        if present is not None and present.format == "json":
            raise DocumentInvalid("A JSON working memory has fields, not sections.", then="Merge a patch instead.")
        old = present.current.text if present is not None else ""
        if mode == "remove":
            return Wanted(text=without_section(old, heading))
        return Wanted(text=with_section(old, heading, _text(text or ""), append=mode == "append"))

    return change


def restored(version: DocumentVersion) -> Change:
    """Return the change back to the text of an old version."""

    def change(present: Document | None) -> Wanted:
        if present is None:
            raise DocumentNotFound("There is no working memory yet.", then="Write one first.")
        return Wanted(text=version.text, format=present.format, schema=present.schema)

    return change


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise DocumentInvalid(f"The working memory must be a string, got {type(text).__name__}.", then="Pass a string.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ---------------------------------------------------------------- before it is written


def settled(present: Document, base: DocumentVersion, change: Change) -> Wanted:
    """Return what a change made from an older version comes to; raises DocumentConflict if both touch the same part."""
    wanted = change(replace(present, current=base))
    if wanted.format != present.format or wanted.schema != present.schema:
        raise _conflict(present, base, ())
    if wanted.format == "json":
        value, both = merged_values(*map(value_of, (base.text, present.current.text, wanted.text)))
        text = _json(value)
    else:
        text, both = merged(base.text, present.current.text, wanted.text)
    if both:
        raise _conflict(present, base, both)
    return replace(wanted, text=text)


def _conflict(present: Document, base: DocumentVersion, parts: tuple[str, ...]) -> DocumentConflict:
    return DocumentConflict(base.number, present.current.number, present.current.by, parts)


def author_of_conflict(
    present: Document, base: DocumentVersion, between: Sequence[DocumentVersion], change: Change
) -> str:
    """Return who first wrote what a change runs into, of those who wrote since; `between` is oldest first."""
    for version in between:
        try:
            settled(replace(present, current=version), base, change)
        except (DocumentConflict, DocumentInvalid):
            return version.by
    return present.current.by


def checked(wanted: Wanted, most: int) -> Wanted:
    """Return what is wanted if size and schema allow it; raises DocumentTooLarge or DocumentInvalid."""
    if len(wanted.text) > most:
        raise DocumentTooLarge(len(wanted.text), most)
    wrong = problems(value_of(wanted.text), wanted.schema) if wanted.schema is not None else ()
    if wrong:
        more = f"; and {len(wrong) - _MOST_TOLD} more" if len(wrong) > _MOST_TOLD else ""
        raise DocumentInvalid(
            f"The schema refuses it: {'; '.join(wrong[:_MOST_TOLD])}{more}.",
            then="Correct these fields; the working memory is as it was.",
        )
    return wanted


def unified(old: DocumentVersion, new: DocumentVersion) -> str:
    """Return the difference of two versions, in the form that `diff -u` has."""
    names = (f"version {old.number}", f"version {new.number}")
    lines = difflib.unified_diff(old.text.splitlines(), new.text.splitlines(), *names, lineterm="", n=2)
    return "".join(f"{line}\n" for line in lines)
