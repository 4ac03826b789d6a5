"""Measure how many secrets are found, how often other text is mistaken for a secret, and how long the search takes.

    make bench-redaction ARGS="--seeds 3"

- found: random keys in the formats of their issuers, and random passwords in the phrases of `tests/secret_corpus.py`. Each is
  tested as plain text, in the JSON of a tool, in JSON inside JSON, percent-encoded, and as a form.
- false positives: messages of real coding sessions and chats in which something is redacted. Text with exactly the format of a
  known issuer, and blocks of private keys, are counted separately, because no rule can distinguish an example from a real key.
- cost: processor time for 8 kB of the same messages without a secret, the best of three passes.
- growth: for hostile repetitions, how many times longer 100 kB take than 10 kB (10 is linear, 100 quadratic).

The data is not part of the project. Without it, the parts that need it are left out, and the benchmark says so. Nothing here is a
test: no time is asserted. The tables are followed by one line of JSON.
"""

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import process_time
from typing import Any, Final, cast

from memolog.text.redaction import REDACTION
from memolog.text.secret_formats import FORMATS, SHAPES
from table import median, percentile, table

TESTS: Final = Path(__file__).resolve().parent.parent / "tests"
DATA: Final = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SETS: Final = {
    "coding sessions": "coding_sessions_dev.json.gz",
    "airline agent": "airline_agent_dev.json.gz",
    "LongMemEval": "longmemeval_oracle_dev.json.gz",
    "LoCoMo": "locomo_dev.json.gz",
}
BY_FORMAT: Final = frozenset({kind for kind, _, _ in (*FORMATS, *SHAPES)} | {"private key"})
PIECE: Final = 8_192
SMALL: Final = 10_000
LARGE: Final = 100_000
# Texts that patterns repeat or look for, without the end that would complete a match.
REPEATS: Final = (
    "password", "password ", "password is ", "password=", 'password="', "password: a ", "pass", "token ", "token=", "api key ",
    "key", "secret_", "a1", "a1.", "eyJa1", "eyJa1.", "sk-", "sk_live_", "-", "_", ".", "=", ":", "://", "://a:", "://a:b", "@",
    "curl ", "curl -u ", "curl -u a:", "mysql ", "docker -p", "login: ", "login a ", "cookie: a=1", "cookie: a=1;", "bearer ",
    "\\", "\\\\n", "\\n", "%", "%3D", "%253D", "&amp;", "&#", "+", "a+", "\x1b[", "\x1b[0", "-----BEGIN ", "$argon2id$",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "PRIVATE KEY", "A", "1", "aA1", " ", "\n", "\t", '"', "'", "`",
    "“", "[redacted: ", "\n\\n", "密码", "密码是", "is ", "a is the ", "x as ", "ENV ", "--", "-p", "net user ", "$2b$", "hooks",
    "us1", "-us1", "AAAA", "pat", "live_", "xoxb-", "password=hunter22 ", "eyJabcdefghijk.eyJabcdefghi1.", "a1b2-", "SG.",
    "hvs.", "perm:aaaa.aaaa.", "authorization: ", "identified by '", "machine a login ", "session=a1", "?key=",
    "password:** ", "password</b><b>", "password</td>\n<td>", "| password ", "|password\n", "a,password\n", "password,a1B2\n",
    "password\n", "password:\n", "password:\n```\n", "a1&", "DB_PASSWORD=a1b2&", "password=a1b2,", "password=Ab1(", "key (a ",
    "password is a1b2c and ", "password is Ab1cd2ef, ", "key Ab1cd2ef3gh4 is ", "token (Ab1cd2ef3gh4", "pin for a ", 'kty"',
    '"d"', "password\u00a0", "\u200b", "ａ", "p\u00ad", '{"password":', '["password",', '{"name":"password","value":"', "[",
    "://a:b<c", "://a:Ab1c/d", "name password val", "password,'a':'b',",
)  # fmt: skip


def found(seeds: int) -> tuple[list[list[object]], dict[str, float]]:
    """Return how many of the generated secrets are found, by kind and form of text."""
    sys.path.insert(0, str(TESTS))
    import secret_corpus as corpus

    rows: list[list[object]] = []
    shares: dict[str, float] = {}
    makers: dict[str, Callable[[int], Iterator[corpus.Planted]]] = {"keys": corpus.keys, "phrases": corpus.passwords}
    for kind, make in makers.items():
        for channel, wrap in corpus.CHANNELS.items():
            planted = [one for seed in range(seeds) for one in make(seed)]
            missed = [
                one
                for one in planted
                if any(one.secret in layer for layer in corpus.layers_of(REDACTION.redact(wrap(one.text))))
            ]
            share = 100 * (1 - len(missed) / len(planted))
            shares[f"{kind}, {channel}"] = round(share, 1)
            rows.append([f"{kind}, {channel}", len(planted), len(missed), share])
    return rows, shares


