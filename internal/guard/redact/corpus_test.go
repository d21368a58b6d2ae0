package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"math/rand/v2"
	"net/url"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/guard/redact"
)

// figure counts what was redacted of one kind.
type figure struct{ redacted, all int }

// figures counts by kind.
type figures map[string]*figure

func (f figures) count(kind string, redacted bool) {
	if f[kind] == nil {
		f[kind] = &figure{}
	}
	f[kind].all++
	if redacted {
		f[kind].redacted++
	}
}

// report prints the figures and returns the share that was redacted.
func (f figures) report(t *testing.T, what string) float64 {
	t.Helper()
	kinds := make([]string, 0, len(f))
	sum, full := figure{}, 0
	for kind, n := range f {
		kinds = append(kinds, kind)
		sum.all += n.all
		sum.redacted += n.redacted
		if n.all == n.redacted {
			full++
		}
	}
	sort.Strings(kinds)
	for _, kind := range kinds {
		if n := f[kind]; n.redacted < n.all {
			t.Logf("  %-28s %d of %d", kind, n.redacted, n.all)
		}
	}
	share := float64(sum.redacted) / float64(sum.all)
	t.Logf("%s: %d of %d redacted (%.2f %%); %d of %d kinds completely", what, sum.redacted, sum.all, 100*share, full, len(f))
	return share
}

var classes = map[byte]string{
	'A': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	'U': "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	'B': "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
	'l': "abcdefghijklmnopqrstuvwxyz0123456789",
	'L': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	'h': "0123456789abcdef",
	'd': "0123456789",
	'w': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
	'b': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	'p': "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#%*+@^~", // a password
}

// fill makes a text of a pattern: {A36} is 36 characters of the class A. It also returns the parts that were made, the secret ones.
func fill(r *rand.Rand, pattern string) (text string, parts []string) {
	text = placeholder.ReplaceAllStringFunc(pattern, func(spec string) string {
		n, err := strconv.Atoi(spec[2 : len(spec)-1])
		if err != nil {
			panic(err)
		}
		class := classes[spec[1]]
		made := make([]byte, n)
		for i := range made {
			made[i] = class[r.IntN(len(class))]
		}
		if strings.Contains(class, "5") {
			made[n-1] = '5' // real tokens have digits
		}
		parts = append(parts, string(made))
		return string(made)
	})
	return text, parts
}

var placeholder = regexp.MustCompile(`\{[A-Za-z][0-9]+\}`)

// survives reports whether the larger part of a secret is still in the text.
func survives(got string, parts []string) bool {
	for _, part := range parts {
		if len(part) < 5 {
			continue
		}
		half := (len(part) + 1) / 2
		for i := 0; i+half <= len(part); i++ {
			if strings.Contains(got, part[i:i+half]) {
				return true
			}
		}
	}
	return false
}

