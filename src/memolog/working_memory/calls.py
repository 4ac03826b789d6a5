"""Read, change and restore the working memory of one resource or thread, and list and compare its versions."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from memolog.core.config import Config
from memolog.core.document import Document, DocumentVersion
from memolog.core.exact_json import JsonObject
from memolog.errors import DocumentInvalid, DocumentNotFound
from memolog.events import changed_document
from memolog.text.redaction import redactor_for
from memolog.working_memory.document import (
    Change,
    KnownLine,
    NewContent,
    SectionMode,
    added_line,
    edited_section,
    merged_patch,
    replaced,
    restored,
    unified,
    value_of,
)
from memolog.working_memory.schema import template

if TYPE_CHECKING:
    from memolog.connection import Components

_Open: TypeAlias = "Callable[[], Awaitable[Components]]"


class WorkingMemory:
    """A small document of lasting facts, which every context shows. Every version is stored with its author."""

    resource: str
    thread: str | None

    def __init__(
        self, open_components: _Open, open_to_write: _Open, resource: str, thread: str | None, config: Config
    ) -> None:
        self.resource, self.thread = resource, thread
        self._open, self._open_to_write, self._config = open_components, open_to_write, config

    # ------------------------------------------------------------ reading

    async def read(self) -> Document | None:
        """Return the document with its present version, or None if there is no document yet."""
        components = await self._open()
        return await components.store.working_memory.get(self.resource, self.thread)

    async def value(self) -> JsonObject:
        """Return the object of a JSON working memory, or an empty object if there is no document yet."""
        document = await self.read()
        if document is not None and document.format != "json":
            raise DocumentInvalid("This working memory is Markdown, not JSON.", then="Use read().")
        return value_of(document.current.text) if document is not None else {}

    async def versions(self, *, limit: int = 50, before: int | None = None) -> tuple[DocumentVersion, ...]:
        """Return the versions, the newest first. Pass the lowest number as `before` to get older versions."""
        components = await self._open()
        return await components.store.working_memory.versions(self.resource, self.thread, limit=limit, before=before)

    async def diff(self, old: int, new: int | None = None) -> str:
        """Return the difference between two versions in the form of `diff -u`. `new` is by default the present version."""
        components = await self._open()
        store = components.store.working_memory
        before = await store.version(self.resource, old, thread=self.thread)
        if new is not None:
            return unified(before, await store.version(self.resource, new, thread=self.thread))
        document = await store.get(self.resource, self.thread)
        if document is None:
            raise DocumentNotFound("There is no working memory yet.", then="Write one first.")
        return unified(before, document.current)

    # ------------------------------------------------------------ changing

    async def start(
        self, name: str = "personal", *, who: str, schema: JsonObject | None = None, value: JsonObject | None = None
    ) -> Document:
        """Write the first text: a template (`coding` or `personal`), or a JSON object with a schema.

        Raise DocumentInvalid if the working memory has a text already.
        """
        first = replaced(value or {}, schema) if schema is not None or value is not None else replaced(template(name))

        def change(present: Document | None) -> NewContent:
            if present is not None and present.current.text.strip():
                raise DocumentInvalid("There is a working memory already.", then="Change it, or use replace().")
            return first(present)

        return await self._change(change, who, None)

    async def replace(
        self, content: str | JsonObject, *, who: str, version: int | None = None, schema: JsonObject | None = None
    ) -> Document:
        """Replace the whole content with Markdown, or with an object if the working memory is JSON. `schema` sets a new schema.

        Pass as `version` the version that you read. Then later changes of other sections or fields stay, and a later change of
        the same section or field raises DocumentConflict. Without `version`, the new content replaces all later changes.
        """
        return await self._change(replaced(content, schema), who, version)

    async def merge(self, patch: JsonObject, *, who: str, version: int | None = None) -> Document:
        """Change fields of a JSON working memory: null removes a field, objects are merged, other values replace the field."""
        return await self._change(merged_patch(patch), who, version)

    async def edit_section(
        self,
        heading: str,
        text: str | None = None,
        *,
        who: str,
        mode: SectionMode = "replace",
        version: int | None = None,
    ) -> Document:
        """Replace the text under a Markdown heading, append to it, or remove the section.

        A section ends at the next heading of the same or a higher level. A missing section is added at the end.
        """
        return await self._change(edited_section(heading, text, mode), who, version)

    async def add_line(self, section: str, line: str, *, who: str, known: str | None = None) -> Document | None:
        """Add a line to the list under a Markdown heading, or to the list in a field if the working memory is JSON.

        If a line that begins with `known` is there already, nothing changes and None is returned. The default is the line itself.
        """
        known = line if known is None else known
        if self._config.redact_raw:
            # The stored line has no secrets, so it is compared without them.
            known = redactor_for(self._config).redact(known)
        try:
            return await self._change(added_line(section, line, known), who, None)
        except KnownLine:
            return None

    async def restore(self, version: int, *, who: str) -> Document:
        """Restore the text of an old version as a new version."""
        components = await self._open()
        old = await components.store.working_memory.version(self.resource, version, thread=self.thread)
        return await self._change(restored(old), who, None)

    async def _change(self, change: Change, who: str, version: int | None) -> Document:
        components = await self._open_to_write()
        most = self._config.working_memory_characters
        before = await components.store.working_memory.get(self.resource, self.thread)
        document = await components.store.working_memory.change(
            self.resource, change, thread=self.thread, who=who, most=most, read=version
        )
        if before is None or before.current.number != document.current.number:
            await components.core.tell(changed_document(document, components.clock.now()))
        return document
