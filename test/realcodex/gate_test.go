package realcodex_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/codex"
	"claudeops/internal/guard"
	_ "claudeops/internal/guard/early" // this program is mounted in the place of shells
	"claudeops/internal/guard/gate"
	"claudeops/internal/guard/wall"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/ops"
	"claudeops/test/responsesapi"
)

// ledger keeps what the guard decided.
type ledger struct {
	mu   sync.Mutex
	rows []ops.GuardRecord
}

func (l *ledger) RecordGuard(
	_ context.Context, _ ops.Owner, r ops.GuardRecord, _ []ops.Reservation, _ []ops.CooldownLimit,
) (ops.GuardRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = append(l.rows, r)
	return r, nil
}

// verdict is what was recorded about the one command with this text.
func (l *ledger) verdict(t *testing.T, text string) ops.GuardRecord {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(l.rows), func(r ops.GuardRecord) bool { return !strings.Contains(r.Input, text) })
	if len(found) != 1 {
		t.Fatalf("%q was recorded %d times: %+v", text, len(found), l.rows)
	}
	return found[0]
}

// gated are walls that put the gate in the place of the shells.
type gated struct {
	sandboxed

	bypass bool // it is forgotten
}

func (w gated) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	session := wall.Session{Gate: agent.Variable(p.Env, confine.GateVariable), Shells: !w.bypass}
	out, err := w.WrapSession(tier, session, wall.Command{Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir})
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = out.Path, out.Argv, out.Env, out.Dir, out.Credential
	return p, err
}

// judged puts the desk's sessions behind the walls of the default settings and the real guard.
func (d *desk) judged(bypass bool) *ledger {
	d.t.Helper()
	d.byDefault("", true)
	self, err := os.Executable()
	must(d.t, err)
	dir, err := os.MkdirTemp("/tmp", "gate-")
	must(d.t, err)
	d.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	box := wall.New(wall.Config{
		Confine: true, Relay: []string{self, relayWord}, StateDir: d.spec.StateDir, WorkDir: d.spec.WorkDir,
		ExtraReadOnly: []string{self}, Gates: dir,
	})
	d.walls = gated{sandboxed{box}, bypass}
	judge, err := guard.New(nil)
	must(d.t, err)
	l := &ledger{}
	g, err := gate.New(gate.Options{
		Judge: judge, Ledger: l, Owner: func() ops.Owner { return ops.Owner{Host: "here", Term: 1} }, Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler), Dir: dir, Self: self,
	})
	must(d.t, err)
	opened, err := g.Open(context.WithoutCancel(d.t.Context()), d.spec.Session, guard.Facts{
		Cwd: d.spec.WorkDir, StateDir: d.spec.StateDir, TempDir: os.TempDir(),
	}, func(ops.GuardRecord) {})
	must(d.t, err)
	d.t.Cleanup(func() { _ = opened.Close() })
	opened.Confine(box.Command(d.spec.Session.Tier, wall.Session{Gate: filepath.Dir(opened.Socket())}), nil, nil)
	prefix, err := opened.ShellPrefix()
	must(d.t, err)
	d.spec.Gate = &ops.GateSpec{ShellPrefix: prefix, Allowed: opened.Allowed}
	if !codex.New(d.options).Gated(d.spec, d.walls) {
		d.t.Fatal("the commands of this session are not judged")
	}
	return l
}

// exec runs a command in a way that the model chooses.
func exec(id, command string, how map[string]any) responsesapi.Answer {
	arguments := map[string]any{"cmd": command, "yield_time_ms": 30_000}
	for name, value := range how {
		arguments[name] = value
	}
	return responsesapi.Call(id, "exec_command", arguments)
}

