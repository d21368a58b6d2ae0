package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/guard/redact"
)

const secret = `s3cr3t/p@ss "w+rd"~ü`

func TestConfiguredSecretsAreTakenOutOfJSONAndURLs(t *testing.T) {
	r := redact.New([]string{secret})
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(string(quoted))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"plain":            secret,
		"JSON":             string(quoted[1 : len(quoted)-1]),
		"JSON inside JSON": string(twice[3 : len(twice)-3]),
		"query":            url.QueryEscape(secret),
		"path":             url.PathEscape(secret),
		"lower percent":    strings.ReplaceAll(url.PathEscape(secret), "%2F", "%2f"),
		"ASCII JSON":       `s3cr3t/p@ss \"w+rd\"~\u00fc`,
		"slashes escaped":  `s3cr3t\/p@ss \"w+rd\"~ü`,
	}
	for name, form := range tests {
		t.Run(name, func(t *testing.T) {
			if got, want := r.String("a "+form+" b"), "a [redacted: secret] b"; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestBase64OfAConfiguredSecretIsTakenOut(t *testing.T) {
	const mark = "[redacted: secret]"
	for _, value := range []string{"correct-horse?>battery", "correct-horse?>batter", "correct-horse?>batte"} {
		r := redact.New([]string{value})
		for _, enc := range []*base64.Encoding{
			base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding,
		} {
			for _, tail := range []string{"", "\n"} {
				text := enc.EncodeToString([]byte(value + tail))
				got := r.String("a: " + text)
				// What is left holds no more than the edge bits of the value.
				if left := strings.TrimPrefix(got, "a: "+mark); left == got || len(left) > 4 {
					t.Errorf("%q became %q", text, got)
				}
			}
		}
	}
}

func TestShortValuesAreIgnored(t *testing.T) {
	if got := redact.New([]string{"", "abc", "12345", " a \n"}).String("abc 12345 a"); got != "abc 12345 a" {
		t.Errorf("got %q", got)
	}
}

func TestOverlappingSecretsLeaveNothingBetweenThem(t *testing.T) {
	r := redact.New([]string{"abcdef123", "def123456", "aaaaaa"})
	for in, want := range map[string]string{
		"xabcdef123456y": "x[redacted: secret]y",
		"aaaaaaaaaaz":    "[redacted: secret]z",
	} {
		if got := r.String(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestEachLineOfASecretOfSeveralLinesIsASecret(t *testing.T) {
	r := redact.New([]string{"first-line-of-it\nsecond-line-of-it\n"})
	for _, in := range []string{"first-line-of-it", "second-line-of-it", `first-line-of-it\nsecond-line-of-it`} {
		if got := r.String(in); strings.Contains(got, "line-of-it") {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

func TestTokenShapes(t *testing.T) {
	const (
		token    = "[redacted: token]"
		password = "[redacted: password]"
	)
	long := strings.Repeat("aB3", 14)
	tests := []struct{ in, want string }{
		{"key sk-ant-api03-" + long + " end", "key " + token + " end"},
		{"sk-" + long, token},
		{`{"a":"x\nsk-` + long + `"}`, `{"a":"x\n` + token + `"}`},
		{"ghp_" + long, token},
		{"gho_" + long + ".", token + "."},
		{"ghs_" + long, token},
		{"github_pat_11" + long + "_" + long, token},
		{"glpat-" + long, token},
		{"xoxb-1234567890-abcdef", token},
		{"AKIAIOSFODNN7EXAMPLE", token},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", token},
		{"Authorization: Bearer abc.def-12345", "Authorization: Bearer " + token},
		{`{\"Authorization\":\"Basic dXNlcjpwYXNz\"}`, `{\"Authorization\":\"Basic ` + token + `\"}`},
		{"postgres://app:pa@ss@db:5432/x", "postgres://app:" + password + "@db:5432/x"},
		{"redis://:hunter2@db", "redis://:" + password + "@db"},
		{"password=hunter2&x=1", "password=" + password + "&x=1"},
		{"DB_PASSWORD=x", "DB_PASSWORD=" + password},
		{"password: hunter2!", "password: " + password},
		{`password = "hunter2"`, `password = "` + password + `"`},
		{"--password hunter2 db", "--password " + password + " db"},
		{"export GITHUB_TOKEN=abc123; ls", "export GITHUB_TOKEN=" + token + "; ls"},
		{"x-api-key: 0123456789abcdef", "x-api-key: " + token},
		{`{"api_key":"a\"b\\","n":1}`, `{"api_key":"` + token + `","n":1}`},
		{`{"text":"{\"token\":\"a\\\"b\",\"n\":1}"}`, `{"text":"{\"token\":\"` + token + `\",\"n\":1}"}`},
		{`{"a":"password='hunter2'"}`, `{"a":"password='` + password + `'"}`},
	}
	r := redact.New(nil)
	for _, tt := range tests {
		if got := r.String(tt.in); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

func TestOrdinaryTextIsLeftAlone(t *testing.T) {
	r := redact.New([]string{"correct-horse-battery"})
	for _, in := range []string{
		"",
		"ok",
		"the risk-management-of-2024-is-a-long-name",
		"disk-usage-0123456789abcdef",
		"a bearer of bad news, the bearer configuration",
		"https://example.org/a?b=c:d@e",
		"http://host:8080/path",
		"password: incorrect",
		"if token == other { token := next() }",
		"the password is in the vault",
		`DB_PASSWORD=$DB_PASSWORD`,
		`{"a":"password=","b":"c"}`,
		`{"a":"token:","b":"c"}`,
		`{"password":null,"token":12345678,"secret":true}`,
		`{"usage":{"input_tokens":12,"cache_read_input_tokens":3},"apiKeySource":"ANTHROPIC_API_KEY"}`,
		"-----BEGIN CERTIFICATE-----MIIB-----END CERTIFICATE-----",
	} {
		if got := r.String(in); got != in {
			t.Errorf("%s\nbecame %s", in, got)
		}
	}
}

func TestPrivateKeys(t *testing.T) {
	r := redact.New(nil)
	body := strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", 4)
	tests := []struct{ in, want string }{
		{
			"a -----BEGIN RSA PRIVATE KEY-----\n" + body + "\n-----END RSA PRIVATE KEY----- b",
			"a [redacted: key] b",
		},
		{
			`{"t":"-----BEGIN PRIVATE KEY-----\n` + body + `\n-----END PRIVATE KEY-----\n"}`,
			`{"t":"[redacted: key]\n"}`,
		},
		{
			`{"t":"{\"k\":\"-----BEGIN PRIVATE KEY-----\\n` + body + `\\n-----END PRIVATE KEY-----\\n\"}"}`,
			`{"t":"{\"k\":\"[redacted: key]\\n\"}"}`,
		},
		{ // only the end was printed
			`{"t":"abcdEFGH1234+/ab\nabcdEFGH1234+/==\n-----END RSA PRIVATE KEY-----\nafter"}`,
			`{"t":"[redacted: key]\nafter"}`,
		},
		{
			"$ tail -3 key\r\n" + body + "\r\nabc=\r\n-----END PRIVATE KEY-----\r\nafter",
			"$ tail -3 key\r\n[redacted: key]\r\nafter",
		},
		{ // as Kubernetes prints it
			"tls.key: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIVATE KEY-----\n"+body+"\n-----END PRIVATE KEY-----\n")) + "\nb",
			"tls.key: [redacted: key]\nb",
		},
		{ // a certificate is no secret
			"tls.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUI=",
			"tls.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUI=",
		},
		{ // cut off by the tool that printed it
			`{"t":"-----BEGIN OPENSSH PRIVATE KEY-----\n` + body + `","u":1}`,
			`{"t":"[redacted: key]","u":1}`,
		},
	}
	for _, tt := range tests {
		if got := r.String(tt.in); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

func TestAKeyPrintedLineByLineIsTakenOutOfEachLine(t *testing.T) {
	st := redact.New(nil).Stream()
	in := []string{"before", "-----BEGIN PRIVATE KEY-----", "MIIEvQIBADAN", "", "BgkqhkiG9w0B", "-----END PRIVATE KEY-----", "after"}
	want := []string{"before", "[redacted: key]", "[redacted: key]", "[redacted: key]", "[redacted: key]", "[redacted: key]", "after"}
	for i, line := range in {
		if got := st.Line(line); got != want[i] {
			t.Errorf("%q: got %q, want %q", line, got, want[i])
		}
	}
	if got := st.Line("-----BEGIN PRIVATE KEY-----"); got != "[redacted: key]" {
		t.Errorf("got %q", got)
	}
	if got := st.Line(`{"type":"system"}`); got != `{"type":"system"}` {
		t.Errorf("an event ends the key, got %q", got)
	}
}

func TestALineOfJSONStaysOne(t *testing.T) {
	r := redact.New([]string{"nabcdef", `abcdef\`, "e9abcd", "12345678", `","other`, "hunter22"})
	for _, in := range []string{
		`{"a":"x\nabcdef"}`,
		`{"a":"xabcdef\""}`,
		`{"a":"x\u00e9abcd"}`,
		`{"a":"x","n":12345678}`,
		`{"a":"x","other":1}`,
		`{"a":"hunter22","password":"\u0041\\"}`,
		`["hunter22"]`,
	} {
		if !json.Valid([]byte(in)) {
			t.Fatalf("%s is no JSON", in)
		}
		got := r.String(in)
		if got == in || !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func TestHostileLinesTakeLinearTime(t *testing.T) {
	r := redact.New([]string{"aaaaaaaa", "hunter22"})
	for _, piece := range []string{
		"sk-", "eyJ", "://", "password=", "password:", "token='", `token="`, `\"token\":\"`, "authorization=", "bearer ",
		"-----BEGIN PRIVATE KEY-----", `-----BEGIN PRIVATE KEY-----"`, "-----BEGIN PRIVATE KEY-----END ", `\`, "a", "--password ",
		"ghp_", ".eyJaaaaaa", "passwordtoken=", "://u:p", "hunter22",
		"glpat-", "xoxb-", ".webhook.office.com/webhookb2/", "mysql -p", "curl -u a:b ", "cookie: a=", "LS0tLS1CRUdJTi", "AKIA", "_password_",
		"define('password',", "htpasswd -b a ", "chpasswd|:", "PuTTY-User-Key-File-", "<password>",
		"-----END PRIVATE KEY-----", `abcd\n-----END PRIVATE KEY-----`, "requirepass ", "requirepass\\n", "AUTH a ", "redis-cli auth ", "pw=", "a_key=", "auth=", "a:5432:", "*:*:",
	} {
		// Eight times the text may take eight times as long; where the time is that of every pair of places, it is 64 times.
		short, long := time.Duration(0), time.Hour
		for tries := 0; tries < 5 && long > 24*short+20*time.Millisecond; tries++ {
			short, long = max(short, timeOf(t, r, piece, 32<<10)), min(long, timeOf(t, r, piece, 256<<10))
		}
		if long > 24*short+20*time.Millisecond {
			t.Errorf("32 KiB of %q take %v, 256 KiB take %v", piece, short, long)
		}
	}
}

// timeOf is the processor time that a text takes which consists of one piece.
func timeOf(t *testing.T, r *redact.Redactor, piece string, length int) time.Duration {
	t.Helper()
	line := strings.Repeat(piece, length/len(piece))
	before := cpu(t)
	r.String(line)
	return cpu(t) - before
}

// cpu is the processor time this process has used.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func FuzzString(f *testing.F) {
	f.Add("hunter22", "{\"a\":\"", "\"}", 0)
	f.Add("nabcdef", "{\"a\":\"\\", "\"}", 0)
	f.Add("12345678", "{\"a\":", "}", 1)
	f.Add(`a"b\c/dü`, "x", "y", 4)
	f.Fuzz(func(t *testing.T, value, before, after string, how int) {
		trimmed := strings.TrimSpace(value)
		if len(trimmed) < 6 || len(value) > 200 || strings.ContainsAny(value, "[]") || partOfAMark(trimmed) {
			t.Skip()
		}
		quoted, err := json.Marshal(trimmed)
		if err != nil {
			t.Skip()
		}
		forms := []string{
			trimmed,
			string(quoted[1 : len(quoted)-1]),
			url.QueryEscape(trimmed),
			url.PathEscape(trimmed),
			base64.StdEncoding.EncodeToString([]byte(trimmed)),
			base64.RawURLEncoding.EncodeToString([]byte(trimmed)),
		}
		form := forms[uint(how)%uint(len(forms))]
		line := before + form + after
		got := redact.New([]string{value}).String(line)
		if strings.Contains(got, trimmed) {
			t.Fatalf("the secret %q survives in %q", trimmed, got)
		}
		if core := strings.TrimRight(form, "="); len(core) >= 9 && strings.Contains(got, core) && !partOfAMark(core) {
			t.Fatalf("the form %q survives in %q", core, got)
		}
		if json.Valid([]byte(line)) && !json.Valid([]byte(got)) {
			t.Fatalf("%s became %s, which is no JSON", line, got)
		}
	})
}

// partOfAMark reports whether what is put in place of a secret holds it by itself.
func partOfAMark(s string) bool {
	for _, mark := range []string{
		`{"type":"redacted","text":"[redacted: secret]"}`,
		"[redacted: token]", "[redacted: key]", "[redacted: password]",
	} {
		if strings.Contains(mark, s) {
			return true
		}
	}
	return false
}
