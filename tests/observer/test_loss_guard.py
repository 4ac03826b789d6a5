"""The rules of the loss guard: what a line of a result still says, and what it has lost."""

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import Any

import pytest

from kit.rows import new_group
from memolog.core.deadline import at_once
from memolog.core.observation import Observation, Priority
from memolog.observer.drafts import ReflectedDraft
from memolog.observer.loss import ResultLine, lost, lost_lines, unsaid, vague
from memolog.observer.observations import Guarded, archived, gaps_of, guarded, lines_to_condense
from memolog.text.tokens import HeuristicCounter


def line(text: str, priority: Priority = "medium", ordinal: int = 1, **fields: Any) -> Observation:
    """Return an observation."""
    return Observation(id=f"o{ordinal}", group="g", ordinal=ordinal, priority=priority, text=text, **fields)


def is_said(text: str, by: str, *, named: bool = True, priority: Priority = "high") -> bool:
    """Tell whether one line still says a statement."""
    return at_once(unsaid([line(text, priority)], [ResultLine(by, ["o1"] if named else [])])) == ()


# ---------------------------------------------------------------- statements


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("User bakes in Ghent", "User's bakery is in Ghent and sells bread"),
        ("User is allergic to peanuts", "User has a peanut allergy and an asthma"),
        ("User prefers tabs over spaces", "Code style: tabs, no spaces at all over spaces"),
        ("User has 2 cats in Oslo", "User lives in Oslo with 2 cats"),
        ("No ORM, ever", "User wants plain SQL; no ORM ever"),
        ("User never eats fish", "User eats meat; never fish"),
        ("All money in integer cents", "Rules: money in integer cents, tests first"),
        ("User files the return on 2026-03-20", "User files the return (meaning 2026-03-20)"),
        ("User lives in 大阪", "User works and lives in 大阪"),
        ("Yes!", "User agreed to the plan"),
    ],
)
def test_a_statement_that_is_still_said(text: str, by: str) -> None:
    """Another wording is fine as long as content words, names, numbers and negations are there."""
    assert is_said(text, by)


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("User is allergic to peanuts", "User has health restrictions"),
        ("User is allergic to peanuts", "User likes peanuts"),
        ("No ORM, ever", "User has opinions about an ORM"),
        ("Do not use an ORM", "User uses an ORM and no hostels"),
        ("User never eats fish", "User eats fish"),
        ("Bitte keine Nüsse in den Kuchen", "User mag Nüsse im Kuchen"),
        ("Never deploy on Friday", "Deploys happen on Friday"),
        ("User takes candesartan 8 mg", "User takes candesartan 16 mg"),
        ("User meets Anna Schmidt at 14:30", "User meets Anna Schmidt"),
        ("User lives in 大阪", "User lives in Japan"),
        ("用户住在大阪", "用户住在日本"),
        ("ผู้ใช้แพ้ถั่วลิสง", "ผู้ใช้แพ้อาหาร"),
        ("המשתמש גר בחיפה", "המשתמש גר בישראל"),
        ("User lives in חיפה", "User lives in Israel"),
        ("用户不吃鱼", "用户吃鱼"),
    ],
)
def test_a_statement_that_is_lost(text: str, by: str) -> None:
    """A vaguer, changed or reversed line does not say it, whatever it claims to stand for."""
    assert not is_said(text, by)


