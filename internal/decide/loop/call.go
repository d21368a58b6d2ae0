package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"claudeops/internal/ops"
)

const (
	threshold   = 0.75
	longestText = 200      // of a normalized call
	longestRead = 64 << 10 // of the arguments; more is told apart by its digest
	digestSize  = 8
)

// call is a tool call as it is compared.
type call struct {
	tool    string
	text    string // normalized
	tokens  map[string]bool
	writes  bool // it writes a text
	waits   bool // it lets time pass first: whoever asks again after a wait is polling
	display string
}

// comments are arguments in which a model says what it does; they do not change what is done.
func comments() []string { return []string{"description", "explanation", "justification"} }

// contents are arguments that hold a text to be written.
func contents() []string {
	return []string{"content", "contents", "old_string", "new_string", "edits", "patch", "file_text", "new_str", "old_str"}
}

func parse(tool, args string) call {
	text, shown, writes := canonical(args)
	c := call{tool: strings.ToLower(tool), writes: writes, display: strings.TrimSpace(tool + " " + ops.First(shown, longestText))}
	c.text = normalize(text)
	c.tokens = map[string]bool{}
	for _, t := range tokens(c.text) {
		c.tokens[t] = true
		c.waits = c.waits || t == "sleep"
	}
	return c
}

// canonical writes JSON arguments as plain text, keys sorted and comments dropped; other text stays as it is. Shown are the
// values alone.
func canonical(args string) (text, shown string, writes bool) {
	dec := json.NewDecoder(strings.NewReader(args))
	dec.UseNumber()
	var object map[string]any
	if dec.Decode(&object) != nil || dec.More() || object == nil {
		return args, args, false
	}
	for _, key := range comments() {
		delete(object, key)
	}
	writes = slices.ContainsFunc(contents(), func(key string) bool { _, ok := object[key]; return ok })
	var all, values strings.Builder
	flatten(object, &all, &values)
	return strings.TrimSpace(all.String()), strings.TrimSpace(values.String()), writes
}

func flatten(value any, all, values *strings.Builder) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all.WriteString(key + " ")
			flatten(v[key], all, values)
		}
	case []any:
		for _, item := range v {
			flatten(item, all, values)
		}
	default:
		text := fmt.Sprint(v) + " "
		all.WriteString(text)
		values.WriteString(text)
	}
}

// Compiled once; read only.
var (
	uuids      = ops.Pattern(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	timestamps = ops.Pattern(
		`\b\d{4}-\d{2}-\d{2}(?:[t ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:z|[+-]\d{2}:?\d{2})?)?\b|\b\d{2}:\d{2}:\d{2}(?:[.,]\d+)?\b`,
	)
	hexIDs  = ops.Pattern(`\b(?:0x)?[0-9a-f]{7,}\b`)
	numbers = ops.Pattern(`\d{6,}`)
)

func normalize(text string) string {
	rest := ""
	if len(text) > longestRead {
		rest, text = text[longestRead:], text[:longestRead]
	}
	text = strings.ToLower(strings.ToValidUTF8(text, "?"))
	text = timestamps().ReplaceAllString(text, "<time>")
	text = uuids().ReplaceAllString(text, "<uuid>")
	text = hexIDs().ReplaceAllStringFunc(text, func(s string) string {
		if strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdef") {
			return "<hex>"
		}
		return s // a word, or a number
	})
	text = numbers().ReplaceAllString(text, "<number>")
	if utf8.RuneCountInString(text) <= longestText && rest == "" {
		return text
	}
	// What is cut off still tells two calls apart.
	sum := sha256.Sum256([]byte(text + rest))
	return ops.First(text, longestText-digestSize-2) + " #" + hex.EncodeToString(sum[:])[:digestSize]
}

// tokens splits a normalized text at blanks and JSON punctuation; a path, URL or address stays in one piece, and so does an
// option that names a port.
func tokens(text string) []string {
	var out []string
	port := ""
	for _, word := range strings.FieldsFunc(text, separates) {
		word = strings.Trim(word, ":")
		switch word {
		case "":
			continue
		case "-p", "--port":
			port = word + " "
			continue
		}
		out = append(out, port+word)
		port = ""
	}
	if port != "" {
		out = append(out, port)
	}
	return out
}

func separates(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`{}[],;()", r) }

// isPlace reports whether a token says where: a path, a URL, an address or a port.
func isPlace(token string) bool {
	if strings.Contains(token, "/") || strings.HasPrefix(token, "-p ") || strings.HasPrefix(token, "--port ") {
		return true
	}
	if _, err := netip.ParseAddr(token); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(token)
	return err == nil
}

func (c call) similar(o call) bool {
	switch {
	case c.tool != o.tool:
		return false
	case c.text == o.text:
		return true
	case c.writes || o.writes:
		return false
	}
	mine, theirs := without(c.tokens, o.tokens), without(o.tokens, c.tokens)
	shared := len(c.tokens) - len(mine)
	if float64(shared) < threshold*float64(shared+len(mine)+len(theirs)) {
		return false
	}
	if slices.ContainsFunc(mine, isPlace) || slices.ContainsFunc(theirs, isPlace) {
		return false
	}
	return !slices.ContainsFunc(mine, isName) || !slices.ContainsFunc(theirs, isName)
}

func without(a, b map[string]bool) []string {
	var out []string
	for t := range a {
		if !b[t] {
			out = append(out, t)
		}
	}
	return out
}

// isName reports whether a token can name a target: it is no option and no mere number.
func isName(token string) bool {
	if strings.HasPrefix(token, "#") { // the digest of what was cut off
		return true
	}
	return !strings.HasPrefix(token, "-") && !strings.HasPrefix(token, "<") && strings.ContainsFunc(token, unicode.IsLetter) &&
		!isDuration(token)
}

// isDuration reports whether a token is a number with a unit, such as 30s or 10m.
func isDuration(token string) bool {
	return token != "" && token[0] >= '0' && token[0] <= '9' && len(strings.TrimLeft(token, "0123456789.")) <= 2
}

// show is the call in one line.
func (c call) show(most int) string {
	return ops.Cut(strings.Join(strings.Fields(c.display), " "), most)
}
