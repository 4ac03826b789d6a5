"""Find keys and tokens by their published formats. `secret_context` finds other secrets by the words around them."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple


class Found(NamedTuple):
    """A secret in a text."""

    start: int
    end: int
    kind: str


# Letters and digits, the same with the two signs of URL-safe base 64, hexadecimal digits, and all signs of base 64.
_A: Final = "[A-Za-z0-9]"
_U: Final = "[A-Za-z0-9_-]"
_H: Final = "[a-fA-F0-9]"
_B: Final = "[A-Za-z0-9+/_=-]"

# Formats of keys that begin with a fixed prefix: the kind, one or more prefixes of at least two characters, and a regular
# expression for the characters after the prefix. Its repeated parts must not overlap, so that the search is linear.
# If several formats match at one position, the format with the longest prefix is used, and of these the first in the table.
FORMATS: Final = (
    # ---- models
    ("Anthropic key", "sk-ant-", _U + "{16,}+"),
    ("OpenRouter key", "sk-or-", _U + "{16,}+"),
    ("OpenAI key", "sk- sess-", "(?=[A-Za-z_-]{0,40}[0-9])" + _U + "{20,}+"),
    ("Groq key", "gsk_", _A + "{40,}+"),
    ("xAI key", "xai-", _A + "{40,}+"),
    ("Perplexity key", "pplx-", _A + "{32,}+"),
    ("Replicate token", "r8_", _A + "{30,}+"),
    ("Hugging Face token", "hf_ api_org_", _A + "{30,}+"),
    ("NVIDIA key", "nvapi-", _U + "{30,}+"),
    ("Pinecone key", "pcsk_", _U + "{30,}+"),
    ("Fireworks key", "fw_", _A + "{20,}+"),
    ("Cerebras key", "csk-", _A + "{30,}+"),
    ("Tavily key", "tvly-", _U + "{20,}+"),
    ("Firecrawl key", "fc-", _H + "{32}(?!" + _A + ")"),
    ("Jina key", "jina_", _U + "{30,}+"),
    ("Voyage key", "pa-", _U + "{40,}+"),
    ("LangSmith key", "lsv2_ ls__", _U + "{30,}+"),
    ("Langfuse key", "sk-lf- pk-lf-", "[a-f0-9-]{30,}+"),
    ("LlamaCloud key", "llx-", _A + "{30,}+"),
    ("ElevenLabs key", "sk_", "[a-f0-9]{40,}+"),
    ("Together key", "tgp_v1_", _U + "{30,}+"),
    ("Weights & Biases key", "wandb_v1_", _U + "{30,}+"),
    # ---- clouds and hosting
    ("AWS key", "AKIA ASIA ABIA ACCA A3T", "[0-9A-Z]{16,17}(?![0-9A-Za-z])"),
    ("AWS Bedrock key", "ABSK bedrock-api-key-", "[A-Za-z0-9+/=]{30,}+"),
    ("Google key", "AIza", _U + "{35}"),
    ("Google key", "GOCSPX- ya29.", _U + "{20,}+"),
    ("Alibaba key", "LTAI", _A + "{12,24}+"),
    ("Tencent key", "AKID", _A + "{28,40}+"),
    ("Yandex key", "AQVN t1. y0_ y1_ y2_", "[A-Za-z0-9_-]{30,}+(?:[.]" + _U + "{20,}+)?={0,2}"),
    ("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", "[a-f0-9]{64}"),
    ("Databricks token", "dapi dose dkea", "[a-f0-9]{32}(?:-[0-9])?"),
    ("Heroku key", "HRKU-", _U + "{30,}+"),
    ("Netlify token", "nfp_ nfc_ nfo_ nfu_", _A + "{30,}+"),
    ("Vercel token", "vcp_ vci_ vca_ vcr_ vck_ vercel_blob_rw_", _U + "{20,}+"),
    ("Fly token", "fo1_", _U + "{30,}+"),
    ("Render key", "rnd_", _A + "{24,}+"),
    ("Cloudflare token", "cfut_ cfat_ cfk_", _U + "{30,}+"),
    ("Cloudflare key", "v1.0-", "[a-f0-9]{24}-[a-f0-9]{100,}+"),
    ("Scaleway key", "SCW", "(?=[A-Z]{0,16}[0-9])[A-Z0-9]{17}(?![A-Za-z0-9])"),
    ("Linode token", "lin_", _A + "{40,}+"),
    ("Supabase token", "sbp_ sb_secret_ sb_publishable_", _U + "{20,}+"),
    ("Neon key", "napi_", _A + "{30,}+"),
    ("PlanetScale token", "pscale_tkn_ pscale_pw_ pscale_oauth_ pscale_", _U + "{30,}+"),
    ("ClickHouse key", "4b1d", _A + "{38}(?!" + _A + ")"),
    ("MongoDB key", "mdb_sa_sk_ mdb_sa_id_", _U + "{20,}+"),
    ("Aiven token", "AVNS_", _U + "{16,}+"),
    ("Confluent key", "cflt", "[A-Za-z0-9+/]{50,}+"),
    # ---- code, packages and delivery
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", _A + "{30,}+"),
    ("GitHub token", "github_pat_", "[A-Za-z0-9_]{22,}+"),
    (
        "GitLab token",
        "glpat- gldt- glrt- glptt- glsoat- glcbt- glffct- glft- glimt- glagent- gloas- glwt- GR1348941",
        "[A-Za-z0-9_.-]{20,}+",
    ),
    ("Bitbucket token", "ATBB ATCTT3xFf ATATT3xFf ATATT3 BBDC-", "[A-Za-z0-9_=-]{20,}+"),
    ("Atlassian token", "ATOA ATSTT3xFf", "[A-Za-z0-9_=-]{40,}+"),
    ("Docker token", "dckr_pat_ dckr_oat_", _U + "{20,}+"),
    ("npm token", "npm_", _A + "{36}"),
    ("PyPI token", "pypi-", _U + "{40,}+"),
    ("RubyGems key", "rubygems_", _H + "{40,}+"),
    ("NuGet key", "oy2", "[a-z0-9]{43}(?!" + _A + ")"),
    ("crates.io token", "cio", _A + "{32}(?!" + _A + ")"),
    ("Clojars token", "CLOJARS_ clojars_", _A + "{40,}+"),
    ("Artifactory key", "AKCp cmVmd", _A + "{50,}+"),
    ("CircleCI token", "CCIPAT_ CCIPRJ_", _U + "{30,}+"),
    ("Buildkite token", "bkua_ bkct_ bkat_", _A + "{30,}+"),
    ("Terraform token", "atlasv1.", _U + "{30,}+"),
    ("Pulumi token", "pul-", "[a-f0-9]{40}"),
    ("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9._-]{30,}+"),
    ("Infisical token", "st.", "[a-f0-9]{20,}+[.]" + _H + "{20,}+"),
    ("1Password token", "ops_ey", "[A-Za-z0-9+/=_-]{50,}+"),
    ("1Password key", "A3-", "[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9-]{15,30}+"),
    ("Vault token", "hvs. hvb. hvr.", _U + "{24,}+"),
    ("Sonar token", "squ_ sqp_ sqa_", _H + "{40}"),
    ("Snyk token", "snyk_ snyk_uat. snyk_sat.", "[A-Za-z0-9._-]{30,}+"),
    ("Sourcegraph token", "sgp_ sgd_ slk_", "[A-Za-z0-9_]{40,}+"),
    ("Harness token", "pat. sat.", "[A-Za-z0-9_-]{22}[.]" + _A + "{24}[.]" + _A + "{20}"),
    ("Octopus key", "API-", "(?=[A-Z]{0,26}[0-9])[A-Z0-9]{25,32}(?![A-Za-z0-9])"),
    ("Prefect key", "pnu_ pnb_", _A + "{36}"),
    ("ReadMe key", "rdme_", "[a-z0-9]{60,}+"),
    ("Infracost key", "ico-", _A + "{32}"),
    ("Scalingo token", "tk-us- tk-eu-", _U + "{40,}+"),
    ("Postman key", "PMAK-", "[a-f0-9]{24}-[a-f0-9]{34}"),
    # ---- watching
    ("Grafana token", "glsa_", _A + "{32}_[A-Fa-f0-9]{8}"),
    ("Grafana token", "eyJrIjoi", "[A-Za-z0-9+/=]{30,}+"),
    ("New Relic key", "NRAK- NRAL- NRII- NRIQ- NRRA- NRSP- NRBR- NRJS-", _U + "{16,}+"),
    ("Datadog key", "pub", "(?=[a-f]{0,31}[0-9])[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("Datadog key", "ddapp_", _A + "{34}"),
    ("Dynatrace token", "dt0c01. dt0s01. dt0s02. dt0s03. dt0s08. dt0s16.", "[A-Z0-9]{8,30}[.][A-Z0-9]{40,}+"),
    ("Honeycomb key", "hcaik_ hcalk_ hcamk_ hcxik_ hcxlk_ hcxmk_", _A + "{20,}+"),
    ("PostHog key", "phc_ phx_ phs_ pha_", _A + "{30,}+"),
    ("Logfire token", "pylf_v1_", _U + "{24,}+"),
    ("Axiom token", "xaat- xapt-", "[a-f0-9-]{30,}+"),
    ("Tailscale key", "tskey-", _U + "{16,}+"),
    ("ngrok token", "ngrok_ ak_", _A + "{30,}+"),
    ("Defined Networking key", "dnkey-", _U + "{30,}+"),
    # ---- talk and mail
    ("Slack token", "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs-", "[A-Za-z0-9%.-]{10,}+"),
    ("Slack token", "xapp- xwfp-", "[A-Za-z0-9-]{20,}+"),
    ("SendGrid key", "SG.", _U + "{16,32}[.]" + _U + "{32,64}+"),
    ("Mailgun key", "key- pubkey-", "(?=[a-f]{0,31}[0-9])[a-f0-9]{32}(?![A-Za-z0-9])"),
    ("Brevo key", "xkeysib- xsmtpsib-", _U + "{40,}+"),
    ("Resend key", "re_", "(?=[A-Za-z_]{0,30}[0-9])" + _A + "{6,12}_" + _A + "{18,}+"),
    ("MailerSend token", "mlsn.", _A + "{40,}+"),
    ("Twilio key", "SK", "[0-9a-f]{32}(?![0-9a-zA-Z])"),
    ("Telnyx key", "KEY0", "[0-9A-F]{24,}_" + _A + "{20,}+"),
    ("Intercom token", "dG9rO", "[A-Za-z0-9+/=]{40,}+"),
    ("HubSpot token", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", "[a-f0-9-]{30,}+"),
    ("Typeform token", "tfp_", "[A-Za-z0-9_.=-]{40,}+"),
    ("Dropbox token", "sl.", "[A-Za-z0-9_=-]{60,}+"),
    ("Frame.io token", "fio-u-", _U + "{40,}+"),
    ("Figma token", "figd_ figo_ figu_ figoh_ figor_", _U + "{20,}+"),
    ("Linear key", "lin_api_ lin_oauth_ lin_wh_", _A + "{30,}+"),
    ("Notion token", "ntn_ secret_", _A + "{40,}+"),
    ("Airtable token", "pat", _A + "{14}[.][a-f0-9]{64}"),
    ("Airtable key", "key", "(?=[A-Za-z]{0,13}[0-9])(?=[a-z0-9]{0,13}[A-Z])" + _A + "{14}(?!" + _U + ")"),
    ("ClickUp token", "pk_", "[0-9]{6,10}_[A-Z0-9]{32}"),
    ("Cal.com key", "cal_live_ cal_", _A + "{24,}+"),
    ("Contentful token", "CFPAT-", _U + "{40,}+"),
    ("LaunchDarkly key", "sdk- mob- api- rel-", "[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}"),
    ("Mapbox token", "pk.ey sk.ey tk.ey", _U + "{20,}+[.]" + _U + "{16,}+"),
    ("WorkOS key", "sk_live_a2V5 sk_test_a2V5", _B + "{20,}+"),
    (
        "Okta token",
        "00",
        "(?=[0-9]{0,39}[A-Za-z])(?=[A-Z0-9_-]{0,39}[a-z])(?=[a-z0-9_-]{0,39}[A-Z])" + _U + "{40}(?!" + _U + ")",
    ),
    # ---- shops and money
    ("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ sk_prod_ rk_prod_", _A + "{16,}+"),
    ("Square token", "sq0atp- sq0csp- sq0idp- EAAA", _U + "{22,}+"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_", _H + "{32}"),
    (
        "Plaid token",
        "access-sandbox- access-development- access-production- link-production- link-sandbox-",
        "[a-f0-9-]{30,}+",
    ),
    ("Adyen key", "AQE", "[A-Za-z0-9+/=_-]{60,}+"),
    ("Razorpay key", "rzp_live_ rzp_test_", _A + "{14,}+"),
    ("Flutterwave key", "FLWSECK_TEST- FLWSECK- FLWPUBK_TEST- FLWPUBK-", "[A-Za-z0-9-]{12,}+"),
    (
        "GoCardless token",
        "live_ test_ sandbox_",
        "(?=[A-Za-z_-]{0,60}[0-9])(?=[a-z0-9_-]{0,60}[A-Z])" + _U + "{35,}+",
    ),
    ("Mollie key", "live_ test_", "(?=[A-Za-z]{0,35}[0-9])(?=[a-z0-9]{0,35}[A-Z])" + _A + "{30,}+"),
    ("Lob key", "live_ test_", "(?=[a-f]{0,35}[0-9])[a-f0-9]{35}(?![A-Za-z0-9])"),
    ("Paddle key", "pdl_live_ pdl_sdbx_ pdl_ntfset_", "[A-Za-z0-9_]{20,}+"),
    ("EasyPost key", "EZAK EZTK", _A + "{54}"),
    ("Shippo token", "shippo_live_ shippo_test_", _H + "{40}"),
    ("Duffel token", "duffel_test_ duffel_live_", _U + "{30,}+"),
    ("Amazon token", "amzn.mws. amzn1.oa2-cs.v1.", "[A-Za-z0-9_-]{30,}+"),
    ("Amazon Marketplace token", "amzn1.application-oa2-client.", "[a-f0-9]{32}"),
    ("Facebook token", "EAA EAACEdEose0cBA", _A + "{80,}+"),
    ("Instagram token", "IGQV IGAA", _U + "{60,}+"),
    ("Twitter token", "AAAAAAAAAAAAAAAAAAAAA", "[A-Za-z0-9%]{40,}+"),
    ("LinkedIn token", "WPL_AP1. AQX", "[A-Za-z0-9_.=-]{40,}+"),
    ("Adobe secret", "p8e- p8-", _U + "{30,}+"),
    (
        "Authress key",
        "authress_ scauth_ sc_ ext_",
        "[a-z0-9]{5,30}[.][a-z0-9]{4,6}[.]acc[_-][a-z0-9-]{10,32}[.]" + _B + "{30,}+",
    ),
    ("SettleMint token", "sm_aat_ sm_pat_ sm_sat_", _A + "{16,}+"),
    ("age key", "AGE-SECRET-KEY-1", "[0-9A-Z]{50,}+"),
    ("Ory token", "ory_at_ ory_rt_ ory_ac_ ory_st_ ory_pat_ ory_apikey_", "[A-Za-z0-9_.-]{24,}+"),
    ("Apify token", "apify_api_", _A + "{24,}+"),
    ("Browserbase key", "bb_live_ bb_test_", _U + "{20,}+"),
    ("E2B key", "e2b_", _H + "{30,}+"),
    ("Daytona key", "dtn_", _A + "{40,}+"),
    ("Modal token", "as- ak-", "(?=[A-Za-z]{0,22}[0-9])(?=[a-z0-9]{0,22}[A-Z])" + _A + "{22}(?!" + _U + ")"),
    ("RunPod key", "rpa_", _A + "{30,}+"),
    ("Zuplo key", "zpka_", _A + "{24,}+"),
    ("Svix key", "testsk_ sk_svix_ svix_", _A + "{24,}+"),
    ("Trigger.dev key", "tr_dev_ tr_prod_ tr_stg_ tr_pat_", _A + "{16,}+"),
    ("Inngest key", "signkey-prod- signkey-test- signkey-branch-", _H + "{30,}+"),
    ("JWT", "eyJ", _U + "{8,}+[.]eyJ" + _U + "{8,}+(?:[.][A-Za-z0-9_-]*+)?"),
    ("JWT", "eyJ", _U + "{20,}+[.]" + _U + "*+[.]" + _U + "{10,}+[.]" + _U + "{10,}+[.]" + _U + "{10,}+"),
)

# Formats of keys without a fixed prefix: the kind, words or signs in lower case, and a regular expression for the key. Every key
# contains at least one of the words, which are separated by spaces, or all of the signs.
SHAPES: Final = (
    ("Telegram token", ":aa", r"\d{8,10}:AA[A-Za-z0-9_-]{32,34}(?![A-Za-z0-9_-])"),
    ("Stripe key", "whsec", r"whsec_[A-Za-z0-9+/=]{24,}+"),
    ("Grafana token", "glc", r"glc_[A-Za-z0-9+/=]{30,}+"),
    ("Sentry token", "sntrys sntryu sntrya sntryi", r"sntry[suai]_[A-Za-z0-9+/=_-]{30,}+"),
    ("Fly token", "fm1a fm1r fm2", r"fm(?:1a|1r|2)_[A-Za-z0-9+/_-]{30,}+={0,3}"),
    ("Azure secret", "q~", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    ("Mailchimp key", "-us", r"[0-9a-f]{32}-us\d{1,2}(?![0-9A-Za-z])"),
    ("Terraform token", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{30,}+"),
    ("MaxMind key", "mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    ("Google key", "1//0", r"1//0[A-Za-z0-9_-]{30,}+"),
    ("OpenShift token", "sha256", r"sha256~[A-Za-z0-9_-]{43}"),
    ("Braintree token", "access", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    ("Amazon token", "atza atzr", r"Atz[ar]\|[A-Za-z0-9_|+/=-]{30,}+"),
    ("JetBrains token", "perm", r"perm:[A-Za-z0-9+/=]{4,}+\.[A-Za-z0-9+/=]{4,}+\.[A-Za-z0-9]{20,}+"),
    ("webhook", "hooks", r"(?<=hooks\.slack\.com/)\w{4,12}/[A-Za-z0-9/_-]{20,200}+"),
    ("webhook", "webhooks", r"(?<=/webhooks/)\d{10,25}/[A-Za-z0-9_-]{30,100}+"),
    ("webhook", "hooks", r"(?<=hooks\.zapier\.com/hooks/catch/)\d{4,12}/\w{5,20}"),
    ("webhook", "webhook", r"(?<=webhook\.office\.com/)webhookb2/[A-Za-z0-9@/_-]{40,300}+"),
    ("password hash", "2a 2b 2x 2y", r"\$2[abxy]\$\d\d\$[A-Za-z0-9./]{53}"),
    ("password hash", "$6$", r"\$6\$(?:rounds=\d{1,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{80,90}"),
    ("password hash", "argon2id argon2i argon2d", r"\$argon2(?:id|i|d)\$[A-Za-z0-9=,$]{8,60}+[A-Za-z0-9+/$=]{20,}+"),
)

# ---------------------------------------------------------------- the search

_WORD: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
# A plus sign is part of a word, because it occurs in base 64. If it encodes a space, the text is searched again in decoded form.
_TO_WORDS: Final = bytes(code if chr(code) in f"{_WORD}+" else 32 for code in range(256))
_TO_LOWER_WORDS: Final = bytes(
    ord(chr(code).lower()) if chr(code).isascii() and chr(code).isalnum() else 32 for code in range(256)
)
# Minimum lengths in characters: of the first word of a key, of a key of an unknown issuer, and of a part of a dotted token.
_MIN_WORD: Final = 12
_MIN_GENERIC: Final = 26
_MIN_PART: Final = 20
_IN_WORDS: Final = frozenset(_WORD)
_NOT_WITHIN_A_WORD: Final = "(?<![A-Za-z0-9_-])"

_Patterns = dict[bytes, list[tuple[str, re.Pattern[str]]]]


def _tables() -> tuple[_Patterns, _Patterns, list[tuple[str, str, str, re.Pattern[str]]]]:
    """Return three tables of formats: by the first three characters of a key, by a word in the key, and by signs in the key.

    Formats with longer prefixes come first. In the third table, the first value is one of the signs.
    """
    by_beginning: _Patterns = {}
    by_word: _Patterns = {}
    rows = [(prefix, kind, rest) for kind, prefixes, rest in FORMATS for prefix in prefixes.split()]
    for prefix, kind, rest in sorted(rows, key=lambda row: -len(row[0])):
        shape = re.escape(prefix) + f"(?:{rest})[A-Za-z0-9_]*+"
        if "." in prefix:
            word = prefix.encode().translate(_TO_LOWER_WORDS).split()[0]
            by_word.setdefault(word, []).append((kind, re.compile(_NOT_WITHIN_A_WORD + shape)))
            continue
        begins = [prefix[:3]] if len(prefix) >= 3 else [prefix + letter for letter in _WORD]  # noqa: PLR2004
        for begin in begins:
            by_beginning.setdefault(begin.encode(), []).append((kind, re.compile(_NOT_WITHIN_A_WORD + shape)))
    by_signs: list[tuple[str, str, str, re.Pattern[str]]] = []
    for kind, inside, shape in SHAPES:
        pattern = re.compile(shape if shape.startswith("(?<=") else _NOT_WITHIN_A_WORD + shape)
        if not inside.replace(" ", "").isalnum():
            sign = next(one for one in inside if not one.isalnum() and one != " ")
            by_signs.append((sign, inside, kind, pattern))
            continue
        for word in inside.split():
            by_word.setdefault(word.encode(), []).append((kind, pattern))
    return by_beginning, by_word, by_signs


_BY_BEGINNING, _KEYS_BY_WORD, _KEYS_BY_SIGNS = _tables()
KEY_WORDS: Final = frozenset(_KEYS_BY_WORD)
"""Words in lower case. A text that contains one of them may contain a key whose format is found by this word."""


def lower_words(data: bytes) -> list[bytes]:
    """Return the words of ASCII letters and digits, in lower case, of a text that is encoded as UTF-8."""
    return data.translate(_TO_LOWER_WORDS).split()


# A key of any issuer: a word such as `key` or `token`, followed by one word that may be random.
_GENERIC: Final = re.compile(
    _NOT_WITHIN_A_WORD + r"(?:[A-Za-z0-9]{1,16}[_-]){0,3}"
    r"(?i:sk|pk|rk|key|apikey|api|pat|tok|token|secret|live|test|prod|production|sandbox|auth|access|refresh|admin|bot|svc|cred|priv)"
    r"[_-](?:v\d[_-])?(?P<tail>[A-Za-z0-9]{20,}+)(?![A-Za-z0-9])"
)
_A_DIGIT: Final = re.compile(rb"[0-9]")
_DOTTED: Final = re.compile(_NOT_WITHIN_A_WORD + r"[A-Za-z0-9_-]{20,}+\.[A-Za-z0-9_-]{4,}+\.[A-Za-z0-9_-]{20,}+")


def keys_in(text: str, data: bytes) -> Iterator[Found]:
    """Yield the keys with a known prefix and the random keys of unknown issuers.

    Only long words are checked, and most of these are rejected by their first three characters.
    """
    at = 0
    for word in [word for word in data.translate(_TO_WORDS).split() if len(word) >= _MIN_WORD]:
        patterns = _BY_BEGINNING.get(word[:3])
        if patterns is None and (len(word) < _MIN_PART or not _A_DIGIT.search(word)):
            continue
        name = word.decode()
        place = text.find(name, at)
        while place > 0 and text[place - 1] in _IN_WORDS:
            place = text.find(name, place + 1)
        if place < 0:
            continue
        at = place + len(name)
        known = (Found(place, hit.end(), kind) for kind, key in patterns or () if (hit := key.match(text, place)))
        found = next(known, None) or _generic_at(text, name, place)
        if found:
            yield found
            at = found.end


def _generic_at(text: str, word: str, place: int) -> Found | None:
    """Return a random word after a word such as `key`, or random words joined by dots. Return None for any other word."""
    if len(word) >= _MIN_GENERIC:
        hit = _GENERIC.match(word)
        if hit and is_random(hit["tail"]):
            return Found(place, place + hit.end(), "API key")
    if text[place + len(word) : place + len(word) + 1] == ".":
        hit = _DOTTED.match(text, place)
        if hit and all(is_random(part) for part in hit[0].split(".") if len(part) >= _MIN_PART):
            return Found(place, hit.end(), "token")
    return None


def keys_by_words(text: str, lower: str, words: frozenset[bytes]) -> Iterator[Found]:
    """Yield the keys whose format is found by a word or by signs inside the key."""
    patterns = [one for word in sorted(words & KEY_WORDS) for one in _KEYS_BY_WORD[word]] if words else []
    # Looking for one sign is many times faster than looking for several characters.
    patterns += [(kind, pattern) for sign, signs, kind, pattern in _KEYS_BY_SIGNS if sign in lower and signs in lower]
    for kind, pattern in patterns:
        for hit in pattern.finditer(text):
            yield Found(*hit.span(), kind)


_CHANGES: Final = re.compile(r"(?<=[a-z])(?![a-z])|(?<=[A-Z])(?![A-Z])|(?<=[0-9])(?![0-9])")
# Only this many characters of a word are tested.
_TESTED: Final = 64
_DIGITS: Final = re.compile(r"[0-9]+")


def is_random(word: str) -> bool:
    """Return whether small letters, capitals and digits alternate as often as in random text, which is not the case in names."""
    word = word[:_TESTED]
    changes, groups = len(_CHANGES.findall(word)) - 1, len(_DIGITS.findall(word))
    return (groups >= 2 and changes >= len(word) * 0.25) or (groups >= 1 and changes >= len(word) * 0.42)  # noqa: PLR2004