INVERSIONS: dict[str, tuple[str, ...]] = {
    "Never deploy to production on a Friday": (
        "User deploys to production on a Friday",
        "User no longer says never: deploy to production on a Friday",
        "Deploying to production on a Friday is never a problem",
        "User never minds a deploy to production on a Friday",
        "Never deploy to production on a Monday; on a Friday deploy",
        "Never hesitate to deploy to production on a Friday",
        "User used to say never deploy to production on a Friday, now it is allowed",
        "Never deploy to production on a Friday was cancelled",
        "It is not true that User said never deploy to production on a Friday",
        "Never deploy to production on a Friday unless it is convenient",
        "User mentioned production deploys",
        "Only deploy to production on a Friday",
        "User never said deploy to production on a Friday is bad",
        "Mallory says never deploy to production on a Friday",
        "Never deploy to production on a Friday before noon",
        "If asked never deploy to production on a Friday, deploy anyway",
        *(
            f"Never deploy to production on a Friday{rest}"
            for rest in (
                "; this rule is void",
                " (old rule)",
                ". Overridden by ops",
                ", but go right ahead",
                "? Deploy",
                " (User was wrong)",
                ": myth",
                " ❌",
                " is what User said before changing their mind",
                " applied to the legacy system only",
                "; outdated",
                "; lifted by the team",
            )
        ),
        "~~Never deploy to production on a Friday~~",
    ),
    "User must not be called on the phone": (
        "User must not only be called on the phone",
        "User must not be called on the phone less than daily",
    ),
    "Avoid peanuts in every recipe": ("Avoid recipes lacking peanuts in every recipe", "Peanuts in every recipe"),
    "User is strictly against using Redis": (
        "User is strictly using Redis",
        "User is strictly for using Redis against Memcached",
    ),
    "Only Anna may approve payments": (
        "Anna may approve payments",
        "Not only Anna may approve payments",
        "Anna and only Bob may approve payments",
    ),
    "Stop sending weekly reports to the board": ("User sends weekly reports to the board",),
    "User forbade to email customers": ("User asked to email customers", "User only asked to email customers"),
    "Nur Anna darf Zahlungen freigeben": ("Anna darf Zahlungen freigeben",),
    "Ich bin gegen Redis in diesem Projekt": ("Ich bin für Redis in diesem Projekt",),
    "Evita cacahuetes en las recetas": ("Cacahuetes en las recetas",),
    "Arrête les rapports hebdomadaires": ("Les rapports hebdomadaires",),
    "Always run the tests before a commit": (
        "Never run the tests before a commit",
        "No need to run the tests before a commit",
    ),
    "Bitte niemals Nüsse in den Kuchen geben": (
        "Bitte niemals vergessen, Nüsse in den Kuchen zu geben",
        "Nüsse in den Kuchen geben ist nicht verboten",
        "Früher niemals Nüsse in den Kuchen geben, jetzt schon",
    ),
    "Ne supprime jamais la table des clients": (
        "N'oublie jamais de supprimer la table des clients",
        "Ne plus garder la table des clients : supprime",
        "Supprimer la table des clients n'est plus interdit",
    ),
    "No uses nunca la base de producción": (
        "No dudes nunca en usar la base de producción",
        "Usa siempre la base de producción, nunca la de pruebas",
    ),
    "Non cancellare mai i backup di notte": ("Non dimenticare mai di cancellare i backup di notte",),
    "Nunca envie dados dos clientes por email": ("Nunca deixe de enviar dados dos clientes por email",),
    "Никогда не удаляй продакшен базу": ("Теперь можно: удаляй продакшен базу, раньше никогда",),
    "不要删除生产数据库": ("可以删除生产数据库", "不要忘记删除生产数据库", "删除生产数据库没有问题"),
    "本番データベースを削除しないでください": ("本番データベースを削除しても問題ない",),
    "운영 데이터베이스를 삭제하지 마세요": ("운영 데이터베이스를 삭제하세요",),
    "لا تحذف قاعدة بيانات الإنتاج": ("لا تنس: احذف قاعدة بيانات الإنتاج",),
}


@pytest.mark.parametrize("text", INVERSIONS)
def test_what_is_forbidden_is_neither_erased_nor_inverted(text: str) -> None:
    """A prohibition that is denied, weakened, moved or taken back is carried over in its own words."""
    for by in INVERSIONS[text]:
        for named in (True, False):
            assert not is_said(text, by, named=named), by
        made = [line(by, "high", 1, merges=("o1",))]
        kept = at_once(guarded(made, [line(text, "high", 1)], new_group("new")))
        assert [one.text for one in kept.observations] == [text]
    for by in (text, f"User said: {text}", f"{text}; User likes tea"):
        assert is_said(text, by)


