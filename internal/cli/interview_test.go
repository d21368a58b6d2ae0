package cli

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/config"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
	"claudeops/internal/watch/survey"
)

// typed is a person who has typed all answers in advance.
func typed(answers ...string) (*prompter, *strings.Builder) {
	var out strings.Builder
	p := &prompter{out: &out, in: make(chan line, len(answers))}
	for _, a := range answers {
		p.in <- line{text: a}
	}
	return p, &out
}

func TestNumbersOfAList(t *testing.T) {
	for text, want := range map[string][]int{
		"all": {1, 2, 3, 4, 5}, "none": nil, "NONE": nil, "3": {3}, "4,1": {1, 4}, "1, 3-5": {1, 3, 4, 5}, "2 2 1-2": {1, 2},
	} {
		if got, problem := numbersIn(text, 5); problem != "" || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %s", text, got, problem)
		}
	}
	for _, text := range []string{"0", "6", "1-6", "3-1", "x", "1-", "-1", "1;2", "\x1b[A"} {
		if got, problem := numbersIn(text, 5); !strings.Contains(problem, "is not in the list") || strings.Contains(problem, "\x1b") {
			t.Errorf("%q is %v, %q", text, got, problem)
		}
	}
}

func TestWhatIsMissingIsNotAskedFor(t *testing.T) {
	p, out := typed()
	if chosen, err := p.whichServices(t.Context(), nil); err != nil || chosen != nil {
		t.Errorf("%v, %v", chosen, err)
	}
	if agent, err := p.whichAgent(t.Context(), []survey.Program{{Name: "gemini", Path: "/usr/bin/gemini"}}); err != nil || agent != agentClaude {
		t.Errorf("%q, %v", agent, err)
	}
	for _, want := range []string{"No services were found", "Neither Claude Code nor Codex is installed", "npm install"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	p, out = typed("")
	found := []survey.Program{{Name: "codex", Path: "/usr/bin/codex"}, {Name: "goose", Version: "1.2.3"}}
	if agent, err := p.whichAgent(t.Context(), found); err != nil || agent != agentCodex {
		t.Errorf("%q, %v", agent, err)
	}
	if !strings.Contains(out.String(), "codex (version unknown)") || !strings.Contains(out.String(), "goose 1.2.3  can be used") {
		t.Errorf("shown: %s", out)
	}
}

// Every combination of answers is a valid configuration.
func TestAnswersMakeAValidConfiguration(t *testing.T) {
	at := netip.MustParseAddrPort("[::1]:80")
	odd := survey.Services([]survey.Container{{Name: "a_b.c-1", Image: "x:1 # {no: comment}"}}, []survey.Unit{{Name: "my-app@1.service"}},
		[]survey.Listener{{Address: at, Program: "yes"}, {Address: at, Program: "1e3"}, {Address: at, Program: "null"}})
	for i, a := range []answers{
		{agent: agentClaude, suggest: true},
		{agent: agentCodex},
		{agent: agentClaude, services: odd, socket: "/run/user/1000/docker.sock"},
		{agent: agentCodex, api: "http://127.0.0.1:8000/notify/x?a=b#c", suggest: true, services: odd},
		{agent: agentClaude, targets: "ntfy://x"},
	} {
		text, err := a.configuration()
		must(t, err)
		dir := t.TempDir()
		for name, body := range map[string]string{"claudeops.yaml": text, targetsFile: a.targets} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600))
		}
		c, err := config.Load(config.Input{
			ConfigPath: filepath.Join(dir, "claudeops.yaml"), Environ: []string{"HOME=" + dir}, Dir: dir, Check: escalation.Flaws, Checks: checks(),
		})
		if err != nil {
			t.Errorf("%d: %v\n%s", i, err, text)
			continue
		}
		if (c.Environments()[0].Policy.Trust == ops.TrustSuggest) != a.suggest || c.AppriseAPI != a.api || (len(c.AppriseURLs) > 0) != (a.targets != "") {
			t.Errorf("%d: %+v", i, c)
		}
		policy := c.Environments()[0].Policy
		own := slices.DeleteFunc(slices.Clone(policy.Inventory.Services), func(s ops.Service) bool { return s.Name == ops.EngineService })
		if len(own) != len(a.services) || (policy.Handlers[0].Agent == agentCodex) != (a.agent == agentCodex) {
			t.Errorf("%d: %+v", i, policy)
		}
	}
}

func TestAFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	files := []newFile{{filepath.Join(dir, "secret"), "x", 0o600}, {filepath.Join(dir, "missing", "claudeops.yaml"), "y", 0o644}}
	if err := writeAll(files, false); err == nil {
		t.Error("no error")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A command beside the daemon finds what the unit names, whatever characters are in it.
func TestTheUnitNamesItsConfigurationAndStateFolder(t *testing.T) {
	for _, path := range []string{"/etc/claudeops/claudeops.yaml", "/srv/my \"ops\"/100%/$x\\y.yaml"} {
		text, err := beginning{&app{}}.serviceText(serviceSystemd, path)
		if file, state := placesOf(text); err != nil || file != path || state != "/var/lib/claudeops" {
			t.Errorf("%s: the unit names %q and %q, %v", path, file, state, err)
		}
	}
}
