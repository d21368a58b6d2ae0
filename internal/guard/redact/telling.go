package redact

import "strings"

// tellingLiterals finds secrets by names that need a closer look than assigned takes: they are also parts of ordinary
// words, or the value follows without a sign between.
func tellingLiterals() []literal {
	var out []literal
	for _, c := range []byte("=: \t\"'\\") { // the scanner needs three bytes
		out = append(out, literal{text: "pw" + string(c), fold: true, mark: markPassword, next: afterShortName(c), match: shortWord})
	}
	for _, text := range []string{"_key", "-key"} {
		out = append(out, literal{text: text, fold: true, mark: markToken, match: someKey})
	}
	for _, text := range directives() {
		out = append(out, literal{text: text, fold: true, mark: markPassword, match: directive})
	}
	for _, text := range []string{":5432:", ":5433:", ":6432:", ":*:"} {
		out = append(out, literal{text: text, mark: markPassword, match: pgpass})
	}
	return append(out,
		literal{text: "auth ", fold: true, mark: markPassword, match: authCommand},
		literal{text: keyEnd, mark: markKey, match: endOfKey},
	)
}

// shortWord is assignedShort for a hit that ends with the byte behind the name.
func shortWord(s string, i, j int) (from, to int, ok bool) { return assignedShort(s, i, j-1) }

// afterShortName are the bytes that may stand behind c, which follows a name.
func afterShortName(c byte) func(byte) bool {
	switch c {
	case ' ', '\t':
		return func(next byte) bool { return strings.IndexByte(" \t=:", next) >= 0 }
	case '"', '\'':
		return func(next byte) bool { return strings.IndexByte(" \t=:,)/}\r\n", next) >= 0 }
	case '\\':
		return func(next byte) bool { return strings.IndexByte(`\"'`, next) >= 0 }
	}
	return nil
}

// longValue is the length from which a value goes whatever it looks like, so that no text is looked through again and again.
const longValue = 512

// someKey matches the value of a name that ends in _KEY, if it looks made by chance: STRIPE_KEY, but not sort_key.
func someKey(s string, i, j int) (from, to int, ok bool) {
	const longest = 64
	word := i
	for word > max(0, i-longest) && isAlnum(s[word-1]) && !startsToken(s, word) {
		word--
	}
	if word == i || keyOfData(strings.ToLower(s[word:i])) {
		return 0, 0, false
	}
	from, to, ok = assigned(s, i, j)
	return from, to, ok && (to-from > longValue || byChance(s[from:to]))
}

// keyOfData reports whether the keys of this kind are names or places of something.
func keyOfData(kind string) bool {
	switch kind {
	case "public", "pub", "host", "known", "primary", "foreign", "unique", "sort", "partition", "range", "hash", "row", "cache", "lookup",
		"group", "index", "object", "s3", "routing", "dedup", "dedupe", "deduplication", "idempotency", "translation", "message", "i18n",
		"config", "setting", "sequence", "parent", "join", "surrogate", "websocket", "event", "metric", "label", "field", "column", "item",
		"entry", "state", "lock", "registry", "order", "shard", "natural", "composite", "candidate", "map", "dict", "query", "issue", "project":
		return true
	}
	return false
}

// byChance reports whether a value looks like a key rather than like a word, a path or the name of something.
func byChance(value string) bool {
	value = strings.TrimPrefix(value, "base64:")
	if len(value) < 8 || strings.IndexByte("/.~$%@", value[0]) >= 0 || strings.ContainsAny(value, ": \t") {
		return false
	}
	for _, end := range []string{".pem", ".key", ".crt", ".pub", ".json", ".der", ".p12", ".asc", ".gpg", ".txt", ".yml", ".yaml"} {
		if strings.HasSuffix(value, end) {
			return false
		}
	}
	const long, slug = 20, 24
	hasLower, hasUpper := value != strings.ToUpper(value), value != strings.ToLower(value)
	switch {
	case !needDigit(value):
		return len(value) >= long && hasLower && hasUpper && run(value, 0, isAlnum) == len(value)
	case !hasUpper && len(value) < slug && strings.ContainsAny(value, "-_./"):
		return false // web-1-requests
	}
	return hasLower || hasUpper
}

// directives are the settings whose value is a secret and follows behind a space.
func directives() []string { return []string{"requirepass", "masterauth", "bindpw", "rootpw"} }

// directive matches the value of such a setting: in its file, in CONFIG SET, and on the line below in the answer to CONFIG GET.
func directive(s string, i, j int) (from, to int, ok bool) {
	if i > 0 && isWord(s[i-1]) && !startsToken(s, i) {
		return 0, 0, false
	}
	_, p := quote(s, j)
	if next := lineBreak(s, p); next > p {
		from, to = argument(s, listed(s, next))
		return from, to, beginsLine(s, i) && endsLine(s, to) && worthHiding(s[from:to], '=', false)
	}
	p = spaces(s, p)
	if p == j || p >= len(s) || s[p] == '=' || s[p] == ':' {
		return 0, 0, false
	}
	from, to = argument(s, p)
	if !worthHiding(s[from:to], '=', false) {
		return 0, 0, false
	}
	const command = "config set "
	set := i >= len(command) && strings.EqualFold(s[i-len(command):i], command)
	return from, to, set || beginsLine(s, i) && endsLine(s, to) || to-from >= minSecret && needDigit(s[from:to])
}

// namesDirective reports whether a line is only the name of such a setting, so that the next one is its value.
func namesDirective(line string) bool {
	line = strings.TrimSpace(line)
	line = strings.Trim(line[listed(line, 0):], `"`)
	for _, name := range directives() {
		if strings.EqualFold(line, name) {
			return true
		}
	}
	return false
}

