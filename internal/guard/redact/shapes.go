package redact

import "strings"

// shapes are the beginnings of common credentials, each with the rule that tells one from a word
// that merely begins alike.
func shapes() []literal {
	token := func(text string, match func(string, int, int) (int, int, bool)) literal {
		return literal{text: text, mark: markToken, match: match}
	}
	out := []literal{
		token("sk-", word(16, isWord, needDigit)),
		token("github_pat_", word(20, isWord, anything)),
		token("glpat-", word(16, isWord, anything)),
		token("AKIA", word(16, isUpperDigit, anything)),
		token("ASIA", word(16, isUpperDigit, needDigit)),
		token("AIza", word(30, isWord, anything)),
		token("eyJ", jwt),
		{text: "bearer", fold: true, mark: markToken, match: bearer},
		{text: "authorization", fold: true, mark: markToken, match: authorization},
		{text: "-----BEGIN ", mark: markKey, match: privateKey},
		{text: "://", mark: markPassword, match: urlPassword},
	}
	for _, kind := range "pousr" {
		out = append(out, token("gh"+string(kind)+"_", word(20, isAlnum, anything)))
	}
	for _, kind := range "abeprs" {
		out = append(out, token("xox"+string(kind)+"-", word(10, isWord, anything)))
	}
	for _, name := range []string{"password", "passwd", "passphrase"} {
		out = append(out, literal{text: name, fold: true, mark: markPassword, match: assigned})
	}
	for _, name := range []string{
		"token", "secret", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey",
		"secret_key", "secretkey", "private_key", "encryption_key", "signing_key", "auth_key", "master_key",
	} {
		out = append(out, literal{text: name, fold: true, mark: markToken, match: assigned})
	}
	return out
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
func isWord(c byte) bool       { return isAlnum(c) || c == '_' || c == '-' }
func isUpperDigit(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' }
func isCredential(c byte) bool { return isWord(c) || strings.IndexByte("._~+/=", c) >= 0 }

func anything(string) bool    { return true }
func needDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

// run returns where the bytes of one class that begin at i end.
func run(s string, i int, class func(byte) bool) int {
	for i < len(s) && class(s[i]) {
		i++
	}
	return i
}

// startsWord reports whether a word begins at i: nothing of a word stands before it, or only the
// letter of an escape such as \n.
func startsWord(s string, i int) bool {
	if i == 0 || !isWord(s[i-1]) {
		return true
	}
	return strings.IndexByte("nrtbf", s[i-1]) >= 0 && backslashes(s, i-1)%2 == 1
}

// word matches a token of one class that is at least least bytes long behind its beginning.
func word(least int, class func(byte) bool, more func(string) bool) func(string, int, int) (int, int, bool) {
	return func(s string, i, j int) (int, int, bool) {
		if !startsWord(s, i) {
			return 0, 0, false
		}
		end := run(s, j, class)
		return i, end, end-j >= least && more(s[j:end])
	}
}

// jwt matches two or three parts of base64 between dots.
func jwt(s string, i, j int) (from, to int, ok bool) {
	if !startsWord(s, i) {
		return 0, 0, false
	}
	header := run(s, j, isWord)
	if header-j < 5 || header >= len(s) || s[header] != '.' {
		return 0, 0, false
	}
	claims := run(s, header+1, isWord)
	if claims-header < 6 {
		return 0, 0, false
	}
	if claims < len(s) && s[claims] == '.' {
		return i, run(s, claims+1, isWord), true
	}
	return i, claims, true
}

// bearer matches the credential behind the word.
func bearer(s string, i, j int) (from, to int, ok bool) {
	from = spaces(s, j)
	if from == j {
		if !strings.HasPrefix(s[j:], "%20") {
			return 0, 0, false
		}
		from = j + len("%20")
	}
	to = run(s, from, isCredential)
	value := s[from:to]
	long := len(value) >= 20 || len(value) >= 8 && needDigit(value)
	return from, to, long && startsWord(s, i)
}

// authorization matches the last word of an Authorization header, whatever its scheme.
func authorization(s string, _, j int) (from, to int, ok bool) {
	_, p := quote(s, j)
	p = spaces(s, p)
	if p >= len(s) || s[p] != ':' && s[p] != '=' {
		return 0, 0, false
	}
	_, p = quote(s, spaces(s, p+1))
	if scheme := run(s, p, isAlnum); scheme < len(s) && s[scheme] == ' ' {
		p = spaces(s, scheme)
	}
	to = run(s, p, isCredential)
	return p, to, to-p >= minSecret
}

const (
	keyEnd    = "-----END "
	keyLimit  = 64 << 10
	keyHeader = 48
)

// privateKey matches a PEM block, its line breaks real or escaped. A block without an end is taken
// as far as it looks like one.
func privateKey(s string, i, j int) (from, to int, ok bool) {
	head := s[j:min(len(s), j+keyHeader)]
	name, _, found := strings.Cut(head, "-----")
	if !found || !strings.Contains(name, "PRIVATE KEY") {
		return 0, 0, false
	}
	body := j + len(name) + len("-----")
	rest, end := keyText(s[body:min(len(s), body+keyLimit)])
	if end >= 0 {
		tail := rest[end+len(keyEnd):]
		if dashes := strings.Index(tail, "-----"); dashes >= 0 && dashes < keyHeader {
			return i, body + end + len(keyEnd) + dashes + len("-----"), true
		}
	}
	return i, body + run(rest, 0, func(c byte) bool {
		return isAlnum(c) || c >= 0x80 || strings.IndexByte("+/=-\\ \t\r\n:,.", c) >= 0
	}), true
}

// keyText cuts s before the quote that would end a JSON string, unless the end of the key stands
// before it, and returns where that is, or -1.
func keyText(s string) (text string, end int) {
	for from := 0; ; {
		to := len(s)
		if quote := strings.IndexByte(s[from:], '"'); quote >= 0 {
			to = from + quote
		}
		if end := strings.Index(s[from:to], keyEnd); end >= 0 {
			return s, from + end
		}
		if to == len(s) || backslashes(s, to)%2 == 0 {
			return s[:to], -1
		}
		from = to + 1
	}
}

const urlLimit = 512

// urlPassword matches the password of scheme://user:password@host.
func urlPassword(s string, _, j int) (from, to int, ok bool) {
	authority := s[j:min(len(s), j+urlLimit)]
	if end := strings.IndexAny(authority, "/?#\"'\\<> \t\r\n`"); end >= 0 {
		authority = authority[:end]
	}
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return 0, 0, false
	}
	colon := strings.IndexByte(authority[:at], ':')
	if colon < 0 {
		return 0, 0, false
	}
	return j + colon + 1, j + at, true
}