@pytest.mark.parametrize(
    ("text", "turned", "same"),
    [
        ("User keeps the budget below 500 EUR", "User keeps the budget above 500 EUR", "Budget of User: under 500 EUR"),
        ("User keeps the budget below 500 EUR", "User keeps the budget not below 500 EUR", "Budget below 500 EUR"),
        ("Ask User before every deploy", "Ask User after every deploy", "Ask User prior to every deploy"),
        ("Hands off the billing module", "Hands on the billing module", "User: hands off the billing module"),
        ("User prefers tabs over spaces", "User prefers spaces over tabs", "User prefers tabs over the spaces"),
        ("Reserve at most 12 seats", "Reserve at least 12 seats", "Reserve up to 12 seats"),
        ("Reduce the rent share", "Increase the rent share", "User: reduce rent share"),
        ("Vor jedem Umzug Anna fragen", "Nach jedem Umzug Anna fragen", "Anna fragen vor jedem Umzug"),
        ("Guarda menos de 30 correos", "Guarda más de 30 correos", "Guarda los correos, menos de 30"),
        ("Garde au plus 40 photos", "Garde au moins 40 photos", "Garde les photos, au plus 40"),
    ],
)
def test_an_opposite_does_not_say_it(text: str, turned: str, same: str) -> None:
    """A result line must have the same opposite, or a synonym of it, before the same words."""
    assert not is_said(text, turned)
    assert not is_said(text, turned, named=False)
    assert is_said(text, same)
    assert is_said(text, text)


def test_only_the_user_takes_a_prohibition_back() -> None:
    """A newer statement supersedes a prohibition only if it revokes the prohibition itself."""
    older = line("Never deploy to production on a Friday", "high", 1)
    other = line("User likes the new deploy dashboard", "high", 2)
    by = "User likes the new deploy dashboard instead of never deploying on a Friday"
    assert at_once(unsaid([older, other], [ResultLine(by, ["o1", "o2"])])) == (older,)
    newer = line("User now wants deploys to production on a Friday too", "high", 2)
    by = "User now wants deploys to production on a Friday too (before: never deploy to production on a Friday)"
    assert at_once(unsaid([older, newer], [ResultLine(by, ["o1", "o2"])])) == ()


def test_a_line_that_does_not_name_it_must_say_more() -> None:
    """60 % of the words are enough where a line names what it stands for; 80 % where it does not."""
    text = "User wants green walls, oak floors and tall windows"
    by = "User wants green walls and an oak floor"
    assert is_said(text, by)
    assert not is_said(text, by, named=False)
    assert is_said(text, text, named=False)


def test_a_line_of_less_weight_is_not_enough() -> None:
    """A result line of lower priority does not count, because the next reflection could drop it."""
    said = ResultLine("User bakes in Ghent", ["o1"], "medium")
    assert at_once(unsaid([line("User bakes in Ghent", "high")], [said])) != ()


def test_finished_work_may_lose_its_counts() -> None:
    """A ✅ line is about what was finished; a 🔴 line is about every number in it."""
    text, by = "Login endpoint finished, 42 tests passed", "Login endpoint finished with its tests"
    assert is_said(text, by, priority="done")
    assert not is_said(text, by, priority="high")


def test_a_newer_statement_that_names_the_older_one_supersedes_it() -> None:
    """The result line merges both, says the newer one, and names what it replaced."""
    older = line("User takes ramipril 5 mg once a day", "high", 1, said_at=datetime(2026, 3, 1, tzinfo=UTC))
    newer = line(
        "Doctor switched User from ramipril to candesartan 8 mg", "high", 2, said_at=datetime(2026, 3, 9, tzinfo=UTC)
    )
    both = ResultLine("Doctor switched User from ramipril to candesartan 8 mg", ["o1", "o2"])
    assert at_once(unsaid([older, newer], [both])) == ()
    assert at_once(unsaid([older, newer], [ResultLine("User takes candesartan 8 mg now", ["o1", "o2"])])) != ()
    assert at_once(unsaid([older, newer], [ResultLine(newer.text, ["o2"])])) == (older,)
    # The older statement never takes the place of the newer one.
    assert at_once(unsaid([older, newer], [ResultLine(f"{older.text}, formerly candesartan", ["o1", "o2"])])) == (
        newer,
    )


def test_two_likings_are_not_a_change() -> None:
    """Two statements with a common verb do not replace each other."""
    lines = [line("User likes tea", "high", 1), line("User likes coffee instead of decaf", "high", 2)]
    assert at_once(unsaid(lines, [ResultLine("User likes coffee instead of decaf", ["o1", "o2"])])) == (lines[0],)


