package claude

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// called runs a session and returns how the program saw it.
func called(t *testing.T, spec ops.SessionSpec, o Options) agenttest.Call {
	t.Helper()
	o.Bin = agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.1)}})
	o.Env = testEnv()
	if res := newRunner(o).Run(t.Context(), spec, &agenttest.Recorder{}); !res.Success() {
		t.Fatalf("the session failed: %+v", res)
	}
	return agenttest.Calls(t, o.Bin)[0]
}

func TestArgumentsOfAFreshSession(t *testing.T) {
	spec := testSpec(t)
	spec.SystemPrompt = "Environment: home"
	spec.Tools = ops.ToolLists{Tools: []string{"Bash", "Read"}, Allowed: []string{"Read"}, Disallowed: []string{"Task", "Bash(rm:*)"}}
	call := called(t, spec, Options{})
	settings := filepath.Join(spec.StateDir, "agent", "settings-"+spec.Session.Key+".json")
	want := []string{
		"-p", "Look at the services.", "--output-format", "stream-json", "--verbose", "--model", "haiku",
		"--session-id", spec.Session.PlannedID, "--append-system-prompt", "Environment: home",
		"--tools", "Bash,Read", "--allowedTools", "Read", "--disallowedTools", "Task,Bash(rm:*)",
		"--disable-slash-commands", "--permission-prompts", "none", "--permission-mode", "dontAsk", "--settings", settings, "--setting-sources", "", "--strict-mcp-config",
	}
	if !slices.Equal(call.Args, want) {
		t.Errorf("got  %q\nwant %q", call.Args, want)
	}
	if call.Stdin != "" {
		t.Errorf("standard input: %q", call.Stdin)
	}
	if call.Dir != spec.WorkDir {
		t.Errorf("working folder %s, want %s", call.Dir, spec.WorkDir)
	}
	if left, err := filepath.Glob(filepath.Join(spec.StateDir, "agent", "*.json")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

func TestArgumentsOfAResumedSession(t *testing.T) {
	spec := testSpec(t)
	spec.Resume = "75da5a0e-3c1c-4b7e-9d55-0d9f6a2c1e11"
	spec.OutcomeJSON = `{"type":"object"}`
	call := called(t, spec, Options{Prefix: nil})
	text := strings.Join(call.Args, "\x00")
	for _, want := range [][]string{
		{"--resume", spec.Resume, "--fork-session", "--session-id", spec.Session.PlannedID},
		{"--strict-mcp-config", "--json-schema", spec.OutcomeJSON},
	} {
		if !strings.Contains(text, strings.Join(want, "\x00")) {
			t.Errorf("%q is not in %q", want, call.Args)
		}
	}
	for _, option := range []string{"--append-system-prompt", "--tools", "--allowedTools", "--disallowedTools"} {
		if _, ok := call.Option(option); ok {
			t.Errorf("%s was given without a value", option)
		}
	}
}

func TestTheSettingsAreAFileOnlyWeCanRead(t *testing.T) {
	spec := testSpec(t)
	out := filepath.Join(t.TempDir(), "settings")
	bin := agenttest.Fake(t, play(
		agenttest.Step{Run: `stat -c %a "$CLAUDEOPS_STATE_DIR"/agent/settings-*.json "$HOME" "$CLAUDE_CONFIG_DIR" > ` + out + ` && cat "$CLAUDEOPS_STATE_DIR"/agent/settings-*.json >> ` + out},
		agenttest.Step{Out: agenttest.Result(0.1, "done")},
	))
	if res := newRunner(Options{Bin: bin}).Run(t.Context(), spec, &agenttest.Recorder{}); !res.Success() {
		t.Fatalf("the session failed: %+v", res)
	}
	data, err := os.ReadFile(out)
	must(t, err)
	if got := strings.Fields(string(data)); !slices.Equal(got, []string{"600", "700", "700", "{}"}) {
		t.Errorf("got %q", got)
	}
}

func TestLongTextsTravelByFile(t *testing.T) {
	spec := testSpec(t)
	spec.Prompt = strings.Repeat("prompt ", 100_000)
	spec.SystemPrompt = strings.Repeat("system ", 100_000)
	seen := filepath.Join(t.TempDir(), "system")
	bin := agenttest.Fake(t, play(
		agenttest.Step{Run: `cp "$CLAUDEOPS_STATE_DIR"/agent/system-*.md ` + seen},
		agenttest.Step{Out: agenttest.Result(0.1, "done")},
	))
	if res := newRunner(Options{Bin: bin}).Run(t.Context(), spec, &agenttest.Recorder{}); !res.Success() {
		t.Fatalf("the session failed: %+v", res)
	}
	call := agenttest.Calls(t, bin)[0]
	if call.Stdin != spec.Prompt || call.Args[1] != "--output-format" {
		t.Errorf("the prompt came as %d bytes on standard input, arguments %q", len(call.Stdin), call.Args[:3])
	}
	if name, ok := call.Option("--append-system-prompt-file"); !ok || filepath.Dir(name) != filepath.Join(spec.StateDir, "agent") {
		t.Errorf("the system prompt is in %q", name)
	}
	if data, err := os.ReadFile(seen); err != nil || string(data) != spec.SystemPrompt {
		t.Errorf("the system prompt came as %d bytes: %v", len(data), err)
	}
	if left, err := os.ReadDir(filepath.Join(spec.StateDir, "agent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files are left: %v %v", left, err)
	}
}

func TestAPromptThatLooksLikeAnOptionIsNoArgument(t *testing.T) {
	spec := testSpec(t)
	spec.Prompt = "--dangerously-skip-permissions"
	if call := called(t, spec, Options{}); slices.Contains(call.Args, spec.Prompt) || call.Stdin != spec.Prompt {
		t.Errorf("arguments %q, standard input %q", call.Args, call.Stdin)
	}
}

func TestTheEnvironmentIsBuiltFromNothing(t *testing.T) {
	spec := testSpec(t)
	spec.DryRun = true
	spec.Session.Tier = ops.Tier2
	spec.Limits.Tool = 20 * time.Minute
	spec.Env = []string{
		"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp", "https_proxy=http://p:1", "NO_PROXY=x",
		"ANTHROPIC_API_KEY=k", "CLAUDE_CODE_OAUTH_TOKEN=o", "CLAUDE_CODE_MAX_RETRIES=0", "DISABLE_TELEMETRY=0",
		"CLAUDE_CODE_PLUGIN_DIRS=/tmp/p", "CLAUDE_CODE_SYNC_SKILLS=1", "CLAUDE_CODE_SHELL=/tmp/sh", "ANTHROPIC_UNHEARD=x", "DISABLE_UNHEARD=1", "OPENAI_API_KEY=no",
		"MY_VAR=mine", "AWS_SECRET_ACCESS_KEY=no", "HOME=/root", "CLAUDEOPS_API_TOKEN=no", "CLAUDEOPS_SESSION_KEY=other",
		"SSH_AUTH_SOCK=no", "BROKEN", "=x",
	}
	call := called(t, spec, Options{ExtraEnv: []string{"MY_VAR", "HOME"}})
	folder := filepath.Join(spec.StateDir, "agent")
	want := []string{
		"ANTHROPIC_API_KEY=a token", "ANTHROPIC_BASE_URL=http://127.0.0.1:a port", "API_TIMEOUT_MS=300000", "BASH_DEFAULT_TIMEOUT_MS=1080000", "BASH_MAX_TIMEOUT_MS=1080000",
		"CLAUDEOPS_CYCLE_ID=7", "CLAUDEOPS_DRY_RUN=true", "CLAUDEOPS_HANDLER=", "CLAUDEOPS_ROLE=work", "CLAUDEOPS_SESSION_ID=18", "CLAUDEOPS_SESSION_KEY=" + spec.Session.Key,
		"CLAUDEOPS_STATE_DIR=" + spec.StateDir, "CLAUDEOPS_TIER=2",
		"CLAUDE_CODE_DISABLE_BUNDLED_SKILLS=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=0", "CLAUDE_CODE_OAUTH_TOKEN=a token",
		"CLAUDE_CODE_SYNC_PLUGINS=0", "CLAUDE_CODE_SYNC_PLUGIN_INSTALL=0", "CLAUDE_CODE_SYNC_SKILLS=0",
		"CLAUDE_CONFIG_DIR=" + filepath.Join(folder, "config"), "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=0", "ENABLE_CLAUDEAI_MCP_SERVERS=false",
		"HOME=" + filepath.Join(folder, "home"), "LANG=C.UTF-8", "LC_ALL=C", "MY_VAR=mine", "NO_PROXY=x,127.0.0.1", "PATH=/usr/bin:/bin",
		"TMPDIR=/tmp", "TZ=UTC", "https_proxy=http://p:1", "no_proxy=x,127.0.0.1",
	}
	// The shell that starts the fake adds some of its own.
	got := slices.DeleteFunc(call.Env, func(e string) bool {
		return strings.HasPrefix(e, "PWD=") || strings.HasPrefix(e, "OLDPWD=") || strings.HasPrefix(e, "SHLVL=") || strings.HasPrefix(e, "_=")
	})
	for i, e := range got { // the key proxy holds the keys
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(value, "claudeops-session-") {
			got[i] = name + "=a token"
		} else if name == "ANTHROPIC_BASE_URL" {
			got[i] = name + "=" + value[:strings.LastIndex(value, ":")] + ":a port"
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// toldBy is what a program tells of its version.
func toldBy(ctx context.Context, c *Claude) (version string, known bool) {
	able := c.Able(ctx, nil)
	return able.Version, able.Known
}

func TestVersions(t *testing.T) {
	tests := []struct {
		name    string
		s       agenttest.Scenario
		version string
		known   bool
	}{
		{"as Claude Code prints it", agenttest.Scenario{}, "2.1.325", true},
		{"only the number", agenttest.Scenario{Version: "2.1.100"}, "2.1.100", true},
		{"not told", agenttest.Scenario{NoVersion: true}, "", false},
		{"another program", agenttest.Scenario{Version: "usage: claude 1.2.3 [options]"}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(Options{Bin: agenttest.Fake(t, tt.s), Env: testEnv()})
			if version, known := toldBy(t.Context(), c); version != tt.version || known != tt.known {
				t.Errorf("got %q, %v", version, known)
			}
		})
	}
	if _, known := toldBy(t.Context(), New(Options{Bin: "/nonexistent/claude"})); known {
		t.Error("a program that is not there has no version")
	}
}

func TestTheVersionIsAskedOncePerProgram(t *testing.T) {
	dir := t.TempDir()
	bin, asked := filepath.Join(dir, "claude"), filepath.Join(dir, "asked")
	write := func(version string) {
		script := "#!/bin/sh\necho x >> " + asked + "\necho " + version + "\n"
		must(t, os.WriteFile(bin+".new", []byte(script), 0o700))
		must(t, os.Rename(bin+".new", bin))
	}
	c := New(Options{Bin: bin})
	for _, version := range []string{"2.1.300", "2.1.3000"} {
		write(version)
		for range 3 {
			if got, known := toldBy(t.Context(), c); got != version || !known {
				t.Errorf("got %q, %v, want %q", got, known, version)
			}
		}
	}
	if data, err := os.ReadFile(asked); err != nil || len(data) != 4 {
		t.Errorf("asked %d times, want 2 (%v)", len(data)/2, err)
	}
}

func TestAProgramThatHangsWhenAskedForItsVersionIsGivenUp(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "claude")
	must(t, os.WriteFile(bin, []byte("#!/bin/sh\n[ -e $0.now ] && echo 2.1.300 && exit\nsleep 600 & sleep 600\n"), 0o700))
	c := New(Options{Bin: bin})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if version, known := toldBy(ctx, c); known || time.Since(begun) > time.Minute {
		t.Errorf("got %q after %v", version, time.Since(begun))
	}
	must(t, os.WriteFile(bin+".now", nil, 0o600))
	if version, known := toldBy(t.Context(), c); !known {
		t.Errorf("an answer that was not awaited is remembered: %q", version)
	}
}

func TestAnOldProgramIsRefusedAboveTierOne(t *testing.T) {
	tests := []struct {
		s       agenttest.Scenario
		tier    ops.Tier
		refused bool
		warned  bool
	}{
		{agenttest.Scenario{Version: "2.1.294 (Claude Code)"}, ops.Tier2, true, false},
		{agenttest.Scenario{Version: "2.1.294 (Claude Code)"}, ops.Tier1, false, true},
		{agenttest.Scenario{Version: "2.1.295 (Claude Code)"}, ops.Tier3, false, false},
		{agenttest.Scenario{Version: "3.0.0"}, ops.Tier3, false, false},
		{agenttest.Scenario{NoVersion: true}, ops.Tier3, false, true},
	}
	for _, tt := range tests {
		tt.s.Plays = []agenttest.Play{agenttest.Healthy(0.1)}
		bin := agenttest.Fake(t, tt.s)
		c := New(Options{Bin: bin, Env: testEnv()})
		toldBy(t.Context(), c)
		spec := testSpec(t)
		spec.Session.Tier = tt.tier
		res := agent.NewRunner(c, agent.Options{}).Run(t.Context(), spec, &agenttest.Recorder{})
		if refused := res.Failure == "too_old" && strings.Contains(res.Err, "2.1.295"); refused != tt.refused || res.Success() == tt.refused {
			t.Errorf("%+v at %v: got %q %q", tt.s.Version, tt.tier, res.Failure, res.Err)
		}
		if ran := len(agenttest.Calls(t, bin)) > 0; ran == tt.refused {
			t.Errorf("%+v at %v: ran %v", tt.s.Version, tt.tier, ran)
		}
		if warned := len(res.Warnings) > 0; warned != tt.warned {
			t.Errorf("%+v at %v: warnings %q", tt.s.Version, tt.tier, res.Warnings)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
