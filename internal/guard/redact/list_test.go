package redact

import (
	"strings"
	"testing"
)

func TestEveryExpressionOfTheListIsOne(t *testing.T) {
	expand := macros()
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "# ") {
			continue
		}
		_, rest, _ := strings.Cut(line, " : ")
		rest, options, _ := strings.Cut(rest, " : ")
		r := readRule(rest, options, expand, false, false)
		r.rest()
		if r.after != nil {
			r.after()
		}
	}
	for _, l := range shapes() {
		if len(l.text) < 2 || l.match == nil || l.fold && l.text != strings.ToLower(l.text) {
			t.Errorf("%q cannot be found", l.text)
		}
	}
}
