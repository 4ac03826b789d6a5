"""Sixty answers with verdicts that a person gave before any judge had seen them.

A row has the rule of the question, the question, the expected answer (None: there is none), the answer, and the verdict.
"""

# ruff: noqa: E501 - a table of long sentences

from memolog.apps.eval.datasets import Rule

__all__ = ["VERDICTS"]

VERDICTS: tuple[tuple[Rule, str, str | None, str, bool], ...] = (
    # Plain facts, from literal to loosely worded.
    ("answer", "What degree did I graduate with?", "Business Administration", "You graduated with a degree in Business Administration.", True),
    ("answer", "What degree did I graduate with?", "Business Administration", "You have a degree in Economics.", False),
    ("answer", "Where did I redeem the coupon?", "Target", "You used it at Target last Sunday.", True),
    ("answer", "Where did I redeem the coupon?", "Target", "At a supermarket near your home.", False),
    ("answer", "What breed is my dog?", "Golden Retriever", "Max is a golden retriever.", True),
    ("answer", "What breed is my dog?", "Golden Retriever", "A retriever of some kind.", False),
    ("answer", "What is my cousin's job?", "pastry chef", "She works as a chef for pastries in Lyon.", True),
    ("answer", "What is my cousin's job?", "pastry chef", "Your cousin bakes cakes and tarts for a living.", True),
    ("answer", "Which code did the washer show?", "E21", "The display said E-21.", True),
    ("answer", "Which code did the washer show?", "E21", "The display said E12.", False),
    ("answer", "Which ticket is about the queries?", "TID-495", "TID-495 covers the N+1 queries.", True),
    ("answer", "Which ticket is about the queries?", "TID-495", "That is ticket TID-459.", False),
    ("answer", "Which package manager must be used?", "pnpm, never npm", "Always use pnpm.", True),
    ("answer", "Which package manager must be used?", "pnpm, never npm", "npm, as usual.", False),
    ("answer", "Who audits and for which fee?", "Hollis & Bright, $18,500", "The auditor is Hollis & Bright; they charge 18500 dollars.", True),
    ("answer", "Who audits and for which fee?", "Hollis & Bright, $18,500", "Hollis & Bright do the audit.", False),
    ("answer", "What did the dentist prescribe?", "Clindamycin 300 mg for 7 days", "7 days of clindamycin, 300mg each", True),
    ("answer", "What did the dentist prescribe?", "Clindamycin 300 mg for 7 days", "Amoxicillin 300 mg for 7 days", False),
    ("answer", "Why was lisinopril stopped?", "Because of a dry cough", "It gave you a dry cough, mostly at night.", True),
    ("answer", "Why was lisinopril stopped?", "Because of a dry cough", "Because your blood pressure was too low.", False),
    ("answer", "Did I finish the marathon?", "Yes", "Yes, in just under five hours.", True),
    ("answer", "Did I finish the marathon?", "Yes", "No, you stopped at kilometre 30.", False),
    # Numbers and amounts.
    ("answer", "How many model kits have I bought?", "five", "You have bought 5 model kits so far.", True),
    ("answer", "How many model kits have I bought?", "five", "You have bought four model kits.", False),
    ("answer", "What is the total budget?", "$230k", "The budget is $230,000 in total.", True),
    ("answer", "What is the total budget?", "$230k", "The budget is $240k.", False),
    ("answer", "What was the sum for September?", "1,284,310.45 CAD", "It came to CAD 1284310.45.", True),
    ("answer", "Wie hoch ist die Kaution?", "2.100 €", "Die Kaution beträgt 2100 Euro.", True),
    ("answer", "Wie hoch ist die Kaution?", "2.100 €", "Die Kaution beträgt 1.200 €.", False),
    ("answer", "Wie lang ist die Küche?", "3,02 m", "Sie ist 3,12 m lang.", False),
    ("answer", "Quanto costa la farina al chilo?", "1,04 €", "Da aprile costa 1,04 euro al chilo.", True),
    ("answer", "How many hours did I drive?", "15 hours for getting to the three destinations (or 30 hours for the round trip)", "30 hours, counting the way back.", False),
    ("answer", "How many plants did I buy?", "3", "You mentioned 2 ferns, 3 roses, 4 herbs, 5 pots and 6 seeds.", False),
    # Time.
    ("temporal", "When is the wedding?", "Saturday 10 April 2027", "On April 10th, 2027.", True),
    ("temporal", "When is the wedding?", "Saturday 10 April 2027", "In February 2027.", False),
    ("temporal", "¿Cuándo es la boda?", "El sábado 11 de julio de 2026", "El 11 de julio.", True),
    ("temporal", "¿Cuándo es la boda?", "El sábado 11 de julio de 2026", "El 5 de septiembre de 2026.", False),
    ("temporal", "Quand a lieu le rendez-vous ?", "Le 4 mars 2026 à 16 h 45", "Le 4 mars à 16h45.", True),
    ("temporal", "Quand a lieu le rendez-vous ?", "Le 4 mars 2026 à 16 h 45", "Le 4 mars à 10 h 30.", False),
    ("temporal", "入居日はいつですか？", "2026年6月27日", "6月27日になりました。", True),
    ("temporal", "入居日はいつですか？", "2026年6月27日", "6月20日です。", False),
    ("temporal", "How many days passed between the two events?", "7 days. 8 days (including the last day) is also acceptable.", "Eight days passed.", True),
    ("temporal", "How many days passed between the two events?", "7 days. 8 days (including the last day) is also acceptable.", "Ten days passed.", False),
    ("temporal", "When did Ada start?", "7 May 2023", "She started on 2023-05-07.", True),
    ("temporal", "How many weeks ago did I buy the lamp?", "4 weeks", "About a month ago.", True),
    # What has changed.
    ("update", "Where do I live now?", "Coburg", "You live in Coburg now; before that it was Fitzroy.", True),
    ("update", "Where do I live now?", "Coburg", "You live in Fitzroy.", False),
    ("update", "How often do I go to yoga?", "Three times a week", "You go 3 times each week.", True),
    ("update", "How often do I go to yoga?", "Three times a week", "You go twice a week.", False),
    ("update", "Who is my guarantor?", "兄の健太", "保証人は兄の健太さんです。", True),
    # What was never said.
    ("abstention", "What is my blood type?", None, "You have not mentioned your blood type.", True),
    ("abstention", "What is my blood type?", None, "Your blood type is A positive.", False),
    ("abstention", "How long did the iPad case take?", None, "I don't know: you told me about an iPhone case, but not about one for an iPad.", True),
    ("abstention", "Quanti anni ha Ilaria?", None, "Non lo so, non è stato detto.", True),
    ("abstention", "Wie heißt der Vermieter?", None, "Das wurde nicht erwähnt.", True),
    ("abstention", "Wie heißt der Vermieter?", None, "Er heißt Herr Wenzel.", False),
    ("abstention", "¿Cómo se llama su padre?", None, "No consta en nuestras conversaciones.", True),
    ("abstention", "Which colour is the car?", None, "There is no information about the colour in what you told me.", True),
    # Answers that give up although the answer was said.
    ("answer", "Who leads sales?", "Ottoline Reyes", "I do not know who leads sales.", False),
    ("answer", "What is the name of the refund function?", "calculateRefund", "It was renamed, but I could not find the new name.", False),
)  # fmt: skip
