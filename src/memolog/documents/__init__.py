"""Edit working memory as text: sections, patches, schemas, merges and templates, as pure functions."""

from memolog.documents.changes import (
    Change,
    Wanted,
    edited_section,
    merged_patch,
    replaced,
    restored,
    unified,
    value_of,
)
from memolog.documents.markdown import Section, section_named, sections_of
from memolog.documents.merging import merged
from memolog.documents.schema import check_schema, problems
from memolog.documents.templates import TEMPLATES, template

__all__ = [
    "TEMPLATES",
    "Change",
    "Section",
    "Wanted",
    "check_schema",
    "edited_section",
    "merged",
    "merged_patch",
    "problems",
    "replaced",
    "restored",
    "section_named",
    "sections_of",
    "template",
    "unified",
    "value_of",
]
