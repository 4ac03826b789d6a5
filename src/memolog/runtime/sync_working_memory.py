"""Working memory without `await`: each method is that of the same name.

Knows nothing but the portal that it calls through.
"""

from memolog.documents.changes import SectionMode
from memolog.domain.codec import JsonObject
from memolog.domain.working_memory import Document, DocumentVersion
from memolog.runtime.portal import Portal
from memolog.runtime.working_memory import WorkingMemory

__all__ = ["SyncWorkingMemory"]


class SyncWorkingMemory:
    """A small document of lasting facts, shown in every context. Every version is kept, with who wrote it."""

    def __init__(self, document: WorkingMemory, portal: Portal) -> None:
        self._document, self._portal = document, portal

    def read(self) -> Document | None:
        """Return the document with its present version; None if nobody has written one."""
        return self._portal.call(self._document.read())

    def value(self) -> JsonObject:
        """Return the object that a JSON working memory holds."""
        return self._portal.call(self._document.value())

    def versions(self, *, limit: int = 50, before: int | None = None) -> tuple[DocumentVersion, ...]:
        """Return the versions, newest first."""
        return self._portal.call(self._document.versions(limit=limit, before=before))

    def diff(self, old: int, new: int | None = None) -> str:
        """Return what changed from one version to another, or to the present one."""
        return self._portal.call(self._document.diff(old, new))

    def start(
        self, name: str = "personal", *, who: str, schema: JsonObject | None = None, value: JsonObject | None = None
    ) -> Document:
        """Begin with a template, or with JSON under a schema."""
        return self._portal.call(self._document.start(name, who=who, schema=schema, value=value))

    def replace(
        self, content: str | JsonObject, *, who: str, version: int | None = None, schema: JsonObject | None = None
    ) -> Document:
        """Write the whole of it anew."""
        return self._portal.call(self._document.replace(content, who=who, version=version, schema=schema))

    def merge(self, patch: JsonObject, *, who: str, version: int | None = None) -> Document:
        """Change fields of a JSON working memory."""
        return self._portal.call(self._document.merge(patch, who=who, version=version))

    def edit_section(
        self,
        heading: str,
        text: str | None = None,
        *,
        who: str,
        mode: SectionMode = "replace",
        version: int | None = None,
    ) -> Document:
        """Replace what stands under a Markdown heading, append to it, or remove the section."""
        return self._portal.call(self._document.edit_section(heading, text, who=who, mode=mode, version=version))

    def restore(self, version: int, *, who: str) -> Document:
        """Bring the text of an old version back, as a new version."""
        return self._portal.call(self._document.restore(version, who=who))
