"""Secrets are found by their format or their context, and texts that only look like secrets are unchanged."""

import json
import random
import re
import string
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memolog.core.config import Config
from memolog.core.exact_json import JsonValue
from memolog.errors import ConfigError
from memolog.text.redaction import NO_REDACTION, REDACTION, redactor_for
from secret_corpus import CHANNELS, FORMATS, PHRASES, Planted, keys, layers_of, passwords

_DICE = random.Random(7)
# Kinds of keys whose format belongs to more than one issuer.
GENERAL_KINDS = {"API key", "token", "password hash", "Bitbucket token", "webhook"}


SECRET = "hR7kQ2mZ9pLx4TvB"


def shown_in(channel: str, text: str) -> str:
    """Return all decoded forms of a text that was sent through a channel and then redacted."""
    return "\n".join(layers_of(REDACTION.redact(CHANNELS[channel](text))))


def some(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    """Return random letters and digits, the same in every run. They are made here, so that no file contains a key."""
    return "".join(_DICE.choice(letters) for _ in range(length - 2)) + "a1"


@pytest.mark.parametrize(
    "frame", ["{}", "export X={}", '{{"key": "{}"}}', "see {}, please", "({})", "\n{}\n", "值{}值"]
)
def test_keys_are_found_by_their_shape(frame: str) -> None:
    """A key is replaced as a whole, nothing else is replaced, and the kind is the name of the issuer."""
    for one in keys():
        # Only the end of the address of a webhook is secret.
        if "webhook" not in one.name:
            text = REDACTION.redact(frame.format(one.secret))
            (kind,) = re.findall(r"\[redacted: (.+)\]", text)
            assert text == frame.format(f"[redacted: {kind}]"), one.name
            assert kind.split()[0] in one.name or kind in GENERAL_KINDS, one.name


PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIEvQIBADANBgkq+/x\nhkiG9w0BAQEFAASC==\n-----END {0}PRIVATE KEY-----"


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_private_keys_are_replaced_as_a_block(kind: str) -> None:
    """Only the block is replaced, also if its line ends are escaped as in JSON."""
    block = PEM.format(kind)
    assert REDACTION.redact(f"before\n{block}\nafter") == "before\n[redacted: private key]\nafter"
    escaped = block.replace("\n", "\\n")
    assert REDACTION.redact(f'{{"pem": "{escaped}"}}') == '{"pem": "[redacted: private key]"}'


def test_torn_private_keys_are_replaced_too() -> None:
    """Half of a private key is replaced too."""
    block = PEM.format("")
    half = len(block) // 2
    assert REDACTION.redact(f"a {block[:half]}") == "a [redacted: private key]"
    for sign in (">", "#"):
        quoted = block[:-30].replace("\n", f"\n{sign} ")
        assert REDACTION.redact(f"{sign} {quoted}") == f"{sign} [redacted: private key]"
    assert REDACTION.redact(f"{block[half:]} b") == "[redacted: private key] b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://bob:pa55word@db:5432/x", "postgres://bob:[redacted: password]@db:5432/x"),
        ("redis://:hunter2@cache", "redis://:[redacted: password]@cache"),
        ("Authorization: Bearer abc.DEF-123_456~x", "Authorization: Bearer [redacted: bearer token]"),
        ("authorization: basic dXNlcjpwYXNzd29yZDE=", "authorization: basic [redacted: credentials]"),
        ('password = "swordfish"', 'password = "[redacted: password]"'),
        ("'passwd': 'tr0ub4dor&3'", "'passwd': '[redacted: password]'"),
        (r"{\"db_password\": \"swordfish\"}", r"{\"db_password\": \"[redacted: password]\"}"),
        ("DB_PASSWORD=hunter2x", "DB_PASSWORD=[redacted: password]"),
        ("--password hunter2 --password=hunter22", "--password [redacted: password] --password=[redacted: password]"),
        ("my password is hunter22!", "my password is [redacted: password]"),
        ("aws_secret_access_key = wJalr1XUtnFEMI/K7MDENG", "aws_secret_access_key = [redacted: secret]"),
        ('client_secret: "a1b2c3d4e5"', 'client_secret: "[redacted: secret]"'),
        ("API_KEY=9f8e7d6c5b4a", "API_KEY=[redacted: secret]"),
        ("AccountKey=Zm9vYmFyYmF6cXV4MTIz==;Endpoint=x", "AccountKey=[redacted: secret];Endpoint=x"),
        ("https://x.test/a?sig=abcdef0123456789%3D&b=1", "https://x.test/a?sig=[redacted: signature]&b=1"),
        (
            "https://hooks.slack.com/services/T000/B000/abcdefghijklmnop",
            "https://hooks.slack.com/[redacted: webhook]",
        ),
    ],
)
def test_secrets_are_found_by_their_context(text: str, expected: str) -> None:
    """The name, the scheme or the place of a value shows that it is a secret. Only the value is replaced."""
    assert REDACTION.redact(text) == expected


