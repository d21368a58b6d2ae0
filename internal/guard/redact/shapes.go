package redact

import (
	"encoding/base64"
	"strings"
)

// shapes are the beginnings of common credentials, each with the rule that tells one from a word
// that merely begins alike.
func shapes() []literal {
	out := []literal{
		{text: "AKIA", mark: markToken, each: accessKey},
		{text: "ASIA", mark: markToken, each: accessKey},
		{text: "eyJ", mark: markToken, match: jwt},
		{text: "eyJrIjoi", mark: markToken, match: tokenShape{parts: open(std64, 40)}.match},
		{text: "bearer", fold: true, mark: markToken, match: bearer},
		{text: "authorization", fold: true, mark: markToken, match: authorization},
		{text: "cookie", fold: true, mark: markToken, match: cookie},
		{text: "-----BEGIN ", mark: markKey, match: privateKey},
		{text: "LS0tLS1CRUdJTi", mark: markKey, match: encodedKey},
		{text: "PuTTY-User-Key-File-", mark: markKey, match: puttyKey},
		{text: "://", mark: markPassword, match: urlPassword},
	}
	for _, t := range tokenShapes() {
		out = append(out, t.literal())
	}
	for _, n := range names() {
		out = append(out, n.literal())
	}
	return append(append(out, tellingLiterals()...), commandLiterals()...)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool   { return isDigit(c) || 'a' <= c|caseBit && c|caseBit <= 'f' }
func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
func isWord(c byte) bool       { return isAlnum(c) || c == '_' || c == '-' }
func isUpperDigit(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' }
func isCredential(c byte) bool { return isWord(c) || strings.IndexByte("._~+/=", c) >= 0 }

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
	return isAlnum(s[i-1]) && startsToken(s, i)
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
	keyHead   = 4 << 10 // before the private part of a key file
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
	return i, body + run(rest, 0, isKeyText), true
}

func isKeyText(c byte) bool {
	return isAlnum(c) || c >= 0x80 || strings.IndexByte("+/=-\\ \t\r\n:,.", c) >= 0
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
		// A token as the name of the user.
		return j, j + at, at >= 16 && needDigit(authority[:at])
	}
	return j + colon + 1, j + at, true
}

// accessKey matches the id of an AWS access key and, where it follows, the key.
func accessKey(s string, i, j int, add func(from, to int)) {
	id := tokenShape{parts: exact(isUpperDigit, 16), digit: s[i] == 'A' && s[i+1] == 'S'}
	_, to, ok := id.match(s, i, j)
	if !ok {
		return
	}
	add(i, to)
	const near, length = 160, 40
	end := min(len(s), to+near)
	for p := to; p < end; p++ {
		if !std64(s[p]) {
			continue
		}
		q := run(s, p, std64)
		for q-p > length && (s[p] == '=' || s[p] == '/') {
			p++
		}
		if value := s[p:q]; len(value) == length && needDigit(value) && strings.ContainsAny(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ/+") {
			add(p, q)
			return
		}
		p = q
	}
}

// cookie matches the values of a Cookie header, and the first value of a Set-Cookie header.
func cookie(s string, i, j int) (from, to int, ok bool) {
	_, p := quote(s, j)
	p = spaces(s, p)
	if p >= len(s) || s[p] != ':' && s[p] != '=' && (s[p] != ' ' || !isOption(s, i)) {
		return 0, 0, false
	}
	_, p = quote(s, spaces(s, p+1))
	to = run(s, p, func(c byte) bool { return c >= ' ' && strings.IndexByte("\"'\\<>|`", c) < 0 })
	equals := strings.IndexByte(s[p:to], '=')
	if equals < 1 || strings.ContainsAny(s[p:p+equals], " ,") {
		return 0, 0, false
	}
	if i >= 4 && strings.EqualFold(s[i-4:i], "set-") {
		if semicolon := strings.IndexByte(s[p:to], ';'); semicolon > 0 {
			to = p + semicolon
		}
	}
	p += equals + 1
	return p, to, to-p >= 4
}

// puttyKey matches a key file of PuTTY.
func puttyKey(s string, i, _ int) (from, to int, ok bool) {
	const private = "Private-Lines:"
	text := s[i:min(len(s), i+keyHead)]
	at := strings.Index(text, private)
	if at < 0 {
		return 0, 0, false
	}
	from = i + at + len(private)
	return from, run(s, from, isKeyText), true
}

// encodedKey matches a PEM block in base64, as Kubernetes and CI systems print it: on one line. The hit is what all blocks begin with.
func encodedKey(s string, i, _ int) (from, to int, ok bool) {
	const head = 64 // enough for the name of the block
	text := s[i:min(len(s), i+head)]
	text = text[:run(text, 0, std64)/4*4]
	plain, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || !strings.Contains(string(plain), "PRIVATE KEY") {
		return 0, 0, false
	}
	return i, run(s, i, std64), true
}

// lineBreak returns the place behind a line break, real or escaped, and the white space around it.
func lineBreak(s string, i int) int {
	p, seen := i, false
	for p < len(s) {
		switch s[p] {
		case '\n', '\r':
			seen = true
			p++
		case ' ', '\t':
			p++
		case '\\':
			q := run(s, p, func(c byte) bool { return c == '\\' })
			if q < len(s) && (s[q] == 'n' || s[q] == 'r' || s[q] == 't') {
				seen = seen || s[q] != 't'
				q++
			} else if q >= len(s) || s[q] != '\n' {
				return i
			}
			p = q
		default:
			if seen {
				return p
			}
			return i
		}
	}
	return i
}
