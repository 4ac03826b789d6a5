"""Random secrets for tests: keys in the formats of their issuers, and passwords in the phrases that people use.

A seeded generator makes them when a test needs them, so that no file contains anything that looks like a key.
"""

import json
import random
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

__all__ = ["CHANNELS", "FORMATS", "PHRASES", "Planted", "keys", "layers_of", "passwords"]

_ALPHABETS: Final = {
    "A": string.ascii_letters + string.digits,
    "U": string.ascii_letters + string.digits + "_-",
    "B": string.ascii_letters + string.digits + "+/",
    "H": "0123456789abcdef",
    "L": string.ascii_lowercase + string.digits,
    "X": string.ascii_uppercase + string.digits,
    "D": string.digits,
}
_HOLE: Final = re.compile(r"\{([AUBHLXD])(\d+)\}")
_UUID: Final = "{H8}-{H4}-{H4}-{H4}-{H12}"
_LONG: Final = 8

# The formats of the keys of issuers: {A36} is 36 letters and digits, U with the two signs of URLs, B of base 64, H hexadecimal,
# L lower case, X upper case, D digits only.
FORMATS: Final[dict[str, str]] = {
    "1Password account": "A3-{X6}-{X6}-{X5}-{X5}-{X5}-{X5}",
    "1Password service": "ops_eyJ{A250}",
    "Adobe": "p8e-{U32}",
    "age": "AGE-SECRET-KEY-1{X58}",
    "Airtable": "pat{A14}.{H64}",
    "Aiven": "AVNS_{U19}",
    "Alibaba": "LTAI5t{A18}",
    "Amazon login": "Atza|{A60}",
    "Amazon marketplace": f"amzn.mws.{_UUID}",
    "Anthropic": "sk-ant-api03-{U93}AA",
    "Anthropic admin": "sk-ant-admin01-{U93}AA",
    "Apify": "apify_api_{A36}",
    "Artifactory key": "AKCp{A69}",
    "Artifactory token": "cmVmd{A59}",
    "Atlassian": "ATATT3xFf{U180}={X8}",
    "Authress": "sc_{L12}.{L5}.acc_{L16}.{B60}",
    "AWS access": "AKIA{X16}",
    "AWS session": "ASIA{X16}",
    "AWS Bedrock": "ABSK{B120}",
    "Axiom": f"xaat-{_UUID}",
    "Azure AD": "{A3}8Q~{A34}",
    "bcrypt": "$2b$12${A53}",
    "Bitbucket app password": "ATBB{A32}",
    "Bitbucket server": "BBDC-{A44}",
    "Braintree": "access_token$production${L16}${H32}",
    "Brevo": "xkeysib-{H64}-{A16}",
    "Brevo SMTP": "xsmtpsib-{H64}-{A16}",
    "Browserbase": "bb_live_{U28}",
    "Buildkite": "bkua_{H40}",
    "Cal.com": "cal_live_{H32}",
    "Cerebras": "csk-{L48}",
    "CircleCI": "CCIPAT_{A22}_{H40}",
    "ClickHouse": "4b1d{A38}",
    "ClickUp": "pk_{D8}_{X32}",
    "Clojars": "CLOJARS_{L60}",
    "Cloudflare origin": "v1.0-{H24}-{H146}",
    "Confluent": "cflt{B60}",
    "Contentful": "CFPAT-{U43}",
    "crates.io": "cio{A32}",
    "Databricks": "dapi{H32}",
    "Datadog application": "ddapp_{A34}",
    "Daytona": "dtn_{H64}",
    "Defined Networking": "dnkey-{U26}-{U52}",
    "DigitalOcean": "dop_v1_{H64}",
    "DigitalOcean OAuth": "doo_v1_{H64}",
    "Discord bot": "MTA{A23}.G{A5}.{U38}",
    "Discord webhook": "https://discord.com/api/webhooks/{D18}/{U68}",
    "Docker": "dckr_pat_{U27}",
    "Docker organisation": "dckr_oat_{U32}",
    "Doppler personal": "dp.pt.{A43}",
    "Doppler service": "dp.st.prd.{A40}",
    "Dropbox": "sl.{U130}",
    "Duffel": "duffel_test_{U43}",
    "Dynatrace": "dt0c01.{X24}.{X64}",
    "E2B": "e2b_{H40}",
    "EasyPost": "EZAK{A54}",
    "ElevenLabs": "sk_{H48}",
    "Facebook": "EAAC{A150}",
    "Figma": "figd_{U40}",
    "Firecrawl": "fc-{H32}",
    "Fireworks": "fw_{A22}",
    "Flutterwave": "FLWSECK_TEST-{H32}-X",
    "Fly": "fo1_{U43}",
    "Fly macaroon": "fm2_{B120}",
    "Frame.io": "fio-u-{U64}",
    "GitHub": "ghp_{A36}",
    "GitHub app": "ghs_{A36}",
    "GitHub fine-grained": "github_pat_{A22}_{A59}",
    "GitHub OAuth": "gho_{A36}",
    "GitHub refresh": "ghr_{A76}",
    "GitLab": "glpat-{U20}",
    "GitLab deploy": "gldt-{U20}",
    "GitLab runner": "glrt-{U20}",
    "GitLab runner (old)": "GR1348941{U20}",
    "GitLab trigger": "glptt-{H40}",
    "Google API": "AIza{U35}",
    "Google access": "ya29.{U100}",
    "Google OAuth": "GOCSPX-{U28}",
    "Google refresh": "1//0g{U60}",
    "Grafana cloud": "glc_{B60}",
    "Grafana service": "glsa_{A32}_{H8}",
    "Groq": "gsk_{A52}",
    "Harness": "pat.{U22}.{A24}.{A20}",
    "Heroku": "HRKU-AA{U58}",
    "Honeycomb": "hcaik_{L58}",
    "HubSpot": f"pat-na1-{_UUID}",
    "Hugging Face": "hf_{A34}",
    "Infisical": "st.{H24}.{H32}.{H32}",
    "Infracost": "ico-{A32}",
    "Inngest": "signkey-prod-{H64}",
    "Instagram": "IGQV{A120}",
    "Intercom": "dG9rO{B54}",
    "JetBrains": "perm:{A12}.{A8}.{A30}",
    "Jina": "jina_{U60}",
    "JWT": "eyJ{A20}.eyJ{A60}.{U43}",
    "Langfuse": f"sk-lf-{_UUID}",
    "LangSmith": "lsv2_pt_{H32}_{H10}",
    "LaunchDarkly": f"sdk-{_UUID}",
    "Linear": "lin_api_{A40}",
    "LlamaCloud": "llx-{A48}",
    "Lob": "live_{H35}",
    "Logfire": "pylf_v1_us_{A43}",
    "Mailchimp": "{H32}-us12",
    "MailerSend": "mlsn.{H64}",
    "Mailgun": "key-{H32}",
    "Mapbox": "sk.eyJ{A60}.{U22}",
    "MaxMind": "{A6}_{A29}_mmk",
    "Mollie": "live_{A30}",
    "MongoDB Atlas": "mdb_sa_sk_{U40}",
    "Neon": "napi_{L64}",
    "Netlify": "nfp_{A36}",
    "New Relic browser": "NRJS-{H19}",
    "New Relic user": "NRAK-{X27}",
    "Notion": "ntn_{A46}",
    "Notion (old)": "secret_{A43}",
    "npm": "npm_{A36}",
    "NuGet": "oy2{L43}",
    "NVIDIA": "nvapi-{U64}",
    "Octopus": "API-{X26}",
    "Okta": "00{U40}",
    "OpenAI": "sk-{A20}T3BlbkFJ{A20}",
    "OpenAI project": "sk-proj-{U74}T3BlbkFJ{U74}",
    "OpenAI service": "sk-svcacct-{U60}",
    "OpenRouter": "sk-or-v1-{H64}",
    "OpenShift": "sha256~{U43}",
    "Ory": "ory_pat_{A32}",
    "Paddle": "pdl_live_apikey_{L26}_{A22}_{A3}",
    "Perplexity": "pplx-{A48}",
    "Pinecone": "pcsk_{A6}_{A60}",
    "Plaid": f"access-production-{_UUID}",
    "PlanetScale password": "pscale_pw_{U43}",
    "PlanetScale token": "pscale_tkn_{U43}",
    "PostHog": "phx_{A43}",
    "Postman": "PMAK-{H24}-{H34}",
    "Prefect": "pnu_{A36}",
    "Pulumi": "pul-{H40}",
    "PyPI": "pypi-AgEIcHlwaS5vcmc{U120}",
    "Razorpay": "rzp_live_{A14}",
    "ReadMe": "rdme_{L70}",
    "Render": "rnd_{A28}",
    "Replicate": "r8_{A37}",
    "Resend": "re_{A8}_{A24}",
    "RubyGems": "rubygems_{H48}",
    "RunPod": "rpa_{X40}",
    "Scalingo": "tk-us-{U48}",
    "SendGrid": "SG.{U22}.{U43}",
    "Sentry organisation": "sntrys_{A120}",
    "Sentry user": "sntryu_{H64}",
    "SettleMint": "sm_pat_{A16}",
    "Shippo": "shippo_live_{H40}",
    "Shopify": "shpat_{H32}",
    "Shopify secret": "shpss_{H32}",
    "Slack app": "xapp-1-{X11}-{D13}-{H64}",
    "Slack bot": "xoxb-{D12}-{D13}-{A24}",
    "Slack user": "xoxp-{D12}-{D12}-{D13}-{H32}",
    "Slack webhook": "https://hooks.slack.com/services/T{X8}/B{X10}/{A24}",
    "Sonar": "squ_{H40}",
    "Sourcegraph": "sgp_{H16}_{H40}",
    "Square": "sq0atp-{U22}",
    "Square access": "EAAA{U60}",
    "Stripe": "sk_live_{A99}",
    "Stripe restricted": "rk_live_{A24}",
    "Stripe webhook": "whsec_{A32}",
    "Supabase": "sbp_{H40}",
    "Supabase secret": "sb_secret_{U31}",
    "Svix": "testsk_{A32}",
    "Tailscale": "tskey-auth-{A12}CNTRL-{A32}",
    "Tavily": "tvly-dev-{A32}",
    "Teams webhook": f"https://x.webhook.office.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/{{H32}}/{_UUID}",
    "Telegram": "{D10}:AA{U33}",
    "Tencent": "AKID{A32}",
    "Terraform": "{A14}.atlasv1.{A67}",
    "Trigger.dev": "tr_prod_{A20}",
    "Twilio": "SK{H32}",
    "Twitter": "AAAAAAAAAAAAAAAAAAAAA{A90}",
    "Typeform": "tfp_{A59}",
    "Vault": "hvs.{U90}",
    "Vault batch": "hvb.{U120}",
    "Vercel blob": "vercel_blob_rw_{A16}_{A30}",
    "Voyage": "pa-{U43}",
    "xAI": "xai-{A80}",
    "Yandex": "AQVN{U36}",
    "Zuplo": "zpka_{H32}_{H8}",
    "of an unknown issuer": "acme_live_{A32}",
    "of an unknown interface": "acme-api-{A40}",
    "of an unknown service": "corp_token_{H40}",
    "of an unknown signer": "{A30}.{A6}.{U27}",
}

