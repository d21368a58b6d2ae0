package redact

import (
	"strings"

	"claudeops/internal/ops"
)

// assigned matches the value that is given to a name such as password or api_key: name=value,
// name: value, "name":"value" at any depth of JSON strings in JSON strings, --name value,
// <name>value</name>, "name":"PASSWORD","value":"…" and NAME 'value'.
func assigned(s string, i, j int) (from, to int, ok bool) {
	if j < len(s) && letters(s[j]) {
		return 0, 0, false // tokens, secretName
	}
	closed, p := quote(s, nameEnd(s, j))
	p = spaces(s, p)
	if p >= len(s) {
		return 0, 0, false
	}
	sep := s[p]
	switch {
	case sep == ':' || sep == '=':
		p++
		if p < len(s) && (s[p] == '=' || s[p] == '>') {
			if s[p] == '=' && sep == '=' {
				return 0, 0, false // a comparison
			}
			p++
		}
	case closed < 0 && p > j && isOption(s, i):
		sep = ' '
	case sep == '>' && closed < 0:
		return element(s, i, p+1)
	case closed < 0 && p > j:
		return afterName(s, j, p)
	default:
		return namedValue(s, p)
	}
	return assignedValue(s, p, sep, closed, i)
}

// assignedValue matches the value behind the separator.
func assignedValue(s string, p int, sep byte, closed, name int) (from, to int, ok bool) {
	spaced := p < len(s) && (s[p] == ' ' || s[p] == '\t')
	p = spaces(s, p)
	if strings.HasPrefix(s[p:], "%22") || strings.HasPrefix(s[p:], "%27") {
		p += len("%22")
	}
	opened, start := quote(s, p)
	switch {
	case opened >= 0 && closed >= 0 && opened != closed:
		return 0, 0, false
	case opened >= 0 && closed < 0 && endsJSONString(s, start):
		return 0, 0, false
	case opened >= 0:
		to = quotedEnd(s, start, opened, s[start-1])
		return start, to, !isVariable(s[start:to]) && !isHonest(s[start:to])
	case closed >= 0:
		return 0, 0, false // a number, true, false or null
	}
	to = run(s, p, isBareValue)
	if p < to && (s[p] == '?' || s[p] == '+') && inExpansion(s, name) {
		return 0, 0, false
	}
	if spaced && to < len(s) && (s[to] == '(' || s[to] == '{') {
		return 0, 0, false // code that calls something
	}
	if sep == ':' && spaced && isDocument(s, name, to) {
		return p, to, to-p >= 4 && !isVariable(s[p:to]) && !isHonest(s[p:to])
	}
	return p, to, worthHiding(s[p:to], sep, spaced)
}

// inExpansion reports whether the name at i belongs to ${NAME:?message} in a shell.
func inExpansion(s string, i int) bool {
	const longest = 64
	for from := max(0, i-longest); i > from && isWord(s[i-1]); i-- {
	}
	return i > 1 && s[i-1] == '{' && s[i-2] == '$'
}

// nameEnd is where the name ends that the hit before j begins: PASSWORD_2, SECRET_B64.
func nameEnd(s string, j int) int {
	if j >= len(s) || s[j] != '_' && !isDigit(s[j]) {
		return j
	}
	for _, suffix := range []string{"_base64", "_b64", "_value", "_plain", "_raw", "_old", "_new"} {
		if end := j + len(suffix); end <= len(s) && strings.EqualFold(s[j:end], suffix) {
			return end
		}
	}
	p := j
	if p+1 < len(s) && s[p] == '_' {
		p++
	}
	if end := run(s, p, isDigit); end > p {
		return end
	}
	return j
}

// element matches the text of <name>text</name>.
func element(s string, i, p int) (from, to int, ok bool) {
	for i > 0 && (isWord(s[i-1]) || s[i-1] == ':' || s[i-1] == '.') {
		i--
	}
	if i == 0 || s[i-1] != '<' {
		return 0, 0, false
	}
	end := strings.IndexByte(s[p:min(len(s), p+keyLimit)], '<')
	if end <= 0 {
		return 0, 0, false
	}
	return p, p + end, strings.TrimSpace(s[p:p+end]) != ""
}

