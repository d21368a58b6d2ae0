package redact_test

import (
	"strings"
	"testing"

	"claudeops/internal/guard/redact"
)

func TestAValueBelowItsNameIsTakenOutOfEachLine(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		leak  []string // must not be left
		keep  []string
	}{
		"a block of YAML": {
			[]string{"db:", "  password: |", "    correct horse", "    battery", "  host: db"}, []string{"horse", "battery"}, []string{"  host: db"},
		},
		"the answer to CONFIG GET": {
			[]string{`1) "requirepass"`, `2) "correcthorse"`, `3) "maxmemory"`, `4) "0"`}, []string{"correct"}, []string{"maxmemory", `4) "0"`},
		},
	} {
		st := redact.New(nil).Stream()
		var got []string
		for _, line := range tt.lines {
			got = append(got, st.Line(line))
		}
		text := strings.Join(got, "\n")
		for _, leak := range tt.leak {
			if strings.Contains(text, leak) {
				t.Errorf("%s: %q is left in\n%s", name, leak, text)
			}
		}
		for _, keep := range tt.keep {
			if !strings.Contains(text, keep) {
				t.Errorf("%s: %q is gone from\n%s", name, keep, text)
			}
		}
	}
}

func TestAWordThatIsPartOfASecretStays(t *testing.T) {
	r := redact.New([]string{"claudeops-production-key", "correct-horse-battery"})
	for _, in := range []string{"production", "deploy to production", "the answer is correct", "horse", "claudeops is up", "a battery"} {
		if got := r.String(in); got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
}
