package redact

import "strings"

// Stream redacts the lines of one output in order. A private key or a secret that is printed over several lines is
// taken out of each of them. No line waits for the next one. It is not safe for concurrent use.
type Stream struct {
	redactor *Redactor
	keyLines int // how many more lines may belong to the key that was begun
	encoded  bool
	pending  []pending
	block    int // the indentation of a name whose value is on the lines below it, plus one
}

const maxKeyLines = 500

// Stream starts the redaction of one output.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Line returns the next line without secrets.
func (st *Stream) Line(s string) string {
	if st.keyLines > 0 || st.block > 0 {
		if mark, ok := st.belongs(s); ok {
			return mark.String()
		}
	}
	var out string
	out, st.pending = st.redactor.line(s, st.pending)
	if looksLikeJSON(s) {
		st.pending = nil // an event holds its lines itself
		return out
	}
	if out != s && beginsKey(s) {
		st.keyLines, st.encoded = maxKeyLines, false
	}
	if strings.HasSuffix(out, markKey.String()) && endsInBase64(s) {
		st.keyLines, st.encoded = maxKeyLines, true
	}
	st.block = blockValue(s)
	return out
}

// belongs reports whether the line is part of a key or of a value that began above it.
func (st *Stream) belongs(s string) (mark, bool) {
	line := strings.TrimSpace(s)
	if st.block > 0 {
		if line != "" && len(s)-len(strings.TrimLeft(s, " ")) >= st.block {
			return markPassword, true
		}
		st.block = 0
	}
	if st.keyLines == 0 {
		return 0, false
	}
	st.keyLines--
	switch {
	case strings.HasPrefix(line, "{"):
		st.keyLines = 0
		return 0, false
	case st.encoded && (line == "" || run(line, 0, std64.has) != len(line)):
		st.keyLines = 0
		return 0, false
	case !st.encoded && strings.Contains(line, keyEnd):
		st.keyLines = 0
	}
	return markKey, true
}

// endsInBase64 reports whether a long run of base64 ends the line: the rest of the key may be on the next one.
func endsInBase64(s string) bool {
	n := 0
	for n < len(s) && std64.has(s[len(s)-1-n]) {
		n++
	}
	return n >= 16 && s[len(s)-1] != '='
}

// blockValue returns one more than the indentation of a YAML key whose value is a block below it, if the key is the name of a secret.
func blockValue(s string) int {
	text := strings.TrimLeft(s, " -")
	key, marker, found := strings.Cut(text, ":")
	marker = strings.TrimSpace(marker)
	if !found || marker == "" || marker[0] != '|' && marker[0] != '>' || len(marker) > 3 {
		return 0
	}
	key = strings.ToLower(strings.Trim(key, `"'`))
	for _, end := range []string{"password", "passwd", "passphrase", "secret", "token", "key", "credentials", "_pass"} {
		if strings.HasSuffix(key, end) {
			return len(s) - len(text) + 1
		}
	}
	return 0
}

// beginsKey reports whether a private key begins in a line of plain text and does not end there.
func beginsKey(s string) bool {
	i := strings.LastIndex(s, "-----BEGIN ")
	return i >= 0 && !looksLikeJSON(s) && strings.Contains(s[i:], "PRIVATE KEY") && !strings.Contains(s[i:], keyEnd)
}