// TestEveryCommandIsJudged holds that Codex starts no shell but the gate, whichever shell the model names.
func TestEveryCommandIsJudged(t *testing.T) {
	t.Parallel()
	const drop = `psql -h 127.0.0.1 -p 1 -U postgres -c 'DROP TABLE orders%d'`
	ways := []map[string]any{
		nil,
		{"login": false},
		{"login": true},
		{"shell": "/bin/sh"},
		{"shell": "/bin/bash"},
		{"shell": "bash"},
		{"shell": "/usr/bin/zsh"},
		{"shell": "/bin/dash"},
		{"shell": "/usr/bin/python3"},
		{"shell": ""},
		{"shell": "fish", "login": false},
		{"sandbox_permissions": "require_escalated", "justification": "why not"},
	}
	var answers []responsesapi.Answer
	for i, how := range ways {
		answers = append(answers, exec(fmt.Sprintf("call_%d", i), fmt.Sprintf(drop, i), how))
	}
	const last = 100
	answers = append(answers, exec("call_tty", "echo typed", map[string]any{"tty": true}), exec("call_look", `cat /etc/hostname | wc -l
sh -c 'echo inner $0'; cat; which ls; echo "$PATH"`, nil), exec("call_pwsh", fmt.Sprintf(drop, last), map[string]any{"shell": "pwsh"}))
	d := newDesk(t, responsesapi.Turns(append(answers, responsesapi.Text("done"))...))
	l := d.judged(false)
	d.succeeded(d.run(nil))
	for i, how := range ways {
		out := d.output(fmt.Sprintf("call_%d", i))
		if how["sandbox_permissions"] != nil {
			if !strings.Contains(out, "approval") {
				t.Errorf("%v: %s", how, out)
			}
			continue
		}
		r := l.verdict(t, fmt.Sprintf("orders%d'", i))
		if r.Allowed || r.Gate != ops.GateShell || r.Tool != "Bash" || !strings.Contains(out, r.Reason) || strings.Contains(out, "psql: error") {
			t.Errorf("%v: %s\n%+v", how, out, r)
		}
	}
	if out := d.output("call_tty"); strings.Contains(out, "\ntyped") || !strings.Contains(out, "terminal") {
		t.Errorf("a terminal: %s", out)
	}
	if out := d.output("call_pwsh"); strings.Contains(out, "psql: error") {
		t.Errorf("another language: %s", out)
	}
	out := d.output("call_look")
	if r := l.verdict(t, "/etc/hostname"); !r.Allowed || !strings.Contains(out, "\n1\ninner sh\n/usr/bin/ls\n/usr/local/sbin:") {
		t.Errorf("an allowed command: %s\n%+v", out, r)
	}
}

// TestCodeModeIsJudgedToo holds the same for the models that get a JavaScript tool instead of a shell.
func TestCodeModeIsJudgedToo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Custom("call_1", "exec", `const r = await tools.exec_command({cmd: "systemctl stop nginx", shell: "/bin/ksh"}); text(r.output)`),
		responsesapi.Custom("call_2", "exec", `const r = await tools.exec_command({cmd: "id"}); text(r.output)`),
		responsesapi.Text("done"),
	))
	l := d.judged(false)
	d.succeeded(d.run(func(s *ops.SessionSpec) { s.Session.Model = "gpt-5.6-sol" }))
	if r := l.verdict(t, "nginx"); r.Allowed || !strings.Contains(d.output("call_1"), r.Reason) {
		t.Errorf("%s\n%+v", d.output("call_1"), r)
	}
	if out := d.output("call_2"); !strings.Contains(out, "uid=") {
		t.Errorf("an allowed command: %s", out)
	}
}

// TestACommandThatPassesTheGateStopsTheSession holds that a Codex that finds its shell in another way does not go on unnoticed.
func TestACommandThatPassesTheGateStopsTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", "sleep 30"), responsesapi.Text("done")))
	d.judged(true)
	if res := d.run(nil); res.Stop != ops.StopInvariant || !strings.Contains(res.Err+res.StopWhy, "no gate had allowed") {
		t.Errorf("result: %+v", res)
	}
}

// TestTheProgramNeverHoldsTheKey holds that neither Codex nor its commands can read the key of the API, and that what they hold
// instead is worth nothing after the session, also when a conversation is continued.
func TestTheProgramNeverHoldsTheKey(t *testing.T) {
	t.Parallel()
	const key = "sk-the-real-key-of-a-test"
	const look = `for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ | grep -q "^CLAUDEOPS_SESSION_KEY=$CLAUDEOPS_SESSION_KEY" && cat $p/environ; done 2>/dev/null | tr '\0' '\n' | sort -u
grep -rlF sk-the-real "$HOME" "$CLAUDEOPS_STATE_DIR"; cat /proc/[0-9]*/cmdline | tr '\0' '\n' | grep base_url; echo looked`
	d := newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", look), responsesapi.Text("done")))
	d.behind("") // Codex's own sandbox would hide Codex from its commands; above Tier 1 there is only ours
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
	d.behind("")
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

// sandboxed fits a sandbox to what the adapter asks for.
type sandboxed struct{ *wall.Sandbox }

func (w sandboxed) Prepare(tier ops.Tier) error {
	if err := w.Check(tier); err != nil {
		return err
	}
	return w.Sandbox.Prepare(tier)
}

func (w sandboxed) Hides(tier ops.Tier, p agent.Program) func(string) bool {
	return w.Sandbox.Hides(tier, wall.Session{Gate: agent.Variable(p.Env, confine.GateVariable)}, p.Path)
}

func (w sandboxed) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	out, err := w.Sandbox.Wrap(tier, p.Path, p.Argv, p.Env, p.Dir)
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = out.Path, out.Argv, out.Env, out.Dir, out.Credential
	return p, err
}