@pytest.mark.parametrize(
    "frame",
    [
        "DB_PASSWORD={}\nX=1",
        "password: {}\n",
        "The password is {} and so on",
        "postgres://bob:{}@h/db",
        "curl -u bob:{} https://x.test",
        "mysql -u root -p{} shop",
        "run --password {} --now",
        "user bob, password {}",
    ],
)
@pytest.mark.parametrize("sign", "&,;#@!$%^*()<>|{}[]=+~?/:.'\"`\\")
def test_a_password_goes_on_to_the_end_of_the_word(frame: str, sign: str) -> None:
    """A password without quotation marks is replaced to the end of the word, whatever sign it contains."""
    text = frame.format(f"Tr0ub4dor{sign}zQ9xyW7")
    before, after = frame.split("{}")
    assert REDACTION.redact(text) == f"{before}[redacted: password]{after}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(password=hunter22).run()", "f(password=[redacted: password]).run()"),
        ("f(user=a, password=hunter22, b=c)", "f(user=a, password=[redacted: password], b=c)"),
        ("Pwd=hunter22;Integrated Security=no;", "Pwd=[redacted: password];Integrated Security=no;"),
        ("/a?password=hunter22&b=1", "/a?password=[redacted: password]&b=1"),
        ("password=hunter22&amp;b=1", "password=[redacted: password]&amp;b=1"),
        ("<p>password: hunter22<br>next</p>", "<p>password: [redacted: password]<br>next</p>"),
        ("(password: hunter22)", "(password: [redacted: password])"),
        ("{password: hunter22,user: bob}", "{password: [redacted: password],user: bob}"),
        ("`password=hunter22`, then", "`password=[redacted: password]`, then"),
        ('["password=hunter22","b"]', '["password=[redacted: password]","b"]'),
    ],
)
def test_what_follows_a_password_stays(text: str, expected: str) -> None:
    """The next name and value, brackets, tags and punctuation after a password are not replaced."""
    assert REDACTION.redact(text) == expected


@pytest.mark.parametrize(
    "frame",
    [
        "My API key (the production one) is {0}.",
        "My password used to be {1} but I changed it to {0}.",
        "Our passwords are {0} and {1}, as ever",
        "The passwords are {0}, {1} and that is it",
        'the password was "{0}". Now it is {1}',
        "My PIN for the vault: {0}",
        "the wifi key at the office is {0}",
        "Error 401: key {0} is not valid",
        "The key '{0}' has been revoked",
        'invalid credentials ("{0}")',
        "Incorrect API key provided ({0})",
        "the tokens are {0} and {1}",
    ],
)
def test_secrets_are_found_in_sentences(frame: str) -> None:
    """Words may be between a name and its secret, and a sentence may have two secrets. Errors of providers repeat secrets."""
    secrets = (SECRET, "Tr0ub4dorZq9xyz")
    clean = REDACTION.redact(frame.format(*secrets))
    for channel in CHANNELS:
        assert [secret for secret in secrets if secret in shown_in(channel, frame.format(*secrets))] == []
    assert clean.startswith(frame[: frame.index("{")])
    assert clean.endswith(frame[frame.rindex("}") + 1 :].strip("."))


def test_the_private_parts_of_a_web_key_are_replaced() -> None:
    """The private parts are replaced in an object, in its JSON, and in a text around the JSON. The public parts are unchanged."""
    private = some(43)
    key = {"kty": "EC", "crv": "P-256", "x": "public-x", "d": private, "use": "sig"}
    for shown in (
        json.dumps(REDACTION.value(key)),
        REDACTION.redact(json.dumps(key)),
        REDACTION.redact(f"see {json.dumps(key)}!"),
    ):
        assert shown.endswith(
            json.dumps(key | {"d": "[redacted: private key]"}).lstrip("{") + "!" * shown.startswith("see")
        )