// tokenFormats are tokens that are known by their own look.
var tokenFormats = map[string]string{
	"anthropic": "sk-ant-api03-{w93}AA", "openai": "sk-{A20}T3BlbkFJ{A20}", "openai project": "sk-proj-{w74}T3BlbkFJ{w74}", "openrouter": "sk-or-v1-{h64}",
	"github": "ghp_{A36}", "github oauth": "gho_{A36}", "github app": "ghs_{A36}", "github refresh": "ghr_{A36}", "github fine": "github_pat_{A22}_{A59}",
	"gitlab": "glpat-{w20}", "gitlab deploy": "gldt-{w20}", "gitlab runner": "glrt-{w20}", "gitlab trigger": "glptt-{h40}", "gitlab registration": "GR1348941{w20}",
	"aws id": "AKIA{B16}", "aws temporary id": "ASIA{B16}", "alibaba": "LTAI{A20}", "tencent": "AKID{A32}", "bedrock": "ABSK{b120}",
	"google api": "AIza{w35}", "google oauth secret": "GOCSPX-{w28}", "google access": "ya29.{w100}", "google refresh": "1//0{w60}",
	"azure client secret": "{A3}8Q~{w34}", "digitalocean": "dop_v1_{h64}", "digitalocean oauth": "doo_v1_{h64}", "cloudflare origin": "v1.0-{h24}-{h146}",
	"heroku": "HRKU-AA{w58}", "fly": "fo1_{w43}", "netlify": "nfp_{A40}", "docker hub": "dckr_pat_{w27}", "docker org": "dckr_oat_{w32}",
	"openshift": "sha256~{w43}", "vault": "hvs.{w95}", "vault batch": "hvb.{w140}", "terraform": "{A14}.atlasv1.{w65}", "pulumi": "pul-{h40}",
	"doppler": "dp.pt.{A43}", "tailscale": "tskey-auth-{A14}-{A32}", "databricks": "dapi{h32}", "planetscale": "pscale_tkn_{w43}", "planetscale pw": "pscale_pw_{w43}",
	"supabase": "sbp_{h40}", "clickhouse": "4b1d{A38}", "npm": "npm_{A36}", "pypi": "pypi-AgEIcHlwaS5vcmc{w80}", "rubygems": "rubygems_{h48}", "nuget": "oy2{l43}",
	"clojars": "CLOJARS_{l60}", "artifactory": "AKCp{A69}", "artifactory reference": "cmVmdGtu{A56}", "sonar": "squ_{h40}", "atlassian": "ATATT3{w186}",
	"bitbucket": "ATBB{A32}", "buildkite": "bkua_{h40}", "postman": "PMAK-{h24}-{h34}", "prefect": "pnu_{A36}", "readme": "rdme_{l70}", "sentry user": "sntryu_{h64}",
	"harness": "pat.{A22}.{h24}.{A20}", "age": "AGE-SECRET-KEY-1{U58}", "age lower": "age-secret-key-1{l58}", "age quantum": "AGE-SECRET-KEY-PQ-1{U58}", "age plugin": "AGE-PLUGIN-YUBIKEY-1{U40}",
	"doppler service": "dp.st.{A43}", "doppler config": "dp.st.prd_eu.{A43}", "doppler cli": "dp.ct.{A43}", "doppler account": "dp.sa.{A43}", "doppler scim": "dp.scim.{A43}",
	"doppler audit": "dp.audit.{A43}", "figma": "figd_{w40}", "linear": "lin_api_{A40}", "notion": "ntn_{d11}{A35}",
	"notion old": "secret_{A43}", "stripe": "sk_live_{A24}", "stripe restricted": "rk_live_{A24}", "stripe webhook": "whsec_{A32}", "square": "sq0atp-{w22}",
	"square secret": "sq0csp-{w43}", "facebook": "EAAC{A120}", "easypost": "EZAK{A54}", "duffel": "duffel_live_{w43}", "shippo": "shippo_live_{h40}",
	"plaid": "access-production-{h8}-{h4}-{h4}-{h4}-{h12}", "sendgrid": "SG.{w22}.{w43}", "mailgun": "key-{h32}", "brevo": "xkeysib-{h64}-{A16}",
	"mailchimp": "{h32}-us12", "resend": "re_{A8}_{A24}", "twilio": "SK{h32}", "telegram": "{d10}:AA{w33}", "slack bot": "xoxb-{d12}-{d12}-{A24}",
	"slack user": "xoxp-{d12}-{d12}-{d12}-{h32}", "slack app": "xapp-1-{U11}-{d13}-{h64}", "slack cookie": "xoxd-{A40}%2B{A40}",
	"slack hook":   "https://hooks.slack.com/services/T{U8}/B{U8}/{A24}",
	"discord hook": "https://discord.com/api/webhooks/{d18}/{w68}", "grafana service": "glsa_{A32}_{h8}", "grafana cloud": "glc_{b60}",
	"grafana key": "eyJrIjoi{A80}", "new relic": "NRAK-{U27}", "dynatrace": "dt0c01.{U24}.{U64}", "hubspot": "pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}",
	"shopify": "shpat_{h32}", "shopify secret": "shpss_{h32}", "contentful": "CFPAT-{w43}", "typeform": "tfp_{w44}_{w14}", "dropbox": "sl.{w130}",
	"launchdarkly": "sdk-{h8}-{h4}-{h4}-{h4}-{h12}", "hugging face": "hf_{L34}", "groq": "gsk_{A52}", "replicate": "r8_{A37}", "xai": "xai-{A80}",
	"perplexity": "pplx-{A48}", "langsmith": "lsv2_pt_{h32}_{h10}", "nvidia": "nvapi-{w64}", "jwt": "eyJ{A33}.eyJ{A60}.{w43}", "1password": "ops_eyJ{A250}",
	"bcrypt hash": "$2b$12${A53}", "sha512 hash": "$6${A16}${A86}", "yescrypt hash": "$y$j9T${A22}${A43}", "openssh body": "b3BlbnNzaC1rZXktdjE{b50}",
	"rsa body": "MIIEpAIBAAKCAQEA{b48}", "pkcs8 body": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{b32}",
}