# Texts around a password. {P} is the password, {T} a token without a known format, {B} a token in base 64.
PHRASES: Final[tuple[str, ...]] = (
    # ---- settings and code
    "DB_PASS={P}",
    "DB_PASSWORD={P}",
    "export MYSQL_ROOT_PASSWORD={P}",
    "PGPASSWORD={P} psql -h db -U app",
    "REDIS_PASS: {P}",
    "password: {P}",
    "password = '{P}'",
    '"password": "{P}"',
    "'passwd' => '{P}',",
    "$db_pass = '{P}';",
    "define('DB_PASSWORD', '{P}');",
    "spring.datasource.password={P}",
    "ansible_ssh_pass={P}",
    "ansible_become_password: {P}",
    "db_pw = {P}",
    'dbPassword := "{P}"',
    'connection.setPassword("{P}")',
    "ENV ADMIN_PASSWORD {P}",
    "<password>{P}</password>",
    '<add key="DbPassword" value="{P}" />',
    "- name: DB_PASSWORD\n  value: {P}",
    "Server=db;User Id=sa;Password={P};Encrypt=true",
    "Data Source=db;Uid=app;Pwd={P};",
    'psk="{P}"',
    "WIFI:S:Home;T:WPA;P:{P};;",
    "TOKEN={T}",
    "TOKEN={P}.{P}.{P}",
    "GITHUB_TOKEN: {T}",
    "AWS_SECRET_ACCESS_KEY={T}",
    "aws_secret_access_key = {T}",
    "AccountKey={B};EndpointSuffix=core.windows.net",
    "client_secret: {T}",
    'api_key = "{T}"',
    "apiKey: '{T}',",
    "OPENAI_KEY={T}",
    "SECRET_KEY_BASE={T}",
    "DD_API_KEY={T}",
    "//npm.example.com/:_authToken={T}",
    "refresh_token={T}",
    "private_token: {T}",
    # ---- addresses
    "jdbc:mysql://db/app?user=app&password={P}",
    "postgres://app:{P}@db:5432/app",
    "redis://:{P}@cache:6379/0",
    "amqp://guest:{P}@rabbit/",
    "mongodb+srv://app:{P}@cluster0.example.net/x",
    "git clone https://bob:{P}@git.example.com/x.git",
    "GET /v1/me?access_token={T}&x=1",
    "https://x.example.com/cb?api_key={T}",
    "https://s3.example.com/x?X-Amz-Signature={T}",
    # ---- commands
    "curl -u admin:{P} https://api.example.com/v1",
    "curl --user 'admin:{P}' https://api.example.com",
    "curl -s -X POST --proxy-user bob:{P} https://x.example.com",
    "curl -b 'sessionid={T}' https://x.example.com",
    "curl -H 'Authorization: Bearer {T}' https://x.example.com",
    "mysql -u root -p{P} shop",
    "mysqldump -uroot -p'{P}' shop > dump.sql",
    "sshpass -p '{P}' ssh root@host",
    "docker login -u bob -p {P} registry.example.com",
    "helm registry login -u bob --password {P} r.example.com",
    "redis-cli -h cache -a {P} ping",
    "mongosh -u admin -p {P} --authenticationDatabase admin",
    "ldapsearch -x -D cn=admin -w {P} -b dc=example",
    "sqlcmd -S db -U sa -P {P}",
    "htpasswd -b .htpasswd bob {P}",
    "echo 'root:{P}' | chpasswd",
    "net user bob {P} /add",
    "plink -ssh bob@host -pw {P}",
    "openssl enc -aes-256-cbc -pass pass:{P} -in a -out b",
    "keytool -list -keystore k.jks -storepass {P}",
    "gpg --batch --passphrase {P} -d file.gpg",
    "zip -P {P} out.zip a.txt",
    "7z a -p{P} out.7z a.txt",
    "smbclient //srv/share -U bob%{P}",
    "rabbitmqctl add_user bob {P}",
    "wget --http-password={P} https://x.example.com/f",
    "mount -t cifs //s/x /m -o username=bob,password={P}",
    "kubectl create secret generic db --from-literal=password={P}",
    '$c = ConvertTo-SecureString "{P}" -AsPlainText -Force',
    "CREATE USER 'app'@'%' IDENTIFIED BY '{P}';",
    "ALTER USER app WITH PASSWORD '{P}';",
    "vault login {T}",
    "deploy --token {T} --prod",
    "docker run -e API_TOKEN={T} image",
    "heroku config:set SECRET={T}",
    "echo {P} | sudo -S apt update",
    "sudo -S true <<< {P}",
    "sftp bob:{P}@host.example.com",
    "SET PASSWORD FOR 'bob'@'%' = '{P}';",
    '$env:DB_PASSWORD = "{P}"',
    "setx DB_PASSWORD {P}",
    "az login -u bob@example.com -p {P}",
    "aws configure set aws_secret_access_key {T}",
    # ---- files that hold logins
    "requirepass {P}",
    "bindpw {P}",
    "machine api.example.com login bob password {P}",
    "machine api.example.com\n  login bob\n  password {P}",
    "db.example.com:5432:shop:app:{P}",
    # ---- headers
    "Authorization: Bearer {T}",
    "Authorization: Basic {B}",
    "Authorization: Token {T}",
    "Proxy-Authorization: Basic {B}",
    "X-Api-Key: {T}",
    "X-Auth-Token: {T}",
    "Cookie: session={T}; theme=dark",
    "Set-Cookie: sid={T}; HttpOnly; Path=/",
    # ---- sentences
    "my password is {P}",
    "the password for the staging server is {P}",
    "The new admin password: {P}",
    "use {P} as the password",
    "{P} is the root password",
    "I changed the password to {P} yesterday",
    "user bob, password {P}",
    "login: bob / {P}",
    "credentials are admin:{P}",
    "pw: {P}",
    "passphrase: {P}",
    'the wifi password is "{P}"',
    "webhook secret is {T}",
    "the API key for Datadog is {T}",
    "here is my access token: {T}",
    "use this api key {T} please",
    "The password's {P}",
    "login is admin, password is {P}",
    "the secret is {T}",
    "Mật khẩu là {P}",
    "Heslo je {P}",
    "كلمة المرور: {P}",
    "Passwort: {P}",
    "Das Passwort lautet {P}",
    "Kennwort ist {P}",
    "La contraseña es {P}",
    "contraseña: {P}",
    "Le mot de passe est {P}",
    "mot de passe : {P}",
    "A senha é {P}",
    "La password è {P}",
    "Het wachtwoord is {P}",
    "Hasło to {P}",
    "Lösenordet är {P}",
    "пароль: {P}",
    "密码是{P}",
    "密码：{P}",
    "パスワードは{P}です",
    "비밀번호는 {P} 입니다",
    "Şifre: {P}",
    "My password used to be {P} but not any more",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A text that contains a secret."""

    name: str
    secret: str
    text: str


class _Maker:
    """Makes random secrets. The same seed gives the same secrets."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def key(self, template: str) -> str:
        """Return a key of a format."""
        return _HOLE.sub(lambda hole: self.some(int(hole[2]), _ALPHABETS[hole[1]]), template)

    def some(self, length: int, letters: str) -> str:
        """Return a random word. A long word has letters and digits, as every issued key has."""
        while True:
            word = "".join(self._dice.choice(letters) for _ in range(length))
            is_mixed = any(map(str.isdigit, word)) and any(map(str.isalpha, word))
            if length < _LONG or is_mixed or letters == string.digits:
                return word

    def password(self) -> str:
        """Return a password as people choose it: a word, often a sign, and a number."""
        word = self._dice.choice(["hunter", "Sommer", "tiger", "Blaubeer", "dragon", "Monkey", "correct", "Lisbon"])
        sign = self._dice.choice(["", "", "!", "#", "_", "-", "$", "@"])
        return f"{word}{sign}{self._dice.randrange(10, 9999)}{self._dice.choice(['', 'x', 'Q', '!'])}"


def keys(seed: int = 15) -> Iterator[Planted]:
    """Yield a key of each format, in a sentence."""
    maker = _Maker(seed)
    for name, template in FORMATS.items():
        key = maker.key(template)
        # Only the end of an address is secret.
        secret = re.sub(r"^https://[^/]*/(?:api/webhooks/|services/|webhookb2/)?", "", key)
        yield Planted(name=name, secret=secret, text=f"Please deploy with {key} before Friday.")


def passwords(seed: int = 16) -> Iterator[Planted]:
    """Yield each phrase with a password or a token in it."""
    maker = _Maker(seed)
    for phrase in PHRASES:
        made = {
            "{P}": maker.password(),
            "{T}": maker.some(32, _ALPHABETS["A"]),
            "{B}": maker.some(42, _ALPHABETS["B"]) + "==",
        }
        hole = next(hole for hole in made if hole in phrase)
        yield Planted(name=phrase, secret=made[hole], text=phrase.replace(hole, made[hole]))


CHANNELS: Final[dict[str, Callable[[str], str]]] = {
    "plain": lambda text: text,
    "tool JSON": lambda text: json.dumps({"command": "run", "input": f"first line\n{text}\nlast line"}),
    "nested JSON": lambda text: json.dumps({"output": json.dumps({"log": [f"a\t{text}\n"], "code": 0})}),
    "URL-encoded": lambda text: f"GET /log?m={quote(text, safe='')}&n=1",
    "form-encoded": lambda text: f"m={quote_plus(f'see {text} now')}",
}
"""The ways in which a text is encoded before it is redacted."""


def layers_of(text: str) -> Iterator[str]:
    """Yield a text and its decoded forms. A secret that is encoded in the text is visible in one of them."""
    yield text
    yield unquote(text)
    yield unquote_plus(text)
    for _ in range(3):
        text = re.sub(r"\\u([0-9a-f]{4})", lambda hit: chr(int(hit[1], 16)), text)
        text = re.sub(r"\\(.)", lambda hit: {"n": "\n", "t": "\t"}.get(hit[1], hit[1]), text)
        yield text