@pytest.mark.parametrize(
    "frame",
    [
        "**Password:** {}",
        "**Password**: {}",
        "**API key:** {}",
        "**API key:** `{}`",
        "__Password:__ {}",
        "*password:* {}",
        "- **Password:** {}\n- more",
        "<b>Password:</b> {}",
        "<b>Password</b>: {}",
        "<tr><td>password</td><td>{}</td></tr>",
        '<dt>API key</dt>\n<dd class="x"><code>{}</code></dd>',
        "| Password | {} |",
        "| API key | `{}` |",
        "| **Password** | {} | x |",
        "Password:\n```\n{}\n```",
        "**API key:**\n```text\n{}\n```\nmore",
        "Password:\n\n    {}",
        "### Password\n{}\n",
        "### API key\n\n`{}`\n",
        "PASSWORD\n{}\n",
        "password: >-\n  {}\nuser: bob",
        "password: |\n  {}\n",
        "| user | password |\n|---|---|\n| bob | {} |\n",
        "| user | API key | on |\n| :-- | --- | - |\n| ann |  | yes |\n| bob | `{}` | no |",
        "user,password\nann,\nbob,{}\n",
        '"user";"password"\n"bob";"{}"',
        "user\ttoken\tdate\nbob\t{}\t2026-11-16\n",
    ],
)
def test_secrets_are_found_in_markup(frame: str) -> None:
    """Emphasis, tables, fences and headings may be around a name and its value. Only the value is replaced."""
    kind = "password" if "password" in frame.lower() else "secret"
    assert REDACTION.redact(frame.format(SECRET)) == frame.format(f"[redacted: {kind}]")
    # In the other channels a table does not begin its line.
    channels = ["tool JSON"] if "\n" in frame else CHANNELS
    assert [channel for channel in channels if SECRET in shown_in(channel, frame.format(SECRET))] == []


@pytest.mark.parametrize("frame", ["| Password | {} |", "password: {}", "user,password\nbob,{}\n"])
@pytest.mark.parametrize("beginning", ["p6", "es5", "md5", "rs4", "hs2", "ed3", "py3", "cl1"])
def test_a_password_may_begin_like_the_name_of_an_algorithm(beginning: str, frame: str) -> None:
    """The name alone is not a password."""
    assert "fTq2m" not in REDACTION.redact(frame.format(f"{beginning}Xk9fTq2mW"))
    assert beginning in REDACTION.redact(frame.format(beginning))