// namedFormats are secrets that only a name, an option or the place tells.
var namedFormats = map[string]string{
	"DB_PASS": "DB_PASS={p14}", "MYSQL_PWD": "MYSQL_PWD={p14}", "PGPASSWORD": "PGPASSWORD={p14} psql -h db", "POSTGRES_PASSWORD": "POSTGRES_PASSWORD={A12}",
	"REDIS_PASS": "REDIS_PASS={A16}", "SMTP_PASSWD": "SMTP_PASSWD={A12}", "SECRET_KEY_BASE": "SECRET_KEY_BASE={h128}", "DJANGO_SECRET": "DJANGO_SECRET_KEY={A50}",
	"AWS_SECRET": "AWS_SECRET_ACCESS_KEY={b40}", "aws near": "AKIA{B16} {b40}", "aws csv": "AKIA{B16},{b40}", "API_KEY_2": "API_KEY_2={A32}",
	"TOKEN_B64": "TOKEN_B64={A32}", "dbPass": `dbPass="{A12}"`, "spring": "spring.datasource.password={A12}", "spring pass": "spring.mail.pass={A12}",
	"password option": "--password {A12}", "password option =": "--password={A12}", "pass option": "--db-pass={A12}", "token option": "--api-token {A24}",
	"curl user": "curl -u admin:{A12} https://example.org", "curl long": "curl --user admin:{A12} https://example.org", "curl quoted": "curl -u 'admin:{p12}' https://example.org",
	"wget": "wget --http-password={A12} https://example.org", "any user": "httpie -u admin:{A12} example.org", "mysql": "mysql -h db -u root -p{A12} app",
	"mysqldump": "mysqldump -uroot -p{A12} app", "sshpass": "sshpass -p {A12} ssh host", "mongo": "mongosh -u root -p {A12}", "redis-cli": "redis-cli -h r -a {A12} ping",
	"docker login": "docker login -u me -p {A20} registry.example.org", "ldapsearch": "ldapsearch -x -D cn=admin -w {A12} -b dc=x", "openssl": "openssl rsa -passin pass:{A12} -in k",
	"unzip": "unzip -P {A12} a.zip", "7z": "7z x -p{A12} a.7z", "smbclient": "smbclient //h/s -U user%{A12}", "chpasswd": "echo root:{A12} | chpasswd",
	"htpasswd": "htpasswd -b /etc/nginx/.htpasswd user {A12}", "from literal": "kubectl create secret generic x --from-literal=key={A16}",
	"sql create": "CREATE USER app WITH PASSWORD '{A14}'", "sql identified": "CREATE USER 'a'@'%' IDENTIFIED BY '{A14}'",
	"sql with": "ALTER USER a IDENTIFIED WITH mysql_native_password BY '{A14}'", "netrc": "machine example.org login me password {A14}",
	"npmrc": "//registry.npmjs.org/:_authToken={A36}", "npmrc auth": "_auth={A40}", "url": "postgres://app:{A14}@db:5432/app", "url token": "https://{A40}@github.com/a/b.git",
	"url redis": "redis://:{A16}@cache:6379/0", "amqp": "amqp://guest:{A12}@mq/vhost", "sentry dsn": "https://{h32}@o1.ingest.sentry.io/1",
	"query": "GET /x?access_token={A32}&y=1", "query key": "GET /x?api_key={A32}", "presigned": "https://b.s3.amazonaws.com/k?X-Amz-Signature={h64}",
	"azure account": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={b86}==;EndpointSuffix=core.windows.net",
	"azure bus":     "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={b43}=",
	"azure sas":     "https://a.blob.core.windows.net/c?sv=2022-11-02&sig={A43}%3D",
	"ado.net":       "Server=db;Database=app;User Id=sa;Password={A14};", "jdbc": "jdbc:mysql://db/app?user=root&password={A14}", "libpq": "host=db user=app password={A14} dbname=x",
	"bearer": "Authorization: Bearer {A40}", "basic": "Authorization: Basic {A30}==", "token header": "Authorization: Token {h40}", "proxy header": "Proxy-Authorization: Basic {A24}",
	"api key header": "X-Api-Key: {A32}", "vault header": "X-Vault-Token: {A26}", "cookie": "Cookie: session={A32}; theme=dark", "set-cookie": "Set-Cookie: sid={A32}; Path=/; HttpOnly",
	"session cookie": "Cookie: JSESSIONID={U32}", "private token": "PRIVATE-TOKEN: {w20}",
	"yaml": "  password: {A14}", "yaml letters": "  password: {L14}", "yaml nested": "  db_password: \"{p14}\"", "yaml token": "  bot-token: {A32}", "toml": `secret = "{A20}"`,
	"ini": "password = {A14}", "json": `{"password":"{p14}"}`, "json key": `{"client_secret": "{A32}", "id": 1}`, "json camel": `{"apiKey":"{A32}"}`,
	"json env": `{"name":"DB_PASSWORD","value":"{A14}"}`, "xml": "<password>{A14}</password>", "xml attribute": `<add key="AdminPassword" value="{A14}"/>`, "php": "'password' => '{A14}',",
	"ruby": `:password => "{A14}"`, "go": `token := "{A32}"`, "python": `client_secret='{A32}'`, "prose": "the password is {A12}", "wp": "define( 'DB_PASSWORD', '{A14}' );",
	"PW": "PW={p10}", "DB_PW": "DB_PW={p14}", "dbPw": `dbPw = "{A12}"`, "yaml pw": "  pw: {A12}", "json pw": `{"redis_pw":"{A14}"}`, "pw option": "--pw={A12}",
	"PASS": "PASS={A12}", "PGPASS": "PGPASS={A12}", "SSHPASS": "SSHPASS={A12} ssh host", "STRIPE_KEY": "STRIPE_KEY={A24}", "FERNET_KEY": "FERNET_KEY={w43}=",
	"APP_KEY": "APP_KEY=base64:{b43}=", "json some key": `{"payments_key": "{h32}"}`, "yaml some key": "  mapbox-key: {A30}", "requirepass": "requirepass {A12}",
	"requirepass letters": "CONFIG SET requirepass {L12}", "requirepass option": "redis-server --requirepass {A12}", "masterauth": "masterauth {A12}",
	"config get": "1) \"requirepass\"\n2) \"{L12}\"", "config get raw": "requirepass\n{A14}", "bindpw": "bindpw {A12}", "AUTH": "AUTH {A12}", "AUTH user": "AUTH default {A12}",
	"AUTH prompt": "127.0.0.1:6379> AUTH {L12}", "AUTH client": "redis-cli -h cache auth {L12}", "REDIS_AUTH": "REDIS_AUTH={A16}", "AUTH mail": "AUTH PLAIN {A24}=",
	"pgpass line": "db.example.org:5432:app:app:{A14}", "pgpass wide": "*:*:*:postgres:{A14}",
	"key without beginning": "{b64}\n{b64}\n{b22}==\n-----END OPENSSH PRIVATE KEY-----", "htpasswd line": "admin:$apr1${A8}${A22}", "docker auth": `{"auths":{"r.example.org":{"auth":"{A40}"}}}`,
}

