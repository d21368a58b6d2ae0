package realcodex_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/responsesapi"
)

// TestTheProgramNeverHoldsTheKey holds that neither Codex nor its commands can read the key of the API, and that what they hold
// instead is worth nothing after the session, also when a conversation is continued.
func TestTheProgramNeverHoldsTheKey(t *testing.T) {
	t.Parallel()
	const key = "sk-the-real-key-of-a-test"
	const look = `for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ | grep -q "^CLAUDEOPS_SESSION_KEY=$CLAUDEOPS_SESSION_KEY" && cat $p/environ; done 2>/dev/null | tr '\0' '\n' | sort -u
grep -rlF sk-the-real "$HOME" "$CLAUDEOPS_STATE_DIR"; cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep base_url; echo looked`
	d := newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", look), responsesapi.Text("done")))
	d.hide = true
	d.behind(0, "") // Codex's own sandbox would hide Codex from its commands; above Tier 1 there is only ours
	d.spec.Session.Tier = ops.Tier2
	d.spec.Env = slices.DeleteFunc(d.spec.Env, func(v string) bool { return strings.HasPrefix(v, "OPENAI_API_KEY=") })
	d.spec.Env = append(d.spec.Env, "OPENAI_API_KEY="+key, "HTTP_PROXY=http://127.0.0.1:1")
	res := d.succeeded(d.run(nil))
	seen := d.output("call_1")
	if !strings.Contains(seen, "looked") || !strings.Contains(seen, "OPENAI_API_KEY=claudeops-session-") {
		t.Errorf("the command did not see the token:\n%s", seen)
	}
	if strings.Contains(seen+d.rec.Text()+string(d.last().Body), key) {
		t.Error("the key can be read")
	}
	for _, req := range d.api.Requests() {
		if got := req.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("the API got %q", got)
		}
	}
	d.succeeded(d.run(func(s *ops.SessionSpec) {
		s.Resume, s.Conversation, s.Prompt, s.Session.ID = res.CLISessionID, res.Conversation, "go on", 2
	}))
	if got := d.last().Prompts(); !slices.Equal(got, []string{"look around", "go on"}) {
		t.Errorf("prompts: %q", got)
	}
	err := filepath.WalkDir(d.spec.StateDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), key) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	token := ""
	for line := range strings.Lines(seen) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "OPENAI_API_KEY="); ok {
			token = value
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxyOf(t, seen)+"/responses", strings.NewReader("{}"))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	if resp, err := new(http.Transport).RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("the proxy still answers: %s", resp.Status)
	}
}

// proxyOf finds the address of the proxy among the arguments of Codex, which a command printed.
func proxyOf(t *testing.T, text string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, `base_url="`)
	url, _, ok2 := strings.Cut(after, `"`)
	if !ok || !ok2 || !strings.HasPrefix(url, "http://127.0.0.1:") || !strings.HasSuffix(url, "/v1") {
		t.Fatalf("no address in\n%s", text)
	}
	return url
}

// TestAForkCannotPlantAnything holds that a session finds nothing that an earlier one left, although it continues its
// conversation.
func TestAForkCannotPlantAnything(t *testing.T) {
	t.Parallel()
	const plant = `mkdir -p ~/.config/git ~/.codex/skills/evil; printf '[alias]\n\tst = !echo PLANTED\n' | tee ~/.gitconfig ~/.config/git/config
echo EVIL | tee ~/.codex/AGENTS.md ~/.codex/config.toml ~/.codex/skills/evil/SKILL.md AGENTS.md; echo 'echo EVIL' > ~/.bashrc`
	const look = `cat ~/.gitconfig ~/.config/git/config ~/.bashrc ~/.codex/AGENTS.md ~/.codex/config.toml AGENTS.md 2>/dev/null; git st 2>/dev/null; echo looked`
	d := newDesk(t, func(req responsesapi.Request) responsesapi.Answer {
		switch _, planted := req.Output("call_1"); {
		case !planted:
			return responsesapi.Exec("call_1", plant)
		case req.Prompt() != "go on":
			return responsesapi.Text("planted")
		}
		if _, looked := req.Output("call_2"); !looked {
			return responsesapi.Exec("call_2", look)
		}
		return responsesapi.Text("done")
	})
	// Only behind the wall may Codex write at all.
	must(t, os.MkdirAll(filepath.Dir(d.spec.StateDir), 0o700))
	d.behind(0, "")
	d.spec.Session.Tier = ops.Tier2
	first := d.succeeded(d.run(nil))
	if out := d.output("call_1"); !strings.Contains(out, "EVIL") || strings.Contains(out, "cannot") {
		t.Fatalf("nothing was planted: %s", out)
	}
	d.succeeded(d.run(func(s *ops.SessionSpec) {
		s.Resume, s.Conversation, s.Prompt = first.CLISessionID, first.Conversation, "go on"
		s.Session.ID, s.Session.Tier = 2, ops.Tier3
	}))
	if out := d.output("call_2"); !strings.Contains(out, "looked") || strings.Contains(out, "EVIL") || strings.Contains(out, "PLANTED") {
		t.Errorf("the second session found:\n%s", out)
	}
}