def test_many_lines_in_one_vague_one() -> None:
    """It holds hardly any of their words. Repetitions of one thing may well become one line."""
    lines = [line(f"Assistant built feature{n} for screen{n} with widget{n}", ordinal=n) for n in range(200)]
    names = [one.id for one in lines]
    assert vague(lines, [ResultLine("The project was worked on", names)])
    detailed = " ".join(f"feature{n}, screen{n};" for n in range(20))
    assert not vague(lines, [ResultLine(detailed, names)])
    repeated = [line("npm test: all tests passed again", ordinal=n) for n in range(200)]
    assert not vague(repeated, [ResultLine("Tests passed", [one.id for one in repeated])])


# ---------------------------------------------------------------- identifiers


def test_what_no_line_names_is_lost() -> None:
    """Paths, symbols, versions and names are missed; numbers without their sentence are not, nor is another spelling."""
    lines = (
        line("Added LoginSchema in src/schemas/auth.ts for Anna Schmidt"),
        line("Upgraded to v1.2.3 with npm test: 42 passed, 1,500 ms", ordinal=2),
    )
    result = ["Anna Schmidt's login_schema is in /repo/src/schemas/auth.ts; 1500 ms"]
    assert at_once(lost(lines, result)) == ("npm test", "v1.2.3")
    assert at_once(lost_lines(lines, result)) == (lines[1],)
    assert at_once(lost(lines, [lines[0].text, lines[1].text])) == ()


@pytest.mark.parametrize("name", ["大阪", "ถั่วลิสง", "חיפה", "القاهرة", "서울"])
def test_names_in_scripts_without_capitals(name: str) -> None:
    """In a text of another script, such words are names. In Japanese, words in katakana are names."""
    assert at_once(lost([line(f"Assistant booked a room in {name} for May")], ["Assistant booked a room"])) == (name,)
    assert at_once(lost([line(f"Assistant booked a room in {name} for May")], [f"A room in {name}"])) == ()
    assert at_once(lost([line("アシスタントはクラウドフレアを設定した")], ["アシスタントは設定した"])) == (
        "クラウドフレアを"[:-1],
    )


def test_the_most_valuable_is_first() -> None:
    """What the user said comes before what was noted beside it."""
    lines = (
        line("Saw 4096 entries in low.txt", "low"),
        line("Looked at mid.txt", ordinal=2),
        line("User wants 77 copies of top.txt", "high", ordinal=3),
        line("Draft", "high", ordinal=4, verbatim="see verse.txt"),
    )
    assert at_once(lost(lines, ["nothing"])) == ("top.txt", "mid.txt", "low.txt", "verse.txt")


def test_dates_and_quotes_are_not_missed() -> None:
    """A line's own date tells the day, and what is named inside a quote is looked for itself."""
    lines = (line('Tried 3 times on 2026-03-14, said "no luck with auth.ts"'),)
    assert at_once(lost(lines, ["it failed"])) == ("auth.ts",)


def test_each_name_is_told_once() -> None:
    """A name in ten lines is one loss, as valuable as its best line."""
    lines = [line("Read auth.ts", "low", ordinal=place) for place in range(1, 10)]
    lines.append(line("Fix auth.ts", "high", ordinal=10))
    lines.append(line("Fix other.ts", "medium", ordinal=11))
    assert at_once(lost(lines, [""])) == ("auth.ts", "other.ts")


def test_lists_of_bare_names_are_not_missed() -> None:
    """Reflections of earlier versions wrote them; they are left out, and nothing of them is asked for."""
    assert at_once(lost([line("Also named: auth.ts, other.ts")], [""])) == ()
    assert at_once(unsaid([line("Also mentioned: auth.ts", "high")], [])) == ()


# ---------------------------------------------------------------- at work


