package guard

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/ops"
)

// caseFolder is where the acceptance cases lie beside a checkout. They are not part of the repository; testdata/cases.txt
// is, and covers the same classes.
const caseFolder = "../../../shared/guard"

type guardCase struct {
	ID      string `json:"id"`
	Class   string `json:"class"`
	Command string `json:"command"`
	Tier1   string `json:"tier1"`
	Tier2   string `json:"tier2"`
	Tier3   string `json:"tier3"`
	Why     string `json:"why"`
	Firm    bool   `json:"firm"`
}

func bashInput(t testing.TB, command string) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(map[string]string{"command": command})
	must(t, err)
	return data
}

func newGuard(t testing.TB) *Guard {
	t.Helper()
	g, err := New(nil)
	must(t, err)
	return g
}

func TestCaseFileIsJudgedAsItSays(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(caseFolder, "guard-cases.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("no case file beside this checkout: testdata/cases.txt alone was judged")
		return
	}
	must(t, err)
	factsData, err := os.ReadFile(filepath.Join(caseFolder, "guard-facts.yaml"))
	must(t, err)
	facts, err := ParseFacts(factsData)
	must(t, err)
	var cases []guardCase
	must(t, json.Unmarshal(data, &cases))
	g := newGuard(t)
	allows, missed, denies := 0, 0, 0
	for _, c := range cases {
		for i, want := range []string{c.Tier1, c.Tier2, c.Tier3} {
			tier := ops.Tier(i + 1)
			facts.Walled = want == "allow" // attacks are judged as if no wall stood, honest work behind walls
			d := g.Check(tier, "Bash", bashInput(t, c.Command), facts)
			if c.Firm && want == "allow" {
				allows++
			} else if c.Firm {
				denies++
			}
			if string(d.Verdict) == want {
				continue
			}
			switch {
			case !c.Firm:
				t.Logf("not firm: %s %s at %s: %s, want %s: %.100q\n\t%s %s", c.ID, c.Class, tier, d.Verdict, want, c.Command, d.Rule, d.Reason)
			case want == "deny":
				t.Errorf("%s %s at %s is allowed, want deny: %.200q (%s)", c.ID, c.Class, tier, c.Command, c.Why)
			default:
				missed++
				t.Logf("%s %s at %s is denied, want allow: %.200q\n\t%s %s", c.ID, c.Class, tier, c.Command, d.Rule, d.Reason)
			}
		}
	}
	t.Logf("%d firm denies, %d firm allows of which %d missed", denies, allows, missed)
	if missed*100 > allows {
		t.Errorf("%d of %d firm allows are denied, at most one in a hundred may be", missed, allows)
	}
}
