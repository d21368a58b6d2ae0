package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// shelf is a record of tool calls.
type shelf []store.JudgedCall

func (shelf) Recorded(context.Context, store.RecordFilter) ([]ops.Recorded, error) { return nil, nil }

func (s shelf) JudgedCalls(context.Context, store.RecordFilter) ([]store.JudgedCall, error) {
	return s, nil
}

func call(tier ops.Tier, command string, allowed bool, rule string) store.JudgedCall {
	input, _ := json.Marshal(map[string]string{"command": command}) //nolint:errchkjson // a text
	digest := sha256.Sum256(input)
	return store.JudgedCall{Environment: "default", GuardRecord: ops.GuardRecord{
		At: time.Now(), Tier: tier, Gate: ops.GateHook, ToolUseID: "toolu", Tool: "Bash", Input: string(input),
		Digest: hex.EncodeToString(digest[:]), Allowed: allowed, Rule: rule,
	}}
}

func ruled(t *testing.T, rules string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"guard.yaml": rules, "claudeops.yaml": "guard: {enabled: true, rules: ./guard.yaml}\n"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c, err := config.Load(config.Input{ConfigPath: filepath.Join(dir, "claudeops.yaml"), Environ: []string{"HOME=/home/ops"}, Dir: dir})
	must(t, err)
	return c
}

const (
	noRules  = "rules: []\n"
	newRules = `rules:
  - {id: no-logs, program: docker, args: [logs, "..."], deny: true, reason: They hold names., match: ["docker logs web"], not_match: ["docker ps"]}
  - {id: gravity, program: pihole, args: ["-g"], tier: 2, reason: It is safe., match: ["pihole -g"], not_match: ["pihole -r"]}
`
)

// What the operator's rules change is found by the real guard, also in the session's own folders, of which nothing is recorded.
func TestToolCallsAreRehearsedByTheRules(t *testing.T) {
	record := shelf{
		call(ops.Tier1, "docker logs web", true, "tool.Bash"), call(ops.Tier1, "docker logs web", true, "tool.Bash"),
		call(ops.Tier2, "pihole -g", false, "R6"), call(ops.Tier1, "docker ps", true, "tool.Bash"),
		call(ops.Tier1, "docker restart web", false, "tool.Bash"), call(ops.Tier2, "docker restart web", false, "cooldown"),
		call(ops.Tier2, `echo x > "$TMPDIR/x"`, true, "tool.Bash"), call(ops.Tier2, "docker restart web", false, "R11"),
	}
	for name, before := range map[string]*config.Config{"with the record": nil, "with another configuration": ruled(t, noRules)} {
		same, err := Rehearse(t.Context(), record, before, ruled(t, noRules), Span{})
		if err != nil || !same.Equal || same.Counts.ToolCalls != 7 || same.Counts.NotJudged != 1 {
			t.Errorf("%s: %+v, %v", name, same, err)
		}
		got, err := Rehearse(t.Context(), record, before, ruled(t, newRules), Span{})
		if err != nil || len(got.Differences) != 2 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		for _, d := range got.Differences {
			refused := d.Command == "docker logs web" && d.Count == 2 && d.After == "refused" && d.Setting == "guard rule no-logs"
			if allowed := d.Command == "pihole -g" && d.After == "allowed"; !refused && !allowed || d.Kind != rehearse.KindToolCall {
				t.Errorf("%s: %+v", name, d)
			}
		}
	}
}

// A page does not wait for years of records: it shows the newest, and says so.
func TestARehearsalEndsWithItsTime(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	got, err := Rehearse(ctx, late{}, nil, ruled(t, noRules), Span{})
	if err != nil || got.Stopped == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

type late struct{ shelf }

func (late) Recorded(ctx context.Context, _ store.RecordFilter) ([]ops.Recorded, error) {
	return nil, ctx.Err()
}