def inside(value: Any) -> list[Any]:
    """Return the items of a list or the values of a dictionary. Empty for other values."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def messages(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages of a data set, at any depth."""
    if isinstance(value, dict) and not {"content", "text", "role"}.isdisjoint(cast("dict[str, Any]", value)):
        yield cast("dict[str, Any]", value)
        return
    for inner in inside(value):
        yield from messages(inner)


def texts(value: Any) -> Iterator[str]:
    """Yield the texts of a message."""
    if isinstance(value, str):
        yield value
    for inner in inside(value):
        yield from texts(inner)


def flagged(message: dict[str, Any]) -> tuple[bool, bool]:
    """Return whether something is redacted in a message, and whether some of it has the format of an issuer."""
    if json.dumps(REDACTION.value(message)) == json.dumps(message):
        return False, False
    kinds = {kind for text in texts(message) for kind in re.findall(r"\[redacted: ([^\]]+)\]", REDACTION.redact(text))}
    return True, not BY_FORMAT.isdisjoint(kinds)


def milliseconds(text: str, rounds: int = 3) -> float:
    """Return the processor time of one pass, the best of several."""
    best = float("inf")
    for _ in range(rounds):
        begun = process_time()
        REDACTION.redact(text)
        best = min(best, process_time() - begun)
    return best * 1_000


def on_data(folder: Path, most: int) -> tuple[list[list[object]], dict[str, Any]]:
    """Return false positives and cost on real messages."""
    rows: list[list[object]] = []
    figures: dict[str, Any] = {}
    for name, file in SETS.items():
        with gzip.open(folder / file) as opened:
            said = list(messages(json.load(opened)))
        marks = [flagged(one) for one in said]
        by_format = sum(mark[1] for mark in marks)
        others = sum(mark[0] for mark in marks) - by_format
        whole = "\n".join(text for one in said for text in texts(one))
        pieces = [whole[at : at + PIECE] for at in range(0, len(whole), PIECE)]
        clean = [piece for piece in pieces[:: max(1, len(pieces) // most)] if REDACTION.redact(piece) == piece]
        costs = [milliseconds(piece) for piece in clean]
        per = 1_000 * others / len(said)
        rows.append([name, len(said), by_format, others, per, median(costs), percentile(costs, 0.95)])
        figures[name] = {
            "messages": len(said),
            "flagged_by_format": by_format,
            "flagged_otherwise": others,
            "false_positives_per_1000": round(per, 2),
            "ms_per_8_kB": round(median(costs), 3),
            "ms_per_8_kB_p95": round(percentile(costs, 0.95), 3),
        }
    return rows, figures


def growth() -> list[tuple[float, float, str]]:
    """Return how many times longer a ten times longer text takes, and its time. The slowest comes first."""
    measured: list[tuple[float, float, str]] = []
    for piece in REPEATS:
        small = milliseconds((piece * SMALL)[:SMALL])
        large = milliseconds((piece * LARGE)[:LARGE], 2)
        measured.append((large / small, large, repr(piece)))
    return sorted(measured, reverse=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables and a last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="The number of times that secrets are generated.")
    parser.add_argument("--data", type=Path, default=DATA, help="The folder with the messages.")
    parser.add_argument(
        "--pieces", type=int, default=100, help="The number of pieces of 8 kB of each data set that are timed."
    )
    given = parser.parse_args(arguments)
    rows, shares = found(given.seeds)
    print(table(["secrets", "planted", "missed", "found %"], rows), end="\n\n")
    result: dict[str, Any] = {"bench": "redaction", "found_percent": shares}
    missing = [file for file in SETS.values() if not (given.data / file).exists()]
    if missing:
        print(f"Left out, since the data is not here: false positives and cost ({', '.join(missing)}).\n")
        result["skipped"] = f"no {', '.join(missing)}"
    else:
        lines, result["messages"] = on_data(given.data, given.pieces)
        headers = ["messages", "count", "by format", "others", "per 1,000", "ms / 8 kB", "p95"]
        print(table(headers, lines), end="\n\n")
    grown = growth()
    worst = [[piece, ratio, large] for ratio, large, piece in grown[:5]]
    print(table(["100 kB of", "times 10 kB", "ms"], worst), end="\n\n")
    result["growth"] = {"worst_ratio": round(grown[0][0], 1), "slowest_ms": round(max(one[1] for one in grown), 1)}
    print(json.dumps(result, ensure_ascii=False))


if __name__ == "__main__":
    main()
