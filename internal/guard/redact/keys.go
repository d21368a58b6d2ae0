package redact

import (
	"strings"

	"claudeops/internal/ops"
)

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

// keyLines matches lines of base64 at the end of a text, their breaks real or escaped.
var keyLines = ops.Pattern(`(?:[A-Za-z0-9+/]{16,}=*(?:\s|\\+[rn])+)+(?:[A-Za-z0-9+/]+=*(?:\s|\\+[rn])+)?$`)

// endOfKey matches the lines of a private key before its end where its beginning was cut off.
func endOfKey(s string, i, j int) (from, to int, ok bool) {
	name, _, found := strings.Cut(s[j:min(len(s), j+keyHeader)], "-----")
	if !found || !strings.Contains(name, "PRIVATE KEY") {
		return 0, 0, false
	}
	from = max(0, i-keyLimit)
	if before := strings.LastIndex(s[from:i], "-----"); before >= 0 {
		from += before
	}
	lines := keyLines().FindStringIndex(s[from:i])
	if lines == nil {
		return 0, 0, false
	}
	return from + lines[0], j + len(name) + len("-----"), true
}