// behind puts the desk's sessions behind bubblewrap.
func (d *desk) behind(repos string) {
	d.t.Helper()
	self, err := os.Executable()
	must(d.t, err)
	must(d.t, os.MkdirAll(d.spec.StateDir, 0o700))
	d.walls = sandboxed{wall.New(wall.Config{
		Confine: true, Relay: []string{self, relayWord}, StateDir: d.spec.StateDir, WorkDir: d.spec.WorkDir, ReposDir: repos,
	})}
}

// byDefault puts the desk's sessions behind the walls of the default settings, with or without namespaces.
func (d *desk) byDefault(repos string, namespaces bool) {
	d.t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.MkdirAll(d.spec.StateDir, 0o700)
	}
	must(d.t, err)
	c := wall.Config{
		Confine: true, Relay: []string{self, relayWord}, StateDir: d.spec.StateDir, WorkDir: d.spec.WorkDir, ReposDir: repos,
		ExtraReadOnly: []string{self},
	}
	if !namespaces {
		c.Bwrap = "/nowhere/bwrap"
	}
	d.walls = sandboxed{wall.New(c)}
}

func TestBehindTheDefaultWallsItIsHeldToItsTier(t *testing.T) {
	t.Parallel()
	for _, tier := range []ops.Tier{ops.Tier1, ops.Tier2} {
		for _, namespaces := range []bool{true, false} {
			repos, outside := t.TempDir(), t.TempDir()
			secret := filepath.Join(outside, "secret")
			must(t, os.WriteFile(secret, []byte("x"), 0o600))
			pid := strconv.Itoa(os.Getpid())
			d := newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1",
				"touch "+repos+"/repaired; touch "+outside+"/broken /usr/broken; kill -0 "+pid+" && echo signalled; "+
					"grep -q root: /etc/shadow && echo stolen; mv "+secret+" "+outside+"/gone; echo looked"), responsesapi.Text("done")))
			d.byDefault(repos, namespaces)
			d.spec.Session.Tier = tier
			d.succeeded(d.run(nil))
			out := d.output("call_1")
			if !strings.Contains(out, "looked") || strings.Contains(out, "signalled") || strings.Contains(out, "stolen") {
				t.Errorf("%v, namespaces %v: %q", tier, namespaces, out)
			}
			if exists(t, repos+"/repaired") != (tier == ops.Tier2) || exists(t, outside+"/broken") || exists(t, "/usr/broken") || !exists(t, secret) {
				t.Errorf("%v, namespaces %v: files changed: %q", tier, namespaces, out)
			}
		}
	}
}

const write = `touch "$FILE" && echo written; env`

// writing is a desk whose agent tries to write a file, and the file.
func writing(t *testing.T) (*desk, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	return newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", strings.Replace(write, "$FILE", file, 1)), responsesapi.Text("done"))), file
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	return err == nil
}

func TestTier1CannotWrite(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*desk){
		"Tier 1":              func(*desk) {},
		"a dry run of Tier 3": func(d *desk) { d.spec.Session.Tier, d.spec.DryRun = ops.Tier3, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, file := writing(t)
			change(d)
			d.succeeded(d.run(nil))
			if out := d.output("call_1"); !strings.Contains(out, "Read-only file system") || strings.Contains(out, "written") || exists(t, file) {
				t.Errorf("the command answered %q", out)
			}
		})
	}
}

// TestCodeModeCannotWriteEither holds the same for the models that get a JavaScript tool instead of a shell.
func TestCodeModeCannotWriteEither(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Custom("call_1", "exec", `const r = await tools.exec_command({cmd: "touch `+file+`; id"}); text(r.output)`),
		responsesapi.Text("done"),
	))
	d.succeeded(d.run(func(s *ops.SessionSpec) { s.Session.Model = "gpt-5.6-sol" }))
	if out := d.output("call_1"); !strings.Contains(out, "Read-only file system") || !strings.Contains(out, "uid=") || exists(t, file) {
		t.Errorf("the command answered %q", out)
	}
}

