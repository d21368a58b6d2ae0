package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/config"
	_ "claudeops/internal/guard/early" // this program puts itself behind the walls
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
)

const (
	plainProgram = "#!/bin/sh\necho started\n"
	interpreter  = "a copy of /bin/sh" // in the place of another
	// A script of a package that needs another one beside its own.
	module = "#!/usr/bin/env node\n" + needs
	needs  = `. "$(dirname "$(readlink -f "$0")")/../needed/index.js"` + "\n"
	needed = "echo started\n"
)

// layout is how a kind of installation leaves a program in a home (~) or beside it (+). A value that begins with -> is a link.
type layout struct {
	bin    string
	files  map[string]string
	hidden string // the folder that agents do not see, where that is what has to be said
}

// layouts are the places in which people have programs.
func layouts() map[string]layout {
	type files = map[string]string
	return map[string]layout{
		"the native installer":          {"~/.local/bin/claude", files{"~/.local/bin/claude": "->~/.local/share/claude/versions/2.1.325", "~/.local/share/claude/versions/2.1.325": plainProgram}, ""},
		"its older local folder":        {"~/.claude/local/claude", files{"~/.claude/local/claude": "#!/bin/sh\nexec ~/.claude/local/node_modules/.bin/claude\n", "~/.claude/local/node_modules/.bin/claude": "->../claude/cli.js", "~/.claude/local/node_modules/claude/cli.js": plainProgram}, ""},
		"npm with the prefix ~/.local":  {"~/.local/bin/claude", files{"~/.local/bin/claude": "->../lib/node_modules/claude/cli.js", "~/.local/lib/node_modules/claude/cli.js": "#!/usr/bin/env sh\n" + needs, "~/.local/lib/node_modules/needed/index.js": needed}, ""},
		"npm with ~/.npm-global":        {"~/.npm-global/bin/claude", files{"~/.npm-global/bin/claude": "->../lib/node_modules/claude/cli.js", "~/.npm-global/lib/node_modules/claude/cli.js": "#!/usr/bin/env sh\n" + needs, "~/.npm-global/lib/node_modules/needed/index.js": needed}, ""},
		"npm with a prefix of its own":  {"+/npm/bin/claude", files{"+/npm/bin/claude": "->../lib/node_modules/claude/cli.js", "+/npm/bin/node": interpreter, "+/npm/lib/node_modules/claude/cli.js": module, "+/npm/lib/node_modules/needed/index.js": needed}, ""},
		"node_modules/.bin":             {"~/project/node_modules/.bin/claude", files{"~/project/node_modules/.bin/claude": "->../claude/cli.js", "~/project/node_modules/claude/cli.js": "#!/usr/bin/env sh\n" + needs, "~/project/node_modules/needed/index.js": needed}, ""},
		"a package inside a package":    {"~/project/node_modules/.bin/claude", files{"~/project/node_modules/.bin/claude": "->../outer/node_modules/claude/cli.js", "~/project/node_modules/outer/node_modules/claude/cli.js": "#!/usr/bin/env sh\n" + `. "$(dirname "$(readlink -f "$0")")/../../../needed/index.js"` + "\n", "~/project/node_modules/needed/index.js": needed}, ""},
		"nvm":                           {"~/.nvm/versions/node/v22/bin/claude", files{"~/.nvm/versions/node/v22/bin/claude": "->../lib/node_modules/claude/cli.js", "~/.nvm/versions/node/v22/bin/node": interpreter, "~/.nvm/versions/node/v22/lib/node_modules/claude/cli.js": module, "~/.nvm/versions/node/v22/lib/node_modules/needed/index.js": needed}, ""},
		"fnm":                           {"~/.local/state/fnm_multishells/1/bin/claude", files{"~/.local/state/fnm_multishells/1": "->~/.local/share/fnm/v22/installation", "~/.local/share/fnm/v22/installation/bin/claude": "->../lib/node_modules/claude/cli.js", "~/.local/share/fnm/v22/installation/bin/node": interpreter, "~/.local/share/fnm/v22/installation/lib/node_modules/claude/cli.js": module, "~/.local/share/fnm/v22/installation/lib/node_modules/needed/index.js": needed}, ""},
		"fnm in ~/.fnm":                 {"~/.fnm/v22/installation/bin/claude", files{"~/.fnm/v22/installation/bin/claude": "->../lib/node_modules/claude/cli.js", "~/.fnm/v22/installation/bin/node": interpreter, "~/.fnm/v22/installation/lib/node_modules/claude/cli.js": module, "~/.fnm/v22/installation/lib/node_modules/needed/index.js": needed}, ""},
		"volta":                         {"~/.volta/bin/claude", files{"~/.volta/bin/claude": "->volta-shim", "~/.volta/bin/volta-shim": "#!/bin/sh\nexec ~/.volta/tools/image/packages/claude/bin/claude\n", "~/.volta/tools/image/packages/claude/bin/claude": plainProgram}, ""},
		"pnpm":                          {"~/.local/share/pnpm/claude", files{"~/.local/share/pnpm/claude": "#!/bin/sh\nexec sh \"$(dirname \"$0\")/global/5/node_modules/claude/cli.js\"\n", "~/.local/share/pnpm/global/5/node_modules/claude": "->.pnpm/claude@2/node_modules/claude", "~/.local/share/pnpm/global/5/node_modules/.pnpm/claude@2/node_modules/claude/cli.js": plainProgram}, ""},
		"pnpm in a project":             {"~/project/node_modules/.bin/claude", files{"~/project/node_modules/.bin/claude": "#!/bin/sh\nexec sh \"$(dirname \"$0\")/../claude/cli.js\"\n", "~/project/node_modules/claude": "->.pnpm/claude@2/node_modules/claude", "~/project/node_modules/.pnpm/claude@2/node_modules/claude/cli.js": plainProgram}, ""},
		"yarn":                          {"~/.yarn/bin/claude", files{"~/.yarn/bin/claude": "->~/.config/yarn/global/node_modules/.bin/claude", "~/.config/yarn/global/node_modules/.bin/claude": "->../claude/cli.js", "~/.config/yarn/global/node_modules/claude/cli.js": "#!/usr/bin/env sh\n" + needs, "~/.config/yarn/global/node_modules/needed/index.js": needed}, ""},
		"bun":                           {"~/.bun/bin/claude", files{"~/.bun/bin/claude": "->../install/global/node_modules/claude/cli.js", "~/.bun/bin/bun": interpreter, "~/.bun/install/global/node_modules/claude/cli.js": "#!/usr/bin/env bun\n" + needs, "~/.bun/install/global/node_modules/needed/index.js": needed}, ""},
		"deno":                          {"~/.deno/bin/agent", files{"~/.deno/bin/agent": "#!/usr/bin/env -S deno -e\necho started\n", "~/.deno/bin/deno": interpreter}, ""},
		"uv":                            {"~/.local/bin/agent", files{"~/.local/bin/agent": "->~/.local/share/uv/tools/agent/bin/agent", "~/.local/share/uv/tools/agent/bin/agent": "#!~/.local/share/uv/tools/agent/bin/python\necho started\n", "~/.local/share/uv/tools/agent/bin/python": "->~/.local/share/uv/python/cpython-3.12/bin/python3.12", "~/.local/share/uv/python/cpython-3.12/bin/python3.12": interpreter}, ""},
		"pipx":                          {"~/.local/bin/agent", files{"~/.local/bin/agent": "->~/.local/share/pipx/venvs/agent/bin/agent", "~/.local/share/pipx/venvs/agent/bin/agent": "#!~/.local/share/pipx/venvs/agent/bin/python\necho started\n", "~/.local/share/pipx/venvs/agent/bin/python": "->python3", "~/.local/share/pipx/venvs/agent/bin/python3": "->/bin/sh"}, ""},
		"pyenv":                         {"~/.pyenv/shims/agent", files{"~/.pyenv/shims/agent": "#!/usr/bin/env bash\nexec ~/.pyenv/libexec/pyenv\n", "~/.pyenv/libexec/pyenv": "#!/usr/bin/env bash\nexec ~/.pyenv/versions/3.12/bin/agent\n", "~/.pyenv/versions/3.12/bin/agent": plainProgram}, ""},
		"a virtual environment":         {"~/src/agent/.venv/bin/agent", files{"~/src/agent/.venv/bin/agent": "#!~/src/agent/.venv/bin/python\necho started\n", "~/src/agent/.venv/bin/python": "->~/.pyenv/versions/3.12/bin/python3", "~/.pyenv/versions/3.12/bin/python3": interpreter}, ""},
		"conda":                         {"~/miniconda3/bin/agent", files{"~/miniconda3/bin/agent": "#!~/miniconda3/bin/python\necho started\n", "~/miniconda3/bin/python": "->python3.12", "~/miniconda3/bin/python3.12": interpreter}, ""},
		"asdf":                          {"~/.asdf/shims/agent", files{"~/.asdf/shims/agent": "#!/usr/bin/env bash\nexec ~/.asdf/installs/nodejs/22/bin/agent\n", "~/.asdf/installs/nodejs/22/bin/agent": plainProgram}, ""},
		"mise":                          {"~/.local/share/mise/installs/node/22/bin/claude", files{"~/.local/share/mise/installs/node/22/bin/claude": "->../lib/node_modules/claude/cli.js", "~/.local/share/mise/installs/node/22/bin/node": interpreter, "~/.local/share/mise/installs/node/22/lib/node_modules/claude/cli.js": module, "~/.local/share/mise/installs/node/22/lib/node_modules/needed/index.js": needed}, ""},
		"a shim of mise":                {"~/.local/share/mise/shims/claude", files{"~/.local/share/mise/shims/claude": "->~/.local/bin/mise", "~/.local/bin/mise": "#!/bin/sh\nexec ~/.local/share/mise/installs/claude/2/bin/claude\n", "~/.local/share/mise/installs/claude/2/bin/claude": plainProgram}, "~/.local/share/mise/installs/claude/2/bin"},
		"linuxbrew":                     {"~/.linuxbrew/bin/claude", files{"~/.linuxbrew/bin/claude": "->../Cellar/claude/2/bin/claude", "~/.linuxbrew/Cellar/claude/2/bin/claude": plainProgram}, ""},
		"cargo":                         {"~/.cargo/bin/agent", files{"~/.cargo/bin/agent": plainProgram}, ""},
		"go":                            {"~/go/bin/agent", files{"~/go/bin/agent": plainProgram}, ""},
		"nix":                           {"~/.nix-profile/bin/claude", files{"~/.nix-profile": "->+/nix/profile-1", "+/nix/profile-1/bin/claude": "->+/nix/claude-2/bin/claude", "+/nix/claude-2/bin/claude": plainProgram}, ""},
		"/opt":                          {"+/opt/claude/bin/claude", files{"+/opt/claude/bin/claude": "#!/bin/sh\nexec +/opt/claude/libexec/claude\n", "+/opt/claude/libexec/claude": plainProgram}, ""},
		"a link in ~/bin":               {"~/bin/claude", files{"~/bin/claude": "->~/src/claude/cli", "~/src/claude/cli": plainProgram}, ""},
		"a folder with a space":         {"~/my tools/claude", files{"~/my tools/claude": plainProgram}, ""},
		"a link in the place of .local": {"~/.local/bin/claude", files{"~/.local": "->+/elsewhere/local", "+/elsewhere/local/bin/claude": "->~/.local/share/claude/versions/2", "+/elsewhere/local/share/claude/versions/2": plainProgram}, ""},
		"a wrapper in ~/bin":            {"~/bin/claude", files{"~/bin/claude": "#!/bin/sh\nexec ~/tools/claude/claude \"$@\"\n", "~/tools/claude/claude": plainProgram}, "~/tools/claude"},
		"a wrapper that says nothing":   {"~/bin/claude", files{"~/bin/claude": "#!/bin/sh\n~/tools/claude/claude \"$@\" 2>/dev/null || exit 1\n", "~/tools/claude/claude": plainProgram}, "~/tools/claude"},
		"a wrapper that knows the home": {"~/bin/claude", files{"~/bin/claude": "#!/bin/sh\nexec $HOME/tools/claude/claude \"$@\"\n", "~/tools/claude/claude": plainProgram}, "~/tools/claude"},
	}
}