// afterName matches what follows a name and a space: PASSWORD 'text' in SQL, "the password is x1!".
func afterName(s string, j, p int) (from, to int, ok bool) {
	if depth, start := quote(s, p); depth >= 0 && s[start-1] == '\'' && start < len(s) && s[start] > ' ' {
		return start, quotedEnd(s, start, depth, '\''), true
	}
	if !strings.HasPrefix(s[p:], "is ") || j == p {
		return 0, 0, false
	}
	_, p = quote(s, p+len("is "))
	to = run(s, p, isBareValue)
	value := strings.TrimRight(s[p:to], ".")
	return p, p + len(value), len(value) >= minSecret && needDigit(value)
}

// namedValue matches the value where the name is a value itself: "name": "DB_PASSWORD", "value": "x", and the same in YAML and XML.
func namedValue(s string, p int) (from, to int, ok bool) {
	next := valueBehind().FindStringIndex(s[p:min(len(s), p+windowFront)])
	if next == nil {
		return 0, 0, false
	}
	closed, p := quote(s, p+next[1])
	p = spaces(s, p)
	if p >= len(s) || s[p] != ':' && s[p] != '=' {
		return 0, 0, false
	}
	return assignedValue(s, p+1, '=', closed, p)
}

// valueBehind matches what leads from such a name to its value.
var valueBehind = ops.Pattern(`^[,\s}]*(?:\\+[nrt]\s*)*\\*["']?(?i:value)`)

// isDocument reports whether name and value are a line of an indented document such as YAML. The value ends at to.
func isDocument(s string, name, to int) bool {
	if to < len(s) && s[to] != '"' && !lineEnds(s, to) {
		return false
	}
	p := name
	for p > 0 && isWord(s[p-1]) && !startsToken(s, p) || p > 0 && (s[p-1] == '_' || s[p-1] == '-') {
		p--
	}
	return p >= 2 && s[p-1] == ' ' && (s[p-2] == ' ' || s[p-2] == '-')
}

// lineEnds reports whether only punctuation stands between p and the end of the line.
func lineEnds(s string, p int) bool {
	for ; p < len(s); p++ {
		if s[p] == '\n' || s[p] == '\\' && p+1 < len(s) && s[p+1] == 'n' {
			return true
		}
		if isAlnum(s[p]) {
			return false
		}
	}
	return true
}

func spaces(s string, i int) int {
	return run(s, i, func(c byte) bool { return c == ' ' || c == '\t' })
}

// quote returns the number of backslashes before the quote at i and the place behind it, or -1 and
// i when no quote is there.
func quote(s string, i int) (depth, after int) {
	p := run(s, i, func(c byte) bool { return c == '\\' })
	if p < len(s) && (s[p] == '"' || s[p] == '\'') {
		return p - i, p + 1
	}
	return -1, i
}

// endsJSONString reports whether the quote before i closes a JSON string instead of opening a value.
func endsJSONString(s string, i int) bool {
	return i >= len(s) || strings.IndexByte(",}]: \t\r\n", s[i]) >= 0
}

// quotedEnd finds the quote that closes a value that was opened with depth backslashes.
func quotedEnd(s string, i, depth int, with byte) int {
	for p := i; p < len(s); p++ {
		if s[p] != with && s[p] != '"' {
			continue
		}
		n := min(backslashes(s, p), p-i)
		if n < depth || n%(2*(depth+1)) == depth {
			return p - min(n, depth)
		}
	}
	return len(s)
}

// isOption reports whether the name at i belongs to a command line option.
func isOption(s string, i int) bool {
	const longest = 64
	from := max(0, i-longest)
	word := i
	for word > from && isWord(s[word-1]) {
		word--
	}
	at := strings.Index(s[word:i], "--")
	return at == 0 || at > 0 && startsToken(s, word+at)
}

func isBareValue(c byte) bool {
	return c > ' ' && strings.IndexByte("\"'\\&,;<>()[]{}|`", c) < 0
}

// worthHiding tells a value from prose and from the name of a variable.
func worthHiding(value string, sep byte, spaced bool) bool {
	switch {
	case value == "" || isVariable(value) || isHonest(value):
		return false
	case sep == '=' && !spaced:
		return true
	case sep == ' ':
		return value[0] != '-'
	}
	return len(value) >= minSecret && strings.ContainsFunc(value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '_'
	})
}

