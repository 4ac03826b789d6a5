"""The rules of `decide`, one by one, at their boundaries."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from memolog.core.config import Config, ObservationConfig, ReflectionConfig
from memolog.core.observation import Span
from memolog.core.setting_kinds import KeepRecent
from memolog.log.decide import back_off, breaker_is_open, choose, closed_ends, decide, oldest_slice
from memolog.log.snapshot import BufferedRow, GroupRow, RunRow, ThreadHead
from memolog.log.state import (
    Activate,
    ActivateReflection,
    Asked,
    Buffer,
    Observe,
    ReadyGroup,
    Recover,
    Reflect,
    State,
    Tail,
    Trim,
    Wait,
    Weight,
)

D = TypeVar("D")
NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
WAITS = Asked(may_wait=True)
CONFIG = Config()  # T 30,000 · step 6,000 · floor 6,000 · block 36,000 · R 40,000


def weights(count: int, tokens: int, *, start: int = 1) -> tuple[Weight, ...]:
    """Return plain messages of equal size."""
    return tuple(
        Weight(seq=start + i, tokens=tokens, role="user" if i % 2 == 0 else "assistant", at=NOW) for i in range(count)
    )


def state(tail: tuple[Weight, ...] = (), **changes: object) -> State:
    """Return a thread's state with this tail."""
    cursor = tail[0].seq - 1 if tail else 0
    tails = (Tail(thread="t", cursor=cursor, weights=tail),)
    return changed(State(scope="thread", thread=ThreadHead(id="t"), asked=WAITS, tails=tails), **changes)


def changed(given: State, **changes: object) -> State:
    """Return a state with other values: its own, or those of its log, its thread, or what was asked."""
    for part in ("log", "thread", "asked"):
        old = getattr(given, part)
        own = {field.name: changes.pop(field.name) for field in fields(old) if field.name in changes}
        given = replace(given, **{part: replace(old, **own)})  # type: ignore[arg-type]
    return replace(given, **changes)  # type: ignore[arg-type]


def ready(*spans: tuple[int, int]) -> tuple[ReadyGroup, ...]:
    """Return buffered groups over these spans."""
    return tuple(ReadyGroup(id=f"g{a}", thread="t", span=Span(first=a, last=b)) for a, b in spans)