// contexts put a secret where it may be printed.
var contexts = map[string]func(string) string{
	"alone":         func(s string) string { return s },
	"sentence":      func(s string) string { return "found " + s + " in the settings" },
	"log":           func(s string) string { return `2026-03-14T11:02:09Z INFO config loaded value="` + s + `" took=3ms` },
	"json":          func(s string) string { return jsonLine(s) },
	"json lines":    func(s string) string { return jsonLine("first line\n" + s + "\nlast line") },
	"json in json":  func(s string) string { return jsonLine(jsonLine("first\n" + s)) },
	"shell":         func(s string) string { return "$ export X='" + s + "'" },
	"terminal":      func(s string) string { return "\x1b[32m" + s + "\x1b[0m" },
	"terminal json": func(s string) string { return jsonLine("\x1b[1;32m" + s + "\x1b[0m") },
	"list":          func(s string) string { return "a," + s + ",b" },
	"parentheses":   func(s string) string { return "(" + s + ")" },
}

var tokenContexts = map[string]func(string) string{
	"query": func(s string) string { return "https://example.org/?x=" + url.QueryEscape(s) + "&y=1" },
	"html":  func(s string) string { return `<td title="` + html.EscapeString(s) + `">x</td>` },
	"equal": func(s string) string { return "X=" + s },
	"git":   func(s string) string { return "+  value: " + s },
}

