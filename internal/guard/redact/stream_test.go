package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"claudeops/internal/guard/redact"
)

func TestASecretOverSeveralLinesIsTakenOutOfEach(t *testing.T) {
	const value = "k3y-Of/The+Cellar_42x"
	pem := "-----BEGIN EC PRIVATE KEY-----\n" + strings.Repeat("MHcCAQEEIKq9ZtS7", 8) + "\n-----END EC PRIVATE KEY-----\n"
	for name, tt := range map[string]struct {
		lines []string
		leak  []string // must not be left
		keep  []string
	}{
		"split by the terminal": {
			[]string{"the key is k3y-Of/The+", "Cellar_42x and works", "next k3y"}, []string{"The+", "Cellar"}, []string{"and works", "next k3y"},
		},
		"hexdump -C": {
			[]string{
				"00000000  6b 33 79 2d 4f 66 2f 54  68 65 2b 43 65 6c 6c 61  |k3y-Of/The+Cella|",
				"00000010  72 5f 34 32 78 0a                                 |r_42x.|",
			},
			[]string{"6b 33", "Cella", "r_42x", "34 32"},
			[]string{"00000010"},
		},
		"a key in base64": {
			append(strings.Split(wrap(base64.StdEncoding.EncodeToString([]byte(pem)), 76, "\n"), "\n"), "done."), []string{"TUhjQ0FR", "LS0tLS1F"}, []string{"done."},
		},
		"a block of YAML": {
			[]string{"db:", "  password: |", "    correct horse", "    battery", "  host: db"}, []string{"horse", "battery"}, []string{"  host: db"},
		},
		"the answer to CONFIG GET": {
			[]string{`1) "requirepass"`, `2) "correcthorse"`, `3) "maxmemory"`, `4) "0"`}, []string{"correct"}, []string{"maxmemory", `4) "0"`},
		},
		"an event between": {
			[]string{"k3y-Of/The+Cel", `{"type":"system","text":"lar_42x"}`}, []string{"The+"}, []string{`{"type":"system"`},
		},
	} {
		st := redact.New([]string{value}).Stream()
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