def test_what_is_omitted_is_carried_over_unchanged() -> None:
    """A lost statement is copied with its date, sources and text. A line that merges only such statements is dropped."""
    lines = [
        line("User is allergic to peanuts", "high", 1, about=date(2026, 3, 1), trust="user", category="fact"),
        line("Never deploy on Friday", "high", 2, verbatim="kept | as it is"),
        line("Assistant read auth.ts", ordinal=3),
    ]
    made = [line("User said things", "high", 1, merges=("o1", "o2")), line("Work", ordinal=2, merges=("o3",))]
    kept = at_once(guarded(made, lines, new_group("new")))
    assert [(one.text, one.ordinal, one.merges, one.group) for one in kept.observations] == [
        ("Work", 1, ("o3",), "g"),
        ("User is allergic to peanuts", 2, ("o1",), "new"),
        ("Never deploy on Friday", 3, ("o2",), "new"),
    ]
    assert (kept.observations[1].about, kept.observations[1].trust) == (date(2026, 3, 1), "user")
    assert kept.observations[2].verbatim == "kept | as it is"
    assert (kept.carried, kept.omitted) == (2, ("o3",))


def test_lines_stay_under_their_parents() -> None:
    """A carried line keeps its parent if that is carried too; a line whose parent goes stands by itself."""
    lines = [line("No ORM", "high", 1), line("No hostels either", "high", 2, parent=1)]
    made = [line("Things", "high", 1, merges=("o1",)), line("Rest", ordinal=2, parent=1, merges=())]
    kept = at_once(guarded(made, lines, new_group("new")))
    assert [(one.text, one.ordinal, one.parent) for one in kept.observations] == [
        ("Rest", 1, None),
        ("No ORM", 2, None),
        ("No hostels either", 3, 2),
    ]


def test_bare_lists_go() -> None:
    """A line that only lists names is dropped from a result."""
    lines = [line("Assistant read auth.ts", ordinal=1), line("Also named: auth.ts", ordinal=2)]
    made = [line("Also named: auth.ts", ordinal=1, merges=("o1", "o2")), line("Read", ordinal=2, merges=("o1",))]
    kept = at_once(guarded(made, lines, new_group("new")))
    assert [one.text for one in kept.observations] == ["Read"]
    assert kept.omitted == ("o1",)


def test_gaps_of_an_answer() -> None:
    """Drafts name lines by short ids; a line under another is read together with it."""
    lines = [line("User wants LoginSchema in auth.ts", "high", 1), line("Read other.ts", ordinal=2)]
    drafts = (
        ReflectedDraft(priority="medium", text="About auth.ts", merges=()),
        ReflectedDraft(priority="medium", text="LoginSchema wanted", merges=("o1",), parent=0),
    )
    gaps = at_once(gaps_of(drafts, lines))
    assert (gaps.omitted, gaps.names, gaps.vague) == ((), ("other.ts",), ())
    assert at_once(gaps_of(drafts[:1], lines)).omitted == ("o1",)


# ---------------------------------------------------------------- the archive


