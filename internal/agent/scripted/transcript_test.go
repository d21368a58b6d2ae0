package scripted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	otherID = "0b0b8f7e-1111-4222-8333-444455556666"
	thirdID = "0b0b8f7e-1111-4222-8333-444455557777"
)

// conversationFile is where the conversation with that id is kept.
func conversationFile(t *testing.T, config, id string) string {
	t.Helper()
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(config, "projects", strings.ReplaceAll(cwd, "/", "-"), id+".jsonl")
}

func talk(t *testing.T, config string, args ...string) *play {
	t.Helper()
	return (&play{env: []string{envConfigDir + "=" + config}, args: args, scenario: `
tiers: {1: {cost_usd: 0.5, steps: [{bash: 'printf "%0400d" 1'}], result: done}}
`}).run(t)
}

func TestResumingAnUnknownConversationIsRefused(t *testing.T) {
	for name, config := range map[string]string{"no such id": t.TempDir(), "nothing is kept": ""} {
		t.Run(name, func(t *testing.T) {
			p := talk(t, config, "--resume", otherID, "--fork-session", "--session-id", testID)
			r := p.result(t)
			if p.code != 1 || len(p.events) != 1 || r.Subtype != "error_during_execution" || !r.IsError || r.Result != nil || r.NumTurns != 0 ||
				*r.TotalCostUSD != 0 || len(r.Errors) != 1 || r.Errors[0] != "No conversation found with session ID: "+otherID {
				t.Errorf("code %d, %s", p.code, strings.Join(p.lines, ""))
			}
			if !strings.Contains(p.stderr, "No conversation found") {
				t.Errorf("stderr %q", p.stderr)
			}
		})
	}
}

func TestAForkCarriesTheHistoryAndLeavesTheParentAlone(t *testing.T) {
	config := t.TempDir()
	first := talk(t, config, "--session-id", otherID)
	parent := conversationFile(t, config, otherID)
	before, err := os.ReadFile(parent)
	if err != nil {
		t.Fatal(err)
	}
	second := talk(t, config, "--resume", otherID, "--fork-session", "--session-id", thirdID)
	a, b := first.result(t), second.result(t)
	if second.code != 0 || b.SessionID != thirdID {
		t.Fatalf("code %d, session %s, stderr %s", second.code, b.SessionID, second.stderr)
	}
	if b.Usage.Input <= a.Usage.Input+100 {
		t.Errorf("input tokens %d after %d: the history is not counted", b.Usage.Input, a.Usage.Input)
	}
	if *b.TotalCostUSD != 0.5 {
		t.Errorf("cost %v is not of this run only", *b.TotalCostUSD)
	}
	after, err := os.ReadFile(parent)
	if err != nil || string(after) != string(before) {
		t.Error("the parent's conversation was changed")
	}
	history, err := readHistory(filepath.Dir(parent), thirdID)
	if err != nil || len(history) != 2*strings.Count(string(before), "\n") {
		t.Fatalf("%d messages kept, %v", len(history), err)
	}
	for i, r := range history {
		if r.SessionID != thirdID || (i > 0 && *r.ParentUUID != history[i-1].UUID) {
			t.Errorf("message %d is not chained: %+v", i, r)
		}
	}
	if info, err := os.Stat(parent); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAResumeWithoutAForkGoesOnWithTheSameID(t *testing.T) {
	config := t.TempDir()
	talk(t, config, "--session-id", otherID)
	p := talk(t, config, "--resume", otherID)
	history, err := readHistory(filepath.Dir(conversationFile(t, config, otherID)), otherID)
	if p.code != 0 || p.result(t).SessionID != otherID || err != nil || len(history) != 8 {
		t.Errorf("code %d, %d messages, %v, stderr %s", p.code, len(history), err, p.stderr)
	}
}

func TestASessionIDCannotBeUsedTwice(t *testing.T) {
	config := t.TempDir()
	talk(t, config, "--session-id", otherID)
	if p := talk(t, config, "--session-id", otherID); p.code != 1 || len(p.events) != 0 || !strings.Contains(p.stderr, "already in use") {
		t.Errorf("code %d, stderr %q", p.code, p.stderr)
	}
}

func TestADamagedLineIsSkippedAndAnUnreadableFileIsNoConversation(t *testing.T) {
	config := t.TempDir()
	talk(t, config, "--session-id", otherID)
	file := conversationFile(t, config, otherID)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		content []byte
		code    int
	}{
		{"last line cut", whole[:len(whole)-20], 0},
		{"empty", nil, 1},
		{"no JSON", []byte("garbage\nmore\n"), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.WriteFile(file, tc.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if p := talk(t, config, "--resume", otherID, "--fork-session"); p.code != tc.code {
				t.Errorf("code %d, want %d; stderr %s", p.code, tc.code, p.stderr)
			}
		})
	}
}