// Wherever people install an agent, it starts behind the walls, or they read which folder is hidden and the line that opens it.
func TestAnAgentStartsWherePeopleInstallIt(t *testing.T) {
	cache := filepath.Join("..", "..", ".cache")      // agents see nothing of it, as of most folders
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // as others make it
		t.Fatal(err)
	}
	for name, l := range layouts() {
		for _, at := range []string{"", " behind a link"} {
			if testing.Short() && at != "" && l.hidden == "" {
				continue
			}
			t.Run(name+at, func(t *testing.T) {
				root, err := os.MkdirTemp(cache, "layout-*") //nolint:usetesting // agents see something of temporary folders
				if err == nil {
					root, err = filepath.Abs(root)
				}
				must(t, err)
				whole := root
				t.Cleanup(func() { _ = os.RemoveAll(whole) })
				if at != "" { // as /home is one to /var/home
					linked := root + "/link"
					lay(t, root+"/real/home/.keep", "")
					must(t, os.Symlink("real", linked))
					root = linked
				}
				place := strings.NewReplacer("~", root+"/home", "+", root)
				t.Setenv("HOME", root+"/home")
				for file, text := range l.files {
					lay(t, place.Replace(file), place.Replace(text))
				}
				said, err := started(t, place.Replace(l.bin), "")
				if l.hidden == "" {
					if err != nil || said.Line != "started\n" {
						t.Fatalf("it said %+v, %v", said, err)
					}
					return
				}
				hidden := place.Replace(l.hidden)
				if said.Line != "" || err == nil || !strings.Contains(err.Error(), "agents do not see "+hidden+": open it with sandbox.readable: ["+hidden+"]") {
					t.Fatalf("it said %+v, %v", said, err)
				}
				if said, err := started(t, place.Replace(l.bin), hidden); !strings.Contains(place.Replace(l.files[l.bin]), "$HOME") && (err != nil || said.Line != "started\n") {
					t.Errorf("opened, it said %+v, %v", said, err)
				}
			})
		}
	}
}