func TestACommandSeesItsSessionButNotTheKeyOfTheAPI(t *testing.T) {
	t.Parallel()
	d, _ := writing(t)
	d.succeeded(d.run(nil))
	out := d.output("call_1")
	if !strings.Contains(out, "CLAUDEOPS_SESSION_KEY=test-") || !strings.Contains(out, "CLAUDEOPS_TIER=1") || strings.Contains(out, "dummy-key") || strings.Contains(out, "OPENAI_") {
		t.Errorf("the environment of a command:\n%s", out)
	}
}

func TestNetworkAtTier1IsOff(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.api = responsesapi.New(t, responsesapi.Turns(
		responsesapi.Exec("call_1", `if (exec 3<>/dev/tcp/$HOST) 2>/dev/null; then echo connected; else echo refused; fi`), responsesapi.Text("done"),
	))
	host := strings.TrimSuffix(strings.TrimPrefix(d.api.URL(), "http://"), "/v1")
	d.spec.Env = slices.DeleteFunc(d.spec.Env, func(v string) bool { return strings.HasPrefix(v, "OPENAI_BASE_URL=") })
	d.spec.Env = append(d.spec.Env, "OPENAI_BASE_URL="+d.api.URL(), "HOST="+strings.Replace(host, ":", "/", 1))
	d.options.ExtraEnv = []string{"HOST"}
	d.succeeded(d.run(nil))
	if out := d.output("call_1"); !strings.Contains(out, "refused") {
		t.Errorf("the command answered %q", out)
	}
}

func TestAboveTier1ItRunsOnlyBehindTheWall(t *testing.T) {
	t.Parallel()
	for _, tier := range []ops.Tier{ops.Tier2, ops.Tier3} {
		d, file := writing(t)
		res := d.run(func(s *ops.SessionSpec) { s.Session.Tier = tier })
		if res.ExitCode != nil || res.Failure != ops.FailureLayer || !strings.Contains(res.Err, "sandbox.mode") || exists(t, file) || len(d.api.Requests()) != 0 {
			t.Errorf("%v: %+v", tier, res)
		}
	}
}

func TestBehindTheWallTier2WritesToTheRepositoriesOnly(t *testing.T) {
	t.Parallel()
	repos, outside := t.TempDir(), t.TempDir()
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Exec("call_1", "touch "+repos+"/repaired; touch "+outside+"/broken /usr/broken; echo EVIL > ~/.codex/AGENTS.md"), responsesapi.Text("done"),
	))
	d.behind(repos)
	d.spec.Session.Tier = ops.Tier2
	res := d.succeeded(d.run(nil))
	if !exists(t, repos+"/repaired") || exists(t, outside+"/broken") || exists(t, "/usr/broken") {
		t.Errorf("the command answered %q", d.output("call_1"))
	}
	if res.Conversation.Path == "" || res.InputTokens == nil {
		t.Errorf("the record was not found: %+v", res)
	}
	// What the agent left in its home does not reach the next session.
	before := len(d.api.Requests())
	d.succeeded(d.run(nil))
	if strings.Contains(string(d.api.Requests()[before].Body), "EVIL") {
		t.Error("the model was told what the session before wrote")
	}
}

func TestWhatWasLeftInTheHomeIsNotRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(responsesapi.Text("done")))
	home := filepath.Join(d.spec.StateDir, "agent", "home", ".codex")
	for name, text := range map[string]string{
		home + "/AGENTS.md":                       "EVIL",
		home + "/config.toml":                     `developer_instructions = "EVIL"`,
		home + "/skills/evil/SKILL.md":            "---\nname: evil\ndescription: EVIL\n---\nEVIL",
		d.spec.WorkDir + "/AGENTS.md":             "EVIL",
		d.spec.WorkDir + "/.codex/config.toml":    `developer_instructions = "EVIL"`,
		d.spec.StateDir + "/agent/home/AGENTS.md": "EVIL",
	} {
		must(t, os.MkdirAll(filepath.Dir(name), 0o700))
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	d.succeeded(d.run(nil))
	if strings.Contains(string(d.last().Body), "EVIL") {
		t.Error("the model was told what an earlier session could have written")
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
