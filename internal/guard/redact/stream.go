package redact

import "strings"

// Stream redacts the lines of one output in order. A private key that is printed line by line is
// taken out of each of them. It is not safe for concurrent use.
type Stream struct {
	redactor *Redactor
	keyLines int // how many more lines may belong to the key that was begun
}

const maxKeyLines = 500

// Stream starts the redaction of one output.
func (r *Redactor) Stream() *Stream { return &Stream{redactor: r} }

// Line returns the next line without secrets.
func (st *Stream) Line(s string) string {
	if st.keyLines > 0 {
		if line := strings.TrimSpace(s); !strings.HasPrefix(line, "{") {
			st.keyLines--
			if strings.Contains(line, keyEnd) {
				st.keyLines = 0
			}
			return markKey.String()
		}
		st.keyLines = 0
	}
	out := st.redactor.String(s)
	if out != s && beginsKey(s) {
		st.keyLines = maxKeyLines
	}
	return out
}

// beginsKey reports whether a private key begins in a line of plain text and does not end there.
func beginsKey(s string) bool {
	i := strings.LastIndex(s, "-----BEGIN ")
	return i >= 0 && !looksLikeJSON(s) && strings.Contains(s[i:], "PRIVATE KEY") && !strings.Contains(s[i:], keyEnd)
}
