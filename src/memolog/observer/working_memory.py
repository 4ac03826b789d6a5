"""Let the observer keep working memory: choose the document of a run, and check the proposed text.

A proposal takes effect when its group is activated.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memolog.core.document import Proposal
from memolog.core.message import Message
from memolog.core.run import Run
from memolog.errors import DocumentNotFound
from memolog.observer.judge import trusted_document
from memolog.observer.prompt import ObserveInput
from memolog.text.redaction import Redactor
from memolog.working_memory.schema import template

if TYPE_CHECKING:
    from memolog.store import Store

_FIRST = "personal"
"""The template that the observer starts from."""


async def document_for(store: "Store", resource: str, run: Run) -> str | None:
    """Return the document that an observer is shown; None if it keeps none."""
    given = run.inputs.get("document")
    if given is None:
        return None
    if not given["version"]:
        return template(_FIRST)
    owner = run.thread if given["of_thread"] else None
    try:
        return (await store.working_memory.version(resource, given["version"], thread=owner)).text
    except DocumentNotFound:
        return None


def proposal_of(
    answered: str | None,
    run: Run,
    given: ObserveInput,
    messages: Sequence[Message],
    redactor: Redactor,
    foreign: Sequence[Message],
) -> tuple[Proposal | None, tuple[str, ...]]:
    """Return the proposed document of an answer, and its faults."""
    known = run.inputs.get("document")
    if answered is None or known is None or given.document is None:
        return None, ()
    wanted = redactor.redact(answered)
    is_json = given.document.lstrip().startswith("{")
    text = trusted_document(given.document, wanted, messages, foreign=foreign, whole=is_json)
    wrong = () if text.strip() == wanted.strip() else ("untrusted_document",)
    if text.strip() == given.document.strip() or len(text) > given.document_most:
        return None, (*wrong, *(("long_document",) if len(text) > given.document_most else ()))
    version, of_thread = int(known["version"]), bool(known["of_thread"])
    return Proposal(of_thread=of_thread, base=version, text=text, most=given.document_most), wrong
