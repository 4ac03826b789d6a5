"""Tests of how a page writes texts."""

import pytest

from memolog.apps.ui.formats import marked


@pytest.mark.parametrize(
    ("snippet", "exact", "shown"),
    [
        ("a «late» fee", "a late fee", "a <mark>late</mark> fee"),
        ("«<b>» & »", "", "<mark>&lt;b&gt;</mark> &amp; »"),
        ("Il dit «bonjour» à «tous»", "Il dit «bonjour» à tous", "Il dit «bonjour» à <mark>tous</mark>"),
        ("« «oui» » dit-elle", "« oui » dit-elle", "« <mark>oui</mark> » dit-elle"),
        ("…dit ««oui»» et «non»…", "Elle dit «oui» et\nnon, puis", "…dit «<mark>oui»</mark> et <mark>non</mark>…"),
        ("never » this « «way»", "never » this « way", "never » this « <mark>way</mark>"),
        ("«one» of other words", "« something else", "«one» of other words"),
    ],
)
def test_marks_of_a_search_and_quotation_marks_of_a_text(snippet: str, exact: str, shown: str) -> None:
    """What encloses a match becomes a mark. What stands in the text stays."""
    assert marked(snippet, exact) == shown