// isVariable reports whether the value only names a shell variable.
func isVariable(value string) bool {
	name, ok := strings.CutPrefix(value, "$")
	return ok && run(name, 0, func(c byte) bool { return isUpperDigit(c) || c == '_' }) == len(name)
}

// assignedShort is assigned for names that are also ordinary words or parts of them.
func assignedShort(s string, i, j int) (from, to int, ok bool) {
	if i > 0 && isAlnum(s[i-1]) && (s[i] < 'A' || s[i] > 'Z' || s[i-1] < 'a' || s[i-1] > 'z') && !startsToken(s, i) {
		return 0, 0, false // bypass, compass; but dbPass
	}
	p := j
	for p < len(s) && (s[p] == '\\' || s[p] == '"' || s[p] == '\'') {
		p++
	}
	quoted := p > j
	prefixed := i > 0 && (s[i-1] == '_' || s[i-1] == '-' || s[i-1] == '.' || isAlnum(s[i-1]) && !startsToken(s, i))
	if !quoted && !prefixed && !separated(s, i, j) {
		return 0, 0, false
	}
	from, to, ok = assigned(s, i, j)
	if !ok {
		return 0, 0, false
	}
	value := s[from:to]
	if strings.EqualFold(s[i:j], "pwd") && value[0] == '/' || isHonest(value) {
		return 0, 0, false // the working folder
	}
	switch name := s[i:j]; {
	case len(value) > longValue:
		return from, to, true
	case strings.HasSuffix(name, "auth") && prefixed && name[0] != '_':
		return from, to, len(value) >= minSecret && needDigit(value)
	case strings.HasSuffix(name, "auth") || name == "sig":
		return from, to, len(value) >= 12 && needDigit(value)
	}
	return from, to, len(value) >= 3
}

// separated reports whether a short name that is a word by itself, s[i:j], is followed by a value: PASS=x, pw = x, and pass: x
// as a line of its own, but not --- PASS: TestName.
func separated(s string, i, j int) bool {
	p := spaces(s, j)
	if p >= len(s) || s[p] == '=' {
		return p < len(s)
	}
	if s[p] != ':' || s[i:j] == "PASS" {
		return false
	}
	from := spaces(s, p+1)
	to := run(s, from, isBareValue)
	return strings.EqualFold(s[i:j], "pw") || beginsLine(s, i) && endsLine(s, to) && needDigit(s[from:to]) && run(s, from, isDigit) < to
}

// beginsLine reports whether a line, a string or what a prompt or the name of a file introduces begins at i.
func beginsLine(s string, i int) bool {
	p := i
	for p > 0 && strings.IndexByte(" \t#", s[p-1]) >= 0 {
		p--
	}
	return p == 0 || strings.IndexByte("\n\r\"'`:>$", s[p-1]) >= 0 || isAlnum(s[p-1]) && startsToken(s, p)
}

// endsLine reports whether a line or a string ends at i.
func endsLine(s string, i int) bool {
	i = spaces(s, i)
	return i >= len(s) || strings.IndexByte("\n\r\"'`\\", s[i]) >= 0
}

// isHonest reports whether the value is one of the words that stand behind such names without being a secret: how to sign in,
// and what came of it.
func isHonest(value string) bool {
	const longest = 24
	if len(value) > longest {
		return false
	}
	switch strings.ToLower(strings.TrimRight(value, ".!:?")) {
	case "true", "false", "yes", "no", "none", "null", "nil", "on", "off", "basic", "bearer", "digest", "peer", "trust", "scram-sha-256",
		"md5", "sha256", "ldap", "ldaps", "oidc", "saml", "oauth", "oauth2", "kerberos", "gssapi", "pam", "jwt", "anonymous", "required",
		"optional", "enabled", "disabled", "passed", "pass", "fail", "failed", "failure", "failing", "refused", "denied", "rejected", "declined",
		"accepted", "granted", "allowed", "forbidden", "unauthorized", "blocked", "ok", "success", "succeeded", "successful", "error", "errors",
		"timeout", "unavailable", "unreachable", "incorrect", "invalid", "valid", "wrong", "missing", "expired", "revoked", "changed",
		"unchanged", "unset", "empty", "unknown", "undefined", "string", "object", "mismatch", "rotated", "pending", "skipped",
		"not", "is", "was", "has":
		return true
	}
	return false
}