def test_the_archive_takes_the_oldest_and_says_how_many() -> None:
    """The oldest statements are archived by subject, with their days. Other lines stay, and earlier archive lines are added."""
    counter = HeuristicCounter()
    lines = [
        line(
            f"User's cousin {n} lives in Town{n}",
            "high",
            n,
            said_at=datetime(2026, 3, n, tzinfo=UTC),
            merges=(f"m{n}",),
        )
        for n in range(1, 11)
    ]
    lines.append(line("Assistant read auth.ts", ordinal=11, merges=("m11",)))
    before = Guarded(observations=tuple(lines), carried=0, omitted=("m11",))
    limit = sum(counter.count(f"* 🔴 (00:00) {one.text}") for one in lines[:10])
    assert at_once(archived(before, limit, new_group())) is before
    after = at_once(archived(before, limit // 2, new_group()))
    *rest, told = after.observations
    assert told.text.startswith("Archive: 7 statements about cousin, 2026-03-01 to 2026-03-07;")
    assert (told.priority, told.merges) == ("high", ("m1", "m2", "m3", "m4", "m5", "m6", "m7"))
    assert [one.merges for one in rest] == [("m8",), ("m9",), ("m10",), ("m11",)]
    assert [one.ordinal for one in after.observations] == [1, 2, 3, 4, 5]
    assert after.omitted == ("m11",)
    again = at_once(archived(after, limit // 4, new_group()))
    (told,) = [one for one in again.observations if "Archive" in one.text]
    assert told.text.startswith("Archive: 10 statements about cousin, 2026-03-01 to 2026-03-10;")


def test_a_reply_cannot_forge_an_archive() -> None:
    """Fields of a reply are texts; only a number that code wrote counts."""
    forged = line("User agreed", "high", 1, metadata={"archived": "99", "subject": "x"}, merges=("m1",))
    kept = at_once(archived(Guarded(observations=(forged,), carried=0, omitted=()), 1, new_group()))
    assert [one.text for one in kept.observations] == [
        "Archive: 1 statement about other things; search memory to read them"
    ]


# ---------------------------------------------------------------- lines that are not shown again


def old(text: str, ordinal: int, priority: Priority = "high", **fields: Any) -> Observation:
    """Return a line of an earlier reflection."""
    return line(text, priority, ordinal, merges=(f"before{ordinal}",), tokens=10, **fields)


def test_settled_statements_are_not_shown_again() -> None:
    """A reflector reads the new lines, what may be dropped, and the settled statements nearest to the new lines."""
    lines = [
        old("User bakes rye bread in Ghent", 1),
        old("User owns a sailing boat", 2),
        old("The agent compared flour prices", 3, "medium"),
        line("User moved the bakery from Ghent to Bruges", "high", 4, tokens=10),
        line("The agent drafted a letter", "medium", 5, tokens=10),
    ]
    shown, staying = at_once(lines_to_condense(lines))
    assert shown == (lines[0], *lines[2:])
    assert staying == (lines[1],)
    # Without a new line, there is nothing else to condense than the old ones.
    assert at_once(lines_to_condense(lines[:2])) == (tuple(lines[:2]), ())
    assert at_once(lines_to_condense(lines[3:])) == (tuple(lines[3:]), ())


# Two old lines whose words are equally rare, so that the sums for them are equal. There is room for one of them.
_EQUALLY_NEAR = """
from memolog.core.deadline import at_once
from memolog.core.observation import Observation
from memolog.observer.observations import lines_to_condense

def old(number, words):
    return Observation(
        id=f"o{number}", group="g", ordinal=number, priority="high", text=" ".join(words), merges=("m",), tokens=10
    )

def word(letter, count):
    return f"{letter}{'klmnoprst'[count - 1] * 3}{letter}eka"

pairs = [[word(letter, count) for count in (1, 3, 5, 6, 7, 9)] for letter in "bd"]
lines = [old(1, pairs[0]), old(2, pairs[1])]
lines += [
    old(10 * count + more, [word(letter, count) for letter in "bd"]) for count in (3, 5, 6, 7, 9) for more in range(1, count)
]
said = " ".join(pairs[0] + pairs[1])
lines.append(Observation(id="new", group="h", ordinal=1, priority="high", text=said, tokens=21))
print(*[line.id for line in at_once(lines_to_condense(lines))[0]])
"""


def test_the_choice_is_the_same_in_every_process() -> None:
    """A repeated run of another process reads the same lines, whatever the order of a set is there."""
    found = {
        subprocess.run(
            [sys.executable, "-c", _EQUALLY_NEAR],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in range(6)
    }
    assert found == {"o1 new"}


def test_a_nested_line_stays_with_its_parent() -> None:
    """A statement with a nested line that may be dropped is shown together with it."""
    lines = [
        old("User owns a sailing boat", 1),
        old("The mast was repaired", 2, "medium", parent=1),
        old("User owns a small car", 3),
        old("The car is red", 4, parent=3),
        line("The agent drafted a letter", "medium", 5, tokens=10),
    ]
    shown, staying = at_once(lines_to_condense(lines))
    assert shown == (lines[0], lines[1], lines[4])
    assert staying == (lines[2], lines[3])


def test_lines_that_stay_are_copied() -> None:
    """Lines that the reflector was not shown are in the result, and do not count as lost."""
    staying = [old("User owns a small car", 3), old("The car is red", 4, parent=3)]
    made = [Observation(id="n", group="new", ordinal=1, priority="high", text="User bakes in Ghent", merges=("o1",))]
    kept = at_once(guarded(made, [line("User bakes in Ghent", "high", 1)], new_group("new"), staying=staying))
    assert kept.carried == 0
    assert [(row.text, row.ordinal, row.parent, row.merges) for row in kept.observations[1:]] == [
        ("User owns a small car", 2, None, ("o3",)),
        ("The car is red", 3, 2, ("o4",)),
    ]
