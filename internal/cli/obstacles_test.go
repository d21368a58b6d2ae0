package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/config"
)

// call runs one command line and returns what it says.
func call(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(args, Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: environ, Version: "test"})
	return code, out.String(), errs.String()
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestWhatCannotRunIsNamed(t *testing.T) {
	const (
		reviewer = "handlers:\n  - {id: a, tier: 1, hands_to: [b]}\n  - {id: b, tier: 2, agent: codex, model: gpt-5.4}\n"
		program  = "handlers:\n  - {id: a, tier: 1, agent: command, command: [looker]}\n"
		stepIn   = "handlers:\n  - {id: a, tier: 1, hands_to: [b]}\n  - {id: b, tier: 2, fallback: [c]}\n  - {id: c, tier: 1, agent: codex, model: gpt-5.4}\n"
		off      = "sandbox: off\n"
	)
	all := []string{"claude", "codex", "looker"}
	for _, tc := range []struct {
		name    string
		yaml    string
		have    []string
		without string // a variable
		says    string // empty: nothing is wrong
	}{
		{"all is there", reviewer, all, "", ""},
		{"codex without a wall", reviewer + off, all, "", "handler b: it cannot run"},
		{"codex as a replacement at Tier 2", stepIn + off, all, "", "handler c: it cannot run"},
		{"no codex", reviewer, []string{"claude"}, "", `agent codex: "codex" is not installed`},
		{"no key for codex", reviewer, all, "OPENAI_API_KEY", "OPENAI_API_KEY is not set"},
		{"no claude", reviewer, []string{"codex"}, "", `"claude" is not installed`},
		{"no key for claude", reviewer, all, "ANTHROPIC_API_KEY", "neither ANTHROPIC_API_KEY"},
		{"command behind the default walls", program, all, "", ""},
		{"command without a wall", program + off, all, "", "handler a: it cannot run"},
		{"no such program", program, []string{"claude"}, "", `"looker" is not installed`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			environ := slices.DeleteFunc(machine(t, tc.have...), func(v string) bool {
				return tc.without != "" && strings.HasPrefix(v, tc.without+"=")
			})
			file := written(t, tc.yaml)
			code, _, stderr := call(environ, "config", "check", "--config", file)
			if code != exitOK || (tc.says == "") != (stderr == "") || !strings.Contains(stderr, tc.says) {
				t.Errorf("config check: exit %d, %q", code, stderr)
			}
			_, table, _ := call(environ, "doctor", "--config", file, "-o", "json")
			detail := tc.says[strings.LastIndex(tc.says, ": ")+1:]
			if detail = strings.Trim(strings.TrimSpace(detail), `"`); tc.says != "" && !strings.Contains(strings.ReplaceAll(table, `\"`, `"`), detail) {
				t.Errorf("doctor does not say %q:\n%s", detail, table)
			}
			if tc.says == "" && strings.Contains(table, "cannot run") {
				t.Errorf("doctor:\n%s", table)
			}
		})
	}
}

func TestDoctorFailsWhenAHandlerCannotRun(t *testing.T) {
	file := written(t, "handlers:\n  - {id: a, tier: 1, agent: command, command: [looker]}\nsandbox: off\n")
	code, table, _ := call(machine(t, "looker"), "doctor", "--config", file)
	if code != exitError || !strings.Contains(table, "handler a") {
		t.Errorf("exit %d:\n%s", code, table)
	}
}

func TestAnUnknownEnvironmentFailsAtOnce(t *testing.T) {
	file := written(t, "environments: [{name: home}, {name: office}]\n")
	for _, args := range [][]string{
		{"run", "look", "--environment", "hoem"}, {"once", "--environment", "hoem"}, {"handlers", "prompt", "tier1", "--environment", "hoem"},
	} {
		code, _, stderr := call(machine(t, "claude"), append(args, "--config", file)...)
		if code != exitNotFound || !strings.Contains(stderr, "home, office") || !strings.Contains(stderr, "did you mean home?") {
			t.Errorf("%s: exit %d, %q", args[0], code, stderr)
		}
	}
}

func TestAFilterThatNothingMatchesIsRefused(t *testing.T) {
	for _, tc := range []struct{ words, says string }{
		{"cycles list --status nonsense", "queued, running, waiting_human, healthy, resolved, needs_human, suppressed, blocked, partial, failed or cancelled"},
		{"sessions list --status nonsense", "queued, running, completed, failed, timed_out, cancelled, interrupted or partial"},
		{"sessions list --tier 4", "1, 2 or 3"},
		{"events --level loud", "info, warning or critical"},
		{"events --kind party", "agent, alert, approval, audit"},
		{"notify list --status nonsense", "pending, sent, dead or skipped"},
	} {
		if code, _, stderr := call(machine(t), strings.Fields(tc.words)...); code != exitUsage || !strings.Contains(stderr, tc.says) {
			t.Errorf("%s: exit %d, %q", tc.words, code, stderr)
		}
	}
}

func TestDoctorWarnsOfOldPrices(t *testing.T) {
	dir := t.TempDir()
	cfg, err := config.Load(config.Input{Environ: []string{"HOME=" + dir}, Dir: dir})
	must(t, err)
	if got := oldPrices(cfg, time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)); len(got) != 0 {
		t.Errorf("fresh prices: %+v", got)
	}
	if got := oldPrices(cfg, time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)); len(got) != 1 || got[0].State != "warning" || !strings.Contains(got[0].Detail, "haiku") {
		t.Errorf("old prices: %+v", got)
	}
}

func TestThePromptOfAHandlerIsShown(t *testing.T) {
	rules := written(t, "rules: [{id: places, protected: [fleet.yaml], volumes: [/tank]}]\n")
	file := written(t, "guard: {rules: "+rules+"}\nservices: [{name: web}]\nescalation: {mode: handoff}\n")
	for _, tc := range []struct {
		args []string
		says []string
	}{
		{[]string{"tier1"}, []string{"# Tier 1: Observe", "fleet.yaml", "/tank", "- web", "handoff.json"}},
		{[]string{"tier2", "--escalation"}, []string{"You are now Tier 2"}},
		{[]string{"tier3-fallback"}, []string{"# Tier 3"}},
	} {
		code, stdout, stderr := call(machine(t), append([]string{"handlers", "prompt", "--config", file}, tc.args...)...)
		for _, word := range tc.says {
			if code != exitOK || !strings.Contains(stdout, word) {
				t.Errorf("%q: exit %d, no %q in %s%s", tc.args, code, word, stdout, stderr)
			}
		}
	}
	if code, _, stderr := call(machine(t), "handlers", "prompt", "tier9", "--config", file); code != exitNotFound || !strings.Contains(stderr, "tier1, tier2") {
		t.Errorf("unknown handler: exit %d, %q", code, stderr)
	}
}
