package realcodex_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/codex"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/test/responsesapi"
)

// sandboxed fits a sandbox to what the adapter asks for.
type sandboxed struct{ *wall.Sandbox }

func (w sandboxed) Prepare(tier ops.Tier) error {
	if err := w.Check(tier); err != nil {
		return err
	}
	return w.Sandbox.Prepare(tier)
}

func (w sandboxed) Wrap(tier ops.Tier, p agent.Program) (agent.Program, error) {
	out, err := w.Sandbox.Wrap(tier, p.Path, p.Argv, p.Env, p.Dir)
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = out.Path, out.Argv, out.Env, out.Dir, out.Credential
	return p, err
}

// behind puts the desk's sessions behind bubblewrap, as another user if there is one.
func (d *desk) behind(uid int, repos string) {
	d.t.Helper()
	self, err := os.Executable()
	must(d.t, err)
	must(d.t, os.MkdirAll(d.spec.StateDir, 0o700))
	c := wall.Config{
		Bubblewrap: true, Relay: []string{self, relayWord}, StateDir: d.spec.StateDir, WorkDir: d.spec.WorkDir, ReposDir: repos,
		UIDs: map[ops.Tier]int{},
	}
	if uid != 0 {
		// The user cannot reach the test binary where it is.
		c.Relay[0] = filepath.Join(filepath.Dir(d.spec.StateDir), "relay")
		data, err := os.ReadFile(self)
		if err == nil {
			err = os.WriteFile(c.Relay[0], data, 0o755)
		}
		must(d.t, err)
	}
	for tier := ops.Tier1; tier <= ops.LastTier && uid != 0; tier++ {
		c.UIDs[tier] = uid
	}
	d.walls = sandboxed{wall.New(c)}
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
		Confine: true, Auto: true, Relay: []string{self, relayWord}, StateDir: d.spec.StateDir, WorkDir: d.spec.WorkDir, ReposDir: repos,
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
					"cat /etc/shadow >/dev/null && echo stolen; mv "+secret+" "+outside+"/gone; echo looked"), responsesapi.Text("done")))
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
		"Tier 1 with network": func(d *desk) { d.options.Network = true },
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

func TestNetworkAtTier1IsOffUnlessSwitchedOn(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		d := newDesk(t, nil)
		d.api = responsesapi.New(t, responsesapi.Turns(
			responsesapi.Exec("call_1", `if (exec 3<>/dev/tcp/$HOST) 2>/dev/null; then echo connected; else echo refused; fi`), responsesapi.Text("done"),
		))
		host := strings.TrimSuffix(strings.TrimPrefix(d.api.URL(), "http://"), "/v1")
		d.spec.Env = slices.DeleteFunc(d.spec.Env, func(v string) bool { return strings.HasPrefix(v, "OPENAI_BASE_URL=") })
		d.spec.Env = append(d.spec.Env, "OPENAI_BASE_URL="+d.api.URL(), "HOST="+strings.Replace(host, ":", "/", 1))
		d.options.Network, d.options.ExtraEnv = on, []string{"HOST"}
		d.succeeded(d.run(nil))
		if out := d.output("call_1"); strings.Contains(out, "connected") != on || strings.Contains(out, "refused") == on {
			t.Errorf("network %v: %q", on, out)
		}
	}
}

func TestAboveTier1ItRunsOnlyBehindTheWall(t *testing.T) {
	t.Parallel()
	for _, tier := range []ops.Tier{ops.Tier2, ops.Tier3} {
		d, file := writing(t)
		res := d.run(func(s *ops.SessionSpec) { s.Session.Tier = tier })
		if res.ExitCode != nil || res.Failure != ops.FailureLayer || !strings.Contains(res.Err, "sandbox.bubblewrap") || exists(t, file) || len(d.api.Requests()) != 0 {
			t.Errorf("%v: %+v", tier, res)
		}
		if !slices.Equal(codex.Needs(tier), []string{codex.LayerBubblewrap}) {
			t.Errorf("%v needs %q", tier, codex.Needs(tier))
		}
	}
}

func TestBehindTheWallTier2WritesToTheRepositoriesOnly(t *testing.T) {
	t.Parallel()
	repos, outside := t.TempDir(), t.TempDir()
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Exec("call_1", "touch "+repos+"/repaired; touch "+outside+"/broken /usr/broken; echo EVIL > ~/.codex/AGENTS.md"), responsesapi.Text("done"),
	))
	d.behind(0, repos)
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

// TestTier1BehindTheWall holds that Codex's own sandbox can be set up inside ours by a user, and that a session of root, where
// that does not work, is refused with the reason.
func TestTier1BehindTheWall(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run the agent as another user")
	}
	d, file := writing(t)
	d.behind(0, "")
	res := d.run(nil)
	if res.ExitCode != nil || res.Failure != ops.FailureLayer || !strings.Contains(res.Err, "own sandbox cannot be set up") || !strings.Contains(res.Err, "sandbox.uid") || exists(t, file) {
		t.Errorf("root: %+v", res)
	}

	const user = 54_321
	// Codex puts no helpers into a temporary folder, which /tmp is behind the wall.
	dir, err := os.MkdirTemp("/var/tmp", "claudeops-test-*") //nolint:usetesting // not below /tmp
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	// The wall lets it write to its working folder, Codex does not.
	file = filepath.Join(dir, "state", "work", "file")
	d = newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", "touch "+file), responsesapi.Text("done")))
	d.spec.StateDir, d.spec.WorkDir = filepath.Join(dir, "state"), filepath.Dir(file)
	d.behind(user, "")
	d.succeeded(d.run(nil))
	if out := d.output("call_1"); !strings.Contains(out, "Read-only file system") || exists(t, file) {
		t.Errorf("a user: %q", out)
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