def running(first: int, last: int, **changes: object) -> RunRow:
    """Return a run over a span."""
    run = RunRow(
        id=f"r{first}",
        kind="observe",
        status="running",
        lease_until=NOW + timedelta(seconds=30),
        beat_at=NOW,
        fence=1,
        attempt=1,
        thread="t",
        span=Span(first=first, last=last),
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def decided(kind: type[D], given: State, config: Config = CONFIG) -> D:
    """Return the decision, which must be of this kind."""
    decision = decide(given, config, NOW)
    assert isinstance(decision, kind)
    return decision


def test_small_tail_waits() -> None:
    """Below every threshold nothing is done, and the reason gives the sizes."""
    decision = decided(Wait, state(weights(10, 100)))
    assert "1,000 of 30,000" in decision.reason


def test_a_step_is_buffered_once() -> None:
    """A step of new tokens starts one run; while it is under way the same tokens start no other."""
    tail = weights(60, 100)
    decision = decided(Buffer, state(tail))
    assert decision.spans[0].span == Span(first=1, last=60)
    assert isinstance(decide(state(tail, runs=(running(1, 60),)), CONFIG, NOW), Wait)
    assert isinstance(decide(state(tail, ready=ready((1, 60))), CONFIG, NOW), Wait)


def test_the_step_is_halved_near_the_limit() -> None:
    """Half a step is enough once the tail is within a step of the limit."""
    tail = weights(270, 100)
    held = ready((1, 240))
    assert isinstance(decide(state(tail, ready=held), CONFIG, NOW), Buffer)
    assert isinstance(decide(state(tail[:269], ready=held), CONFIG, NOW), Wait)


def test_the_step_is_not_halved_if_the_groups_suffice() -> None:
    """Near the limit a whole step is waited for if the buffered groups bring the tail below its floor anyway."""
    tail = weights(290, 100)
    assert isinstance(decide(state(tail, ready=ready((1, 241))), CONFIG, NOW), Wait)


def test_half_a_step_does_not_shorten_the_span() -> None:
    """A run that half a step started observes everything that is new, because each run repeats its instructions."""
    tail = weights(8, 3_300)
    decision = decided(Buffer, state(tail, ready=ready((1, 6))))
    assert decision.spans[0].span == Span(first=7, last=8)


def test_no_more_runs_than_allowed() -> None:
    """Three runs may be in flight; a fourth waits, and then takes all that has gathered."""
    tail = weights(240, 100)
    runs = tuple(running(a, a + 59) for a in (1, 61, 121))
    assert isinstance(decide(state(tail, runs=runs), CONFIG, NOW), Wait)
    assert isinstance(decide(state(tail[:209], runs=runs[:2]), CONFIG, NOW), Wait)
    decision = decided(Buffer, state(tail, runs=runs[:2]))
    assert decision.spans[0].span == Span(first=121, last=240)


def test_a_full_tail_activates_to_the_floor() -> None:
    """At the limit the fewest groups that bring the tail to its floor are activated."""
    decision = decided(Activate, state(weights(300, 100), ready=ready((1, 60), (61, 120), (121, 180), (181, 240))))
    assert decision.groups == ("g1", "g61", "g121", "g181")


def test_only_a_contiguous_prefix_is_activated() -> None:
    """A group behind a gap stays buffered, and the gap is filled first."""
    full = weights(300, 100)
    decision = decided(Activate, state(full, ready=ready((1, 60), (121, 180))))
    assert decision.groups == ("g1",)
    decision = decided(Buffer, state(weights(200, 100), ready=ready((121, 180))))
    assert decision.spans[0].span == Span(first=1, last=120)


@pytest.mark.parametrize(
    ("sizes", "tail", "chosen"),
    [
        ((6_000, 6_000, 6_000, 6_000), 30_000, 4),
        ((10_000, 10_000, 10_000), 30_000, 2),  # three would empty the tail
        ((29_900,), 30_000, 1),  # at least one, even if little is left
        ((1_000, 28_500), 30_000, 1),  # two would leave less than a thousand
        ((3_000, 3_000), 30_000, 2),  # all there is
    ],
)
def test_choice_of_groups(sizes: tuple[int, ...], tail: int, chosen: int) -> None:
    """The choice leaves the tail nearest to its floor without emptying it."""
    groups = [
        (ReadyGroup(id=str(i), thread="t", span=Span(first=i + 1, last=i + 1)), size) for i, size in enumerate(sizes)
    ]
    assert len(choose(groups, tail, 6_000)) == chosen


def test_a_turn_waits_only_far_above_the_limit() -> None:
    """Between the limit and 1.2 times it a turn goes on; above, it joins the run on the oldest span."""
    runs = (running(1, 100), running(101, 200))
    assert isinstance(decide(state(weights(340, 100), runs=(*runs, running(201, 340))), CONFIG, NOW), Wait)
    decision = decided(Observe, state(weights(360, 100), runs=(*runs, running(201, 360))))
    assert decision.run == "r1"


def test_no_wait_with_an_open_breaker_or_spent_patience() -> None:
    """A model that failed is not waited for, nor is one that this step has waited for already."""
    runs = tuple(running(a, a + 119) for a in (1, 121, 241))
    full = state(weights(360, 100), runs=runs)
    assert isinstance(decide(full, CONFIG, NOW), Observe)
    failing = changed(full, failures=1, retry_at=NOW + timedelta(seconds=1))
    assert isinstance(decide(failing, CONFIG, NOW), Wait)
    assert isinstance(decide(changed(full, may_wait=False), CONFIG, NOW), Wait)


def test_expired_and_failed_runs_are_recovered_first() -> None:
    """An ended lease and a due retry come before anything else; a retry that is not due does not."""
    expired = running(1, 60, lease_until=NOW)
    decided(Recover, state(weights(300, 100), runs=(expired,)))
    failed = running(1, 60, status="failed", retry_at=NOW + timedelta(seconds=1))
    waiting = state(weights(100, 100), runs=(failed,), failures=1, retry_at=NOW + timedelta(seconds=1))
    assert isinstance(decide(waiting, CONFIG, NOW), Wait)
    assert isinstance(decide(waiting, CONFIG, NOW + timedelta(seconds=1)), Recover)


def test_pairs_hold_a_cut_back() -> None:
    """No cut falls between a call and its result; an unanswered call holds back until the next user message."""
    call = Weight(seq=2, tokens=10, role="assistant", at=NOW, opens=("a", "b"))
    half = Weight(seq=3, tokens=10, role="tool", at=NOW, closes=("a",))
    rest = Weight(seq=4, tokens=10, role="tool", at=NOW, closes=("b",))
    user = Weight(seq=1, tokens=10, role="user", at=NOW)
    assert closed_ends([user, call, half, rest]) == [0, 3]
    assert closed_ends([user, call, half]) == [0]
    assert closed_ends([user, call, half, user._replace(seq=4)]) == [0, 3]


def test_turns_side_by_side_hold_cuts_back_for_their_own_pairs() -> None:
    """A call id that two turns use is answered in each of them; what is answered beside another turn stays together."""
    ask = Weight(seq=1, tokens=10, role="user", at=NOW, turn="one")
    call = Weight(seq=2, tokens=10, role="assistant", at=NOW, opens=("a",), turn="one")
    result = Weight(seq=3, tokens=10, role="tool", at=NOW, closes=("a",), turn="one")
    other = [one._replace(turn="two") for one in (ask, call, result)]
    assert closed_ends([ask, call, *other[:2], result]) == [0]
    assert closed_ends([ask, call, *other[:2], result, other[2]]) == [0, 5]
    assert closed_ends([ask, call, *other[:2], other[2], result]) == [0, 5]
    # What is not answered yet is closed by the next question, as ever.
    assert closed_ends([ask, call, *other]) == [0, 2, 4]
    # A message that brings a call and its result waits for nothing.
    assert closed_ends([ask, call._replace(closes=("a",)), result]) == [0, 1, 2]


def test_cold_cache_and_changed_model_activate_early() -> None:
    """When the prompt cache is lost anyway, buffered groups enter the log below the limit, once."""
    tail, held = weights(150, 100), ready((1, 60))
    asked = NOW - timedelta(minutes=10)
    idle = state(tail, ready=held, last_request_at=asked, cache_seconds=300.0)
    assert isinstance(decide(idle, CONFIG, NOW), Activate)
    assert not isinstance(decide(replace(idle, cache_seconds=900.0), CONFIG, NOW), Activate)
    done = replace(idle, last_activation_at=NOW)
    assert not isinstance(decide(done, CONFIG, NOW), Activate)
    other = state(tail, ready=held, last_request_at=NOW, model="b", last_model="a")
    assert isinstance(decide(other, CONFIG, NOW), Activate)
    assert not isinstance(decide(other, Config(activate_on_model_change=False), NOW), Activate)
    named = changed(other, model="openai-responses:gpt-5", last_model="gpt-5-2025-08-07")
    assert not isinstance(decide(named, CONFIG, NOW), Activate)
    assert isinstance(decide(changed(named, model="gpt-5-mini"), CONFIG, NOW), Activate)


def entries(count: int, tokens: int, *, age: timedelta = timedelta(days=3)) -> tuple[GroupRow, ...]:
    """Return equal groups of the log, all of one age."""
    return tuple(
        GroupRow(id=f"e{i}", handle="", tokens=tokens, observations=10, last_at=NOW - age) for i in range(count)
    )


def test_reflection_starts_half_way_and_takes_over_when_full() -> None:
    """At half the limit a reflection begins in the background; when the log is full it is activated."""
    assert isinstance(decide(state(entries=entries(19, 1_000)), CONFIG, NOW), Wait)
    decision = decided(Reflect, state(entries=entries(20, 1_000)))
    assert decision.groups == tuple(f"e{i}" for i in range(15))  # the last 50 observations are kept
    assert not decision.wait
    waiting = BufferedRow(id="x", kind="reflection", covers=decision.groups)
    assert isinstance(decide(state(entries=entries(39, 1_000), reflection=waiting), CONFIG, NOW), Wait)
    assert isinstance(decide(state(entries=entries(40, 1_000), reflection=waiting), CONFIG, NOW), ActivateReflection)


def test_reflection_waits_only_far_above_the_limit_and_for_growth() -> None:
    """A turn waits above 1.2 times the limit; right after a reflection the log must grow first."""
    decision = decided(Reflect, state(entries=entries(48, 1_000)))
    assert decision.wait
    settled = state(entries=entries(22, 1_000), settled_tokens=20_000, generation=1)
    assert isinstance(decide(settled, CONFIG, NOW), Wait)
    assert isinstance(decide(replace(settled, entries=entries(24, 1_000)), CONFIG, NOW), Reflect)


def test_the_window_keeps_what_is_recent_up_to_half_the_limit() -> None:
    """Hours or observations, whichever keeps more, but never more than half of what the log may hold."""
    fresh = state(entries=entries(30, 1_000, age=timedelta(hours=1)))
    assert len(oldest_slice(fresh, CONFIG, NOW)) == 10
    hours_only = Config(reflection=ReflectionConfig(keep_recent=KeepRecent(hours=24, observations=1)))
    assert len(oldest_slice(state(entries=entries(30, 1_000)), hours_only, NOW)) == 29


def test_hard_limit_trims_last() -> None:
    """A context above its hard limit is trimmed when nothing else helps."""
    config = Config(context_tokens=40_000)
    full = state(weights(350, 100), runs=(running(1, 350),), entries=entries(10, 1_000, age=timedelta(hours=1)))
    decision = decided(Trim, changed(full, may_wait=False), config)
    assert decision.limit == 40_000


def test_resource_scope_batches_the_oldest_threads() -> None:
    """Several threads' short tails go into one call, the oldest message first, within the batch."""
    tails = tuple(
        Tail(
            thread=f"t{i}",
            cursor=0,
            weights=tuple(w._replace(at=NOW - timedelta(hours=10 - i)) for w in weights(10, 300)),
        )
        for i in range(5)
    )
    shared = State(scope="resource", thread=ThreadHead(id="t0"), asked=WAITS, tails=tails)
    decision = decided(Buffer, shared)
    assert [span.thread for span in decision.spans] == ["t0", "t1", "t2"]


def test_short_tails_of_several_threads_wait_until_a_call_is_full() -> None:
    """Each call repeats the instructions, so short spans are collected up to 10,000 tokens. A long span does not wait."""
    short = tuple(Tail(thread=f"t{i}", cursor=0, weights=weights(4, 300)) for i in range(9))
    shared = State(scope="resource", thread=ThreadHead(id="t0"), asked=WAITS, tails=short[:8])
    assert shared.uncovered_tokens == 9_600
    assert isinstance(decide(shared, CONFIG, NOW), Wait)
    assert len(decided(Buffer, replace(shared, tails=short)).spans) == 8
    long = Tail(thread="t9", cursor=0, weights=weights(20, 300))
    assert decided(Buffer, replace(shared, tails=(*short[:2], long))).spans
    # With a small limit the step stays below a third of it.
    small = Config(observation=ObservationConfig(message_tokens=12_000))
    assert decided(Buffer, replace(shared, tails=short[:4]), small).spans


def test_resource_scope_reflects_after_every_thread_was_observed() -> None:
    """A reflection waits until each thread with a tail has been observed once, unless it is urgent."""
    tail = Tail(thread="new", cursor=0, weights=weights(1, 10))
    shared = State(scope="resource", thread=ThreadHead(id="t"), asked=WAITS, tails=(tail,), entries=entries(25, 1_000))
    assert isinstance(decide(shared, CONFIG, NOW), Wait)
    assert isinstance(decide(replace(shared, tails=(tail._replace(hinted=True),)), CONFIG, NOW), Reflect)
    assert isinstance(decide(replace(shared, entries=entries(48, 1_000)), CONFIG, NOW), Reflect)


def test_without_buffering_a_turn_observes_in_time() -> None:
    """With buffering off nothing happens ahead of time, and the limit itself is waited for."""
    config = Config(observation=ObservationConfig(buffer_tokens=False))
    assert isinstance(decide(state(weights(299, 100)), config, NOW), Wait)
    assert isinstance(decide(state(weights(300, 100)), config, NOW), Observe)


def test_back_off_grows_and_is_bounded() -> None:
    """Waiting times double, carry jitter and end at ten minutes."""
    assert [back_off(n, 0.5) for n in (1, 2, 3)] == [2.0, 4.0, 8.0]
    assert back_off(100, 1.0) <= 750.0
    assert breaker_is_open(1, NOW + timedelta(seconds=1), NOW)
    assert not breaker_is_open(0, NOW + timedelta(seconds=1), NOW)


def test_a_repeated_request_counts_once() -> None:
    """A request that the log covers counted when it was new: shown again, it makes no second activation due."""
    config = Config(observation=ObservationConfig(message_tokens=1_000), context_tokens=2_000)
    answered = state(weights(2, 400), repeated_tokens=900, ready=ready((1, 2)))
    assert answered.tail_tokens == 1_700
    assert isinstance(decide(answered, config, NOW), Wait | Buffer)
    assert isinstance(decide(state(weights(3, 400), repeated_tokens=900, ready=ready((1, 2))), config, NOW), Activate)
    # A hard limit is about all that is shown.
    full = state(weights(1, 400), repeated_tokens=1_700, ready=ready((1, 1)))
    assert isinstance(decide(full, config, NOW), Trim)


def unseen(tail: tuple[Weight, ...], start: int, **changes: object) -> State:
    """Return a thread's state in which no model has seen the messages from `start` on."""
    base = state(tail, **changes)
    return replace(base, tails=(base.tails[0]._replace(unseen_from=start),))


def test_unseen_messages_are_not_activated() -> None:
    """However full the tail is, a group over an unseen message stays buffered, and so does every group after it."""
    tail = weights(8, 6_000)
    groups = ready((1, 2), (3, 4), (5, 6), (7, 8))
    decision = decided(Activate, unseen(tail, 6, ready=groups))
    assert decision.groups == ("g1", "g3")
    assert not isinstance(decide(unseen(tail, 2, ready=groups), CONFIG, NOW), Activate)
    # By hand everything counts as seen; the shell passes no boundary then.
    by_hand = state(tail, ready=groups, by_hand=frozenset({"activate"}))
    assert decide(by_hand, CONFIG, NOW) == Activate(
        groups=("g1", "g3", "g5"), reason="the tail has 48,000 tokens, the limit is 30,000"
    )


def test_the_floor_is_kept_beside_unseen_messages() -> None:
    """A large new message does not push out the exchange before it: about the floor of seen messages stays."""
    tail = (*weights(10, 1_000), Weight(seq=11, tokens=60_000, role="user", at=NOW))
    first = decided(Activate, unseen(tail, 11, ready=ready((1, 4), (5, 10))))
    assert first.groups == ("g1",)
    # Still over the limit, but nothing more that is seen can go.
    rest = unseen(tail[4:], 11, ready=ready((5, 10)))
    assert not isinstance(decide(rest, CONFIG, NOW), Activate | Observe)


def test_no_turn_waits_for_what_is_unseen() -> None:
    """A run over unseen messages would free nothing now; one over seen messages is waited for, up to the floor."""
    huge = (*weights(2, 1_000), Weight(seq=3, tokens=60_000, role="user", at=NOW))
    begun = unseen(huge, 3, runs=(running(1, 3),))
    assert not isinstance(decide(begun, CONFIG, NOW), Observe)
    seen = (*weights(30, 1_000), Weight(seq=31, tokens=20_000, role="user", at=NOW))
    alone = CONFIG.with_overrides({"observation.parallel": 1})
    joined = decided(Observe, unseen(seen, 31, runs=(running(1, 20),)), alone)
    assert joined.run == "r1"
    config = CONFIG.with_overrides({"observation.buffer_tokens": False})
    started = decided(Observe, unseen(seen, 31), config)
    assert started.spans[0].span == Span(first=1, last=24)


def test_spans_end_before_what_is_unseen() -> None:
    """Seen messages worth a span stand alone; fewer are observed together with what follows."""
    tail = (*weights(4, 1_000), Weight(seq=5, tokens=20_000, role="user", at=NOW))
    apart = decided(Buffer, unseen(tail, 5))
    assert apart.spans[0].span == Span(first=1, last=4)
    together = decided(Buffer, unseen(tail[2:], 5))
    assert together.spans[0].span == Span(first=3, last=5)


def test_without_buffering_the_floor_is_kept() -> None:
    """At the crossing the turn observes all but the floor, not all but the newest message."""
    config = CONFIG.with_overrides({"observation.buffer_tokens": False})
    decision = decided(Observe, state(weights(151, 200)), config)
    assert decision.spans[0].span == Span(first=1, last=121)


def test_a_thread_waits_for_no_other_thread() -> None:
    """Another thread's backlog is observed in the background; a turn waits for its own thread alone."""
    backlog = Tail(thread="other", cursor=0, weights=weights(900, 1_000))
    own = Tail(thread="t", cursor=0, weights=weights(1, 100))
    shared = State(scope="resource", thread=ThreadHead(id="t"), asked=WAITS, tails=(own, backlog))
    for config in (CONFIG, CONFIG.with_overrides({"observation.buffer_tokens": False})):
        begun = decided(Buffer, shared, config)
        assert begun.spans[0].thread == "other"
        runs = tuple(running(1 + 30 * i, 30 + 30 * i, thread="other") for i in range(3))
        assert not isinstance(decide(replace(shared, runs=runs), config, NOW), Observe)


def test_a_buffered_reflection_waits_for_its_limit() -> None:
    """An idle pause or another model activates observations, never a reflection of a log that has room."""
    idle = {"last_request_at": NOW - timedelta(hours=1), "cache_seconds": 300.0, "last_model": "a", "model": "b"}
    log = entries(20, 1_000)
    covers = BufferedRow(id="x", kind="reflection", covers=tuple(entry.id for entry in log[:10]))
    assert not isinstance(decide(state((), entries=log, reflection=covers, **idle), CONFIG, NOW), ActivateReflection)
    full = state((), entries=entries(41, 1_000), reflection=covers, **idle)
    assert isinstance(decide(full, CONFIG, NOW), ActivateReflection)


def test_a_run_that_leaves_no_room_is_waited_for() -> None:
    """A message was taken back, and with it what was buffered before a run: nothing else can be begun until that ends."""
    config = CONFIG.with_overrides({"observation.parallel": 1})
    decision = decided(Observe, state(weights(40, 1_000), runs=(running(5, 8),)), config)
    assert (decision.run, decision.spans) == ("r5", ())


def test_a_lease_from_a_clock_that_was_set_back() -> None:
    """It is nobody's once nobody has prolonged it for a while, and lasts until then."""
    for is_silent in (False, True):
        run = running(1, 2, lease_until=NOW + timedelta(days=30), is_silent=is_silent)
        decision = decide(state(weights(2, 10), runs=(run,)), CONFIG, NOW)
        assert isinstance(decision, Recover) is is_silent


def test_a_retry_from_a_clock_that_was_set_back() -> None:
    """A time that no back-off leads to is due, for the run and for the breaker; the longest one is still waited for."""
    longest = timedelta(seconds=back_off(99, 1.0))
    for ahead, is_over in ((longest, False), (longest + timedelta(seconds=1), True), (timedelta(days=30), True)):
        at = NOW + ahead
        run = running(1, 2, status="failed", retry_at=at)
        seen = state(weights(2, 10), runs=(run,), failures=3, retry_at=at)
        assert isinstance(decide(seen, CONFIG, NOW), Recover) is is_over
        assert breaker_is_open(3, at, NOW) is not is_over


def test_a_reflection_leaves_earlier_ones_as_they_are_while_the_log_fits() -> None:
    """Then only the groups after them are condensed, and no line is archived, so that the beginning of the log stays."""
    new = entries(29, 1_000, age=timedelta(hours=1))
    small = replace(entries(1, 8_000)[0], id="r", kind="reflection")
    decision = decided(Reflect, state(entries=(small, *new), generation=1))
    assert decision.groups == tuple(f"e{i}" for i in range(9))
    assert decision.room is None
    by_hand = decided(Reflect, state(entries=(small, *new), generation=1, by_hand=frozenset({"reflect"})))
    assert by_hand.groups[0] == "r"


def test_a_reflection_condenses_everything_old_if_the_log_would_not_fit_otherwise() -> None:
    """The lines that must be kept get the room that the rest of the log leaves, but at least half of the log."""
    new = entries(24, 1_000, age=timedelta(hours=1))
    large = replace(entries(1, 20_000)[0], id="r", kind="reflection")
    decision = decided(Reflect, state(entries=(large, *new), generation=1))
    assert decision.groups == ("r", *(f"e{i}" for i in range(4)))
    assert decision.room == 20_000
    alone = decided(Reflect, state(entries=entries(40, 1_000), generation=1))
    assert alone.room == 40_000 * 8 // 10 - 5_000