@pytest.mark.parametrize(
    "name", ["p256", "es256k", "es2015", "md5sum", "ed25519", "rs256", "py3-none-any", "cl100k_base"]
)
def test_names_of_algorithms_stay(name: str) -> None:
    """Also beside a name such as password, because a table may say how a password is stored."""
    for text in (f"| Password | {name} |", f"password: {name}"):
        assert REDACTION.redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "| password | varchar2 |\n| token | `int32` |",
        "| Column | password |\n|---|---|\n| type | varchar(64) |",
        "def check(password):\n    run2(Password1)\n",
        "if token:\n    V2Result\n",
        "Secret:\n    ConfigMapV2Ref\n",
        "cat password | base64 | md5sum",
        "from a import user, password\nfrom b import x, token2",
        "**Password:** required",
        "My password is hashed and it is now python3",
        "the key release-2024-11 is not valid",
        "our pin for the map is next to v2 of it",
        "the cache key (user2profile) is wrong",
        "PublicKeyToken=b77a5c561934e089",
        "My password manager is 1Password",
        "password=get_pw2(user)",
        "password = hashes2[name]",
        "http://localhost:8080/user:list@latest",
        "password: required|string|min:12|confirmed",
        "token: str = None",
        "max_tokens=4096, tokens: 12000",
        "password: str = Field(min_length=8)",
        "api_key=settings.API_KEY2",
        "api_key=os.environ['KEY2']",
        "password=${PASS1}",
        'password = "<your password 1>"',
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "018f2f5e-7b1a-7c3d-9e4f-0a1b2c3d4e5f",
        "http://localhost:8080/a@b",
        "the bearer of bad news",
        "Basic authentication is on",
        "task-list sk-learn skeleton-key risk-based",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "eyJust a word",
        "密码很重要，令牌也是。",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Code, hashes, ids, references and prose are unchanged."""
    assert REDACTION.redact(text) == text


def test_patterns_may_be_added() -> None:
    """Patterns of an application are searched too. A group named `secret` limits the replaced text."""
    redactor = redactor_for(Config(redact_patterns="badge: B-\\d{4}\npin: PIN (?P<secret>\\d{4})"))
    assert redactor.redact("B-1234, PIN 9876") == "[redacted: badge], PIN [redacted: pin]"
    assert REDACTION.redact("B-1234, PIN 9876") == "B-1234, PIN 9876"


@pytest.mark.parametrize(("kind", "pattern"), [("badge", "("), ("badge", "x*"), (" ", "x")])
def test_useless_patterns_are_refused(kind: str, pattern: str) -> None:
    """A pattern that is invalid, matches the empty text or has no name is an error."""
    with pytest.raises(ConfigError):
        Config(redact_patterns=f"{kind}: {pattern}")


PIECES = (
    "password", "=", ": ", '"', "'", "token", "sk-", "sk-ant-", "eyJ", ".", "://", "@", ":", "bearer ", "-----BEGIN ",
    "-----END ", "PRIVATE KEY-----", "AKIA", "abc123def456", "A1B2C3D4E5F6G7H8", " ", "\n", "[redacted: x]", "é", "\\",
    "**", "|", "`", "```\n", "<td>", "</td>", "(", ")", "{", "}", ",", ";", "&", "\u200b", "\u00a0", "ａ", " is ", " and ",
    " it to ", "key", "value", "name", "user,", "hR7kQ2mZ9pLx4TvB", "Tr0ub4dor",
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=30).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    """The text in place of a secret is not itself found as a secret."""
    once = REDACTION.redact(text)
    assert REDACTION.redact(once) == once


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize(
    ("planted", "count"), [(keys, len(FORMATS)), (passwords, len(PHRASES))], ids=["keys", "phrases"]
)
def test_secrets_are_found_in_every_channel(channel: str, planted: Callable[[], Iterable[Planted]], count: int) -> None:
    """Secrets are found in sentences, in JSON, in JSON inside JSON, and in encoded addresses. No decoded form shows them."""
    texts = list(planted())
    missed = [one.name for one in texts if one.secret in shown_in(channel, one.text)]
    assert len(texts) == count >= 80
    assert len(missed) <= 0.05 * count, missed


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\\n", "\\n"),
        ("\\t", "\\r\\n"),
        ("\\u000a", "\\u0022"),
        ("\\\\n", "\\\\n"),
        ("%3D", "%26"),
        ("%20", "%0A"),
        ("%253D", "%2526"),
        ("x+", "+y"),
        ("&quot;", "&#34;"),
        ("\x1b[32m", "\x1b[0m"),
        ("\\u001b[1m", "\\u001b[0m"),
        ("\\\\x3d", "\\\\x20"),
    ],
)
def test_escapes_are_boundaries(before: str, after: str) -> None:
    """A key begins and ends at an escaped line break or sign, and nothing else is replaced."""
    key = f"ghp_{some(36)}"
    assert REDACTION.redact(f"see{before}{key}{after}more") == f"see{before}[redacted: GitHub token]{after}more"


@pytest.mark.parametrize(
    "frame",
    [
        "Password:\u00a0{}",
        "Password\u202f:\u00a0{}",
        "pass\u00adword: {}",
        "p\u200bassword: {}",
        "\ufeffpassword:\u200b {}",
        "ｐａｓｓｗｏｒｄ：{}",
        "ＡＰＩ　ｋｅｙ＝{}",
        "api\u00a0key\u00a0is\u00a0{}",
        "Passwort:\u2009{}",
        "看，ｐａｓｓｗｏｒｄ：{}",
    ],
)
@pytest.mark.parametrize("channel", CHANNELS)
def test_characters_that_look_like_others_hide_nothing(frame: str, channel: str) -> None:
    """Invisible characters, other spaces and letters of full width do not hide a secret."""
    assert SECRET not in shown_in(channel, frame.format(SECRET))


def test_nothing_of_a_key_with_an_invisible_character_stays() -> None:
    """The whole key is replaced. The text around it keeps its invisible characters."""
    key = f"ghp_{some(36)}"
    for at in (4, 10, 39):
        text = f"a\u00a0b {key[:at]}\u200b{key[at:]} c\u00a0d"
        assert REDACTION.redact(text) == "a\u00a0b [redacted: GitHub token] c\u00a0d"
    plain = "１２３　ＡＢＣ：a\u00adb c\u00a0d\u200b"
    assert REDACTION.redact(plain) == plain


def test_every_text_of_a_value_is_redacted() -> None:
    """Names, lists, split commands, environments and numbers are redacted. A value without a secret is the same object."""
    key = f"sk-ant-api03-{some(40)}"
    value = {
        "text": f"one\n{key}\ttwo",
        "list": [f"a {key}", {"deep": (key, 1, None, True)}],
        "password": "swordfish",
        "pin": 1234,
        "db_password": 90210,
        "env": [{"name": "DB_PASS", "value": "swordfish"}, {"name": "HOME", "value": "/srv/a1"}],
        "argv": ["mysql", "-u", "root", "-pswordfish1", "--token", "x9y8z7w6v5u4"],
        key: "as a name",
        "json": json.dumps({"log": json.dumps({"api_key": "a1b2c3d4e5"})}),
        "max_tokens": 4096,
    }
    clean = json.dumps(REDACTION.value(value))
    assert [one for one in (key, "swordfish", "90210", "x9y8z7", "a1b2c3") if one in clean] == []
    assert [one for one in ("/srv/a1", "as a name", "4096", "1234", "mysql") if one not in clean] == []
    plain = {"a": [1.5, None, "b", {"c": "d"}], "token_count": "12a"}
    assert REDACTION.value(plain) is plain
    assert NO_REDACTION.value(value) is value
    assert NO_REDACTION.redact(key) == key


NAMED: tuple[JsonValue, ...] = (
    {"name": "DB_PASSWORD", "value": "{}"},
    {"env": [{"name": "A", "value": "1"}, {"name": "DB_PASSWORD", "value": "{}"}]},
    {"Parameter": {"Name": "/prod/db/password", "Type": "SecureString", "Value": "{}"}},
    {"Value": "{}", "Version": 3, "Name": "/prod/db/password"},
    {"passwords": ["{}"]},
    {"password": {"current": "{}", "type": "text", "minLength": 12}},
    {"credentials": {"user": "bob", "value": "{}"}},
    {"Key": "password", "Val": "{}"},
    {"Tags": [{"Key": "Password", "Value": "{}"}]},
    {"headers": [{"name": "Authorization", "value": "Basic {}"}]},
    {"headers": {"Authorization": ["Basic {}"]}},
    {"cookies": [{"name": "sessionid", "value": "{}"}, {"name": "theme", "value": "dark"}]},
    [["user", "password"], ["bob", "{}"]],
    {"columns": [["id", "api_token", "on"], [1, "{}", True]]},
)


@pytest.mark.parametrize("named", NAMED, ids=[str(number) for number in range(len(NAMED))])
@pytest.mark.parametrize("secret", ["Tr0ub4dorZq9xyz", "hR7kQ2mZ9pLx4TvB"])
def test_names_give_away_values(named: JsonValue, secret: str) -> None:
    """The name of a secret may be beside its value, above it or over its column, in an object and in its JSON."""
    text = json.dumps(named).replace("{}", secret)
    for clean in (REDACTION.value(json.loads(text)), text, json.dumps({"result": text})):
        shown = REDACTION.redact(clean) if isinstance(clean, str) else json.dumps(clean)
        assert secret not in shown
        assert shown.count("[redacted: ") == 1


@pytest.mark.parametrize(
    "value",
    [
        {"password": {"type": "string", "minLength": 8, "format": "password", "pattern": "[A-Z][a-z0-9]+"}},
        {"tokens": ["The", "cat2", "sat3"], "token_type": "bearer"},
        {"name": "v2Release", "value": "x86_64"},
        {"secrets": [{"name": "web-tls", "key": "tls.crt"}]},
        {"session_id": "018f2f5e7b1a7c3d9e4f"},
        {"token": {"address": "0x7a250d5630B4cF539739dF2C5dAcb4c659F2488D", "symbol": "UNI2"}},
        [["user", "password"], ["bob", "required"]],
    ],
)
def test_values_that_are_no_secrets_stay(value: JsonValue) -> None:
    """Schemas, counts and names are unchanged, as objects and as JSON."""
    assert REDACTION.value(value) is value
    assert REDACTION.redact(json.dumps(value)) == json.dumps(value)


def test_a_value_that_is_deeply_nested_is_redacted() -> None:
    """A secret is found at any depth."""
    key = f"ghp_{some(36)}"
    value: JsonValue = key
    for _ in range(300):
        value = [value]
    assert key not in json.dumps(REDACTION.value(value))


def test_a_text_that_one_redactor_leaves_alone_is_searched_by_another() -> None:
    """The texts that are known to be clean are known for one set of patterns only."""
    text = "The ticket is ACME-4711-XY, and nobody else may read it."
    ours = redactor_for(Config(redact_patterns="ticket: ACME-[0-9]+-[A-Z]+"))
    assert REDACTION.redact(text) is text
    assert ours.redact(text) == "The ticket is [redacted: ticket], and nobody else may read it."
    assert REDACTION.redact(text) is text
