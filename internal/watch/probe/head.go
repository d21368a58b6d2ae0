package probe

import "bytes"

// head keeps the beginning of what is written to it.
type head struct{ kept bytes.Buffer }

// Write never fails: a command must not notice that its output is cut.
func (h *head) Write(p []byte) (int, error) {
	room := maxOutput - h.kept.Len()
	h.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}

// firstLine returns the first line that is not blank, led by a colon, or nothing.
func (h *head) firstLine() string {
	if line := h.line(); line != "" {
		return ": " + line
	}
	return ""
}

// line returns the first line that is not blank.
func (h *head) line() string {
	for line := range bytes.Lines(h.kept.Bytes()) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return string(line)
		}
	}
	return ""
}