// listed is the place behind the number of an item: 2) "text".
func listed(s string, i int) int {
	if p := run(s, i, isDigit); p > i && strings.HasPrefix(s[p:], ") ") {
		return p + len(") ")
	}
	return i
}

// beginsLine reports whether a line, a string or what a prompt or the name of a file introduces begins at i.
func beginsLine(s string, i int) bool {
	p := i
	for p > 0 && strings.IndexByte(" \t#", s[p-1]) >= 0 {
		p--
	}
	return p == 0 || strings.IndexByte("\n\r\"'`:>$", s[p-1]) >= 0 || escapeEnds(s, p)
}

// escapeEnds reports whether the letter or digit before i ends an escape sequence such as \n.
func escapeEnds(s string, i int) bool { return i > 0 && isAlnum(s[i-1]) && startsToken(s, i) }

// endsLine reports whether a line or a string ends at i.
func endsLine(s string, i int) bool {
	i = spaces(s, i)
	return i >= len(s) || strings.IndexByte("\n\r\"'`\\", s[i]) >= 0
}

// authCommand matches the password in AUTH of Redis, with and without a user, and what follows the mechanism in AUTH of SMTP.
func authCommand(s string, i, j int) (from, to int, ok bool) {
	if i > 0 && isWord(s[i-1]) && !startsToken(s, i) {
		return 0, 0, false
	}
	const near = 200
	before := s[max(0, i-near):i]
	client := max(strings.LastIndex(before, "redis-cli "), strings.LastIndex(before, "valkey-cli "))
	inClient := client >= 0 && !strings.ContainsAny(before[client:], "|;\n")
	if !inClient && s[i:j] != "AUTH " {
		return 0, 0, false
	}
	from, to, p := word(s, j-1)
	second, end, rest := word(s, p)
	switch {
	case isMechanism(s[from:to]):
		return second, end, end-second >= 8 && run(s[second:end], 0, std64) == end-second
	case end > second && endsCommand(s, rest):
		from, to, p = second, end, rest
	}
	value := s[from:to]
	prompted := endsCommand(s, p) && (inClient || strings.HasSuffix(before, "> "))
	return from, to, worthHiding(value, '=', false) && (prompted || len(value) >= minSecret && needDigit(value))
}

// word is the argument behind the spaces at i and the place behind it and its quote.
func word(s string, i int) (from, to, after int) {
	p := spaces(s, i)
	if p == i {
		return i, i, i
	}
	from, to = argument(s, p)
	after = to
	if from > p {
		_, after = quote(s, to)
	}
	return from, to, after
}

func endsCommand(s string, i int) bool {
	return endsLine(s, i) || strings.IndexByte("|;&<>)", s[spaces(s, i)]) >= 0
}

// isMechanism reports whether the word names a way to sign in to a mail server.
func isMechanism(word string) bool {
	switch strings.ToUpper(word) {
	case "PLAIN", "LOGIN", "CRAM-MD5", "DIGEST-MD5", "NTLM", "GSSAPI", "XOAUTH2", "OAUTHBEARER", "EXTERNAL", "SCRAM-SHA-1", "SCRAM-SHA-256":
		return true
	}
	return false
}

// pgpass matches the password in host:port:database:user:password. The hit is the port.
func pgpass(s string, i, j int) (from, to int, ok bool) {
	const longest = 128
	isField := func(c byte) bool { return isWord(c) || c == '.' || c == '*' || c == '/' || c == '$' || c == '@' }
	host := i
	for host > max(0, i-longest) && isField(s[host-1]) && !escapeEnds(s, host) {
		host--
	}
	if host == i {
		return 0, 0, false
	}
	p := j
	for range 2 { // database and user
		end := run(s, p, isField)
		if end == p || end >= len(s) || s[end] != ':' {
			return 0, 0, false
		}
		p = end + 1
	}
	to = run(s, p, func(c byte) bool { return c > ' ' && c != '"' && c != '\'' && c != '\\' && c != '`' })
	return p, to, to > p && !isHonest(s[p:to])
}

// endOfKey matches the lines of a private key before its end where its beginning was cut off.
func endOfKey(s string, i, j int) (from, to int, ok bool) {
	name, _, found := strings.Cut(s[j:min(len(s), j+keyHeader)], "-----")
	if !found || !strings.Contains(name, "PRIVATE KEY") {
		return 0, 0, false
	}
	const leastKeyLine = 16 // where other text stands before it
	from = i
	for least := max(0, i-keyLimit); ; {
		line := breakBefore(s, from)
		start := line
		for start > least && std64(s[start-1]) && !escapeEnds(s, start) {
			start--
		}
		if line == from || start == line || line-start < leastKeyLine && !beginsLine(s, start) {
			break
		}
		from = start
	}
	return from, j + len(name) + len("-----"), from < i
}

// breakBefore returns the place before the line break, real or escaped, and the white space that end at i.
func breakBefore(s string, i int) int {
	p := i
	for p > 0 && strings.IndexByte(" \t", s[p-1]) >= 0 {
		p--
	}
	switch {
	case p > 0 && s[p-1] == '\n':
		p--
		if p > 0 && s[p-1] == '\r' {
			p--
		}
		return p
	case p > 1 && s[p-1] == 'n' && s[p-2] == '\\':
		p -= 2
		for p > 0 && s[p-1] == '\\' {
			p--
		}
		if p > 1 && s[p-1] == 'r' && s[p-2] == '\\' {
			p -= 2
		}
		return p
	}
	return i
}