func jsonLine(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"type": "user", "text": text, "n": 1}); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}

// sorted returns the keys in order, so that a seed makes the same corpus each time.
func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// TestCorpusOfSecretFormats prints how much of a generated corpus of tokens and assigned secrets is redacted.
func TestCorpusOfSecretFormats(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := redact.New(nil)
	seen := figures{}
	try := func(kind, pattern, place string, context func(string) string) {
		text, parts := fill(rng, pattern)
		line := context(text)
		got := r.String(line)
		left := survives(got, parts)
		seen.count(kind, !left)
		if left && testing.Verbose() && seen[kind].all-seen[kind].redacted == 1 {
			t.Logf("  %s, %s: %s", kind, place, got)
		}
		if json.Valid([]byte(line)) && !json.Valid([]byte(got)) {
			t.Errorf("%s: %s is not JSON any more", kind, got)
		}
	}
	for range 3 {
		for _, kind := range sorted(tokenFormats) {
			for _, place := range sorted(contexts) {
				try(kind, tokenFormats[kind], place, contexts[place])
			}
			for _, place := range sorted(tokenContexts) {
				try(kind, tokenFormats[kind], place, tokenContexts[place])
			}
		}
		for _, kind := range sorted(namedFormats) {
			for _, place := range sorted(contexts) {
				try(kind, namedFormats[kind], place, contexts[place])
			}
		}
	}
	if share := seen.report(t, "secret formats"); share < 0.95 {
		t.Errorf("only %.2f %% were redacted, want 95 %%", 100*share)
	}
}

// configured makes secrets as operators have them.
func configured(rng *rand.Rand) []string {
	var out []string
	for _, pattern := range []string{"{A16}", "{A24}", "{h32}", "{w40}", "{b44}", "{p20}", "{l12}-{l12}", "sk-ant-api03-{w60}", "{p10}&=$ {p6}"} {
		text, _ := fill(rng, pattern)
		out = append(out, text)
	}
	return out
}

func TestCorpusOfConfiguredValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		secrets := configured(rng)
		r := redact.New(secrets)
		for _, secret := range secrets {
			for _, form := range []string{
				secret, url.QueryEscape(secret), url.PathEscape(secret), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
			} {
				for place, context := range contexts {
					if got := r.String(context(form)); strings.Contains(got, form) || strings.Contains(got, secret) {
						t.Errorf("%s: %q is left in %q", place, form, got)
					}
				}
			}
		}
	}
}