// lay makes a file, a link or an interpreter.
func lay(t *testing.T, file, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // as others make it
	switch to, link := strings.CutPrefix(text, "->"); {
	case err != nil:
	case link:
		err = os.Symlink(to, file)
	default:
		if text == interpreter {
			var program []byte
			if program, err = os.ReadFile("/bin/sh"); err != nil {
				t.Fatal(err)
			}
			text = string(program)
		}
		err = os.WriteFile(file, []byte(text), 0o755) //nolint:gosec // a program
	}
	must(t, err)
}

// started starts a program behind the walls of Tier 1, and returns what it said, or what people read of why it did not start.
func started(t *testing.T, bin, readable string) (agent.Answer, error) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	p, err := agent.Find(bin, "install it")
	if err != nil {
		return agent.Answer{}, err
	}
	dir := t.TempDir()
	c := &config.Config{StateDir: filepath.Join(dir, "state")}
	c.Guard.Sandbox.Mode = config.SandboxAuto
	if readable != "" {
		c.Guard.Sandbox.Readable = []string{readable}
	}
	trials := &Trials{config: c, self: self}
	state := filepath.Join(dir, "trial")
	must(t, os.Mkdir(state, 0o700))
	walls := &sandboxed{
		Sandbox: trials.walls(ops.Environment{Name: "default"}, state), networks: &networks{}, log: slog.New(slog.DiscardHandler),
		clones: func(string) (*wall.Clones, error) { return nil, nil }, //nolint:nilnil // it gets none
	}
	p.Key, p.Dir = "layout-"+uuid.NewString(), filepath.Join(state, "agent", "work")
	p.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + filepath.Join(state, "agent", "home"), "CLAUDEOPS_STATE_DIR=" + state}
	behind, err := p.Behind(walls, ops.Tier1)
	must(t, err)
	said := agent.Ask(t.Context(), behind)
	if said.ExitCode == 0 {
		return said, nil
	}
	return said, agent.Refuse(ops.FailureStart, "%s%s", said.Died(), agent.HiddenFrom(walls.Hides(ops.Tier1, p), said.Error, p))
}
