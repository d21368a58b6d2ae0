package command_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/command"
	"claudeops/internal/ops"
	"claudeops/test/agentsuite"
	"claudeops/test/agenttest"
)

// run runs a shell script as an agent behind a wall.
func run(t *testing.T, o command.Options, script string, change func(*ops.SessionSpec)) (ops.RunResult, string) {
	t.Helper()
	return runBehind(t, o, behindPaper, script, change)
}

func runBehind(
	t *testing.T, o command.Options, walls func(string) agent.Walls, script string, change func(*ops.SessionSpec),
) (ops.RunResult, string) {
	t.Helper()
	dir := t.TempDir()
	spec := ops.SessionSpec{
		Session: ops.Session{ID: 5, CycleID: 3, Tier: ops.Tier1, Model: "m", Handler: "other", Key: "test-" + uuid.NewString()},
		Prompt:  "look around", SystemPrompt: "Environment: staging", Command: []string{"/bin/sh", "-c", script},
		StateDir: dir + "/state", Env: []string{"PATH=/usr/bin:/bin", "SECRET=x", "WANTED=y"},
		Limits: ops.Limits{Wall: time.Minute, Idle: time.Minute, Grace: time.Second},
	}
	if change != nil {
		change(&spec)
	}
	rec := &agenttest.Recorder{}
	res := agent.NewRunner(command.New(o), agent.Options{Walls: walls}).Run(t.Context(), spec, rec)
	if killed, err := agent.Sweep(context.Background(), spec.Session.Key); err != nil || killed > 0 {
		t.Errorf("the session left %d processes (%v)", killed, err)
	}
	return res, rec.Text()
}

const outcome = `{"schema_version":1,"outcome":"healthy","summary":"fine"}`

func TestWhichOutputIsTheOutcome(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, want, text string }{
		"the last line":                      {`echo hello; echo '{"outcome":"escalate"}'; echo '` + outcome + `'`, outcome, "fine"},
		"a line before the last":             {`echo '` + outcome + `'; echo '{"level":"info"}'; echo bye`, outcome, "fine"},
		"the whole output over many lines":   {`printf '{\n "schema_version": 1,\n "outcome": "healthy",\n "summary": "fine"\n}\n'`, outcome, "fine"},
		"without an end of line":             {`printf '%s' '` + outcome + `'`, outcome, "fine"},
		"none":                               {`echo hello; echo`, "", "hello"},
		"an object that is none":             {`echo '{"a":1}'`, "", `{"a":1}`},
		"text behind a document over lines":  {`printf '{\n"outcome":"healthy"}\nbye\n'`, "", "bye"},
		"nothing of what a failed run wrote": {`echo '` + outcome + `'; exit 4`, "", "fine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, _ := run(t, command.Options{}, tc.script, nil)
			got := ""
			if res.Structured != nil {
				var v map[string]any
				if err := json.Unmarshal(res.Structured, &v); err != nil {
					t.Fatal(err)
				}
				got = string(res.Structured)
				if v["outcome"] != "healthy" || v["summary"] != "fine" {
					t.Errorf("outcome: %s", got)
				}
			}
			if (got == "") != (tc.want == "") || res.Text != tc.text {
				t.Errorf("outcome %q, text %q", got, res.Text)
			}
			if res.Success() == strings.Contains(tc.script, "exit 4") {
				t.Errorf("result: %+v", res)
			}
		})
	}
}

func TestWhatAProgramIsGiven(t *testing.T) {
	t.Parallel()
	script := `cat; echo; env; cat "$CLAUDEOPS_OUTCOME_SCHEMA"; echo; pwd; echo warning >&2`
	res, text := run(t, command.Options{ExtraEnv: []string{"WANTED"}}, script, func(s *ops.SessionSpec) { s.OutcomeJSON = `{"type":"object"}` })
	if !res.Success() {
		t.Fatalf("result: %+v", res)
	}
	for _, want := range []string{
		"Environment: staging\n\nlook around\n", "CLAUDEOPS_TIER=1\n", "CLAUDEOPS_SESSION_ID=5\n", "CLAUDEOPS_CYCLE_ID=3\n", "CLAUDEOPS_MODEL=m\n",
		"CLAUDEOPS_DRY_RUN=false\n", "CLAUDEOPS_STATE_DIR=", "CLAUDEOPS_SESSION_KEY=", "WANTED=y\n", `{"type":"object"}`, "/agent/work\n", `{"type":"stderr","text":"warning"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "SECRET") {
		t.Error("a variable of the supervisor passed")
	}
}

func TestFiguresAddUp(t *testing.T) {
	t.Parallel()
	res, _ := run(t, command.Options{},
		`echo '{"type":"figures","cost_usd":0.25,"input_tokens":3,"num_turns":1}'; echo '{"type":"figures","cost_usd":0.5,"input_tokens":4,"output_tokens":2,"cache_read_tokens":-1}'`, nil)
	if *res.CostUSD != 0.75 || *res.InputTokens != 7 || *res.OutputTokens != 2 || *res.NumTurns != 1 || res.CacheReadTokens != nil || res.CacheWriteTokens != nil {
		t.Errorf("figures: %+v", res.Figures)
	}
}

func TestAnExitCodeIsAFailure(t *testing.T) {
	t.Parallel()
	res, _ := run(t, command.Options{}, "echo boom >&2; exit 4", nil)
	if res.Failure != ops.FailureExit || *res.ExitCode != 4 || res.Err != "sh exited with code 4: boom" || res.ResultRead {
		t.Errorf("result: %+v", res)
	}
}

func TestItRunsOnlyBehindAWall(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	for name, walls := range map[string]func(string) agent.Walls{
		"none": nil, "none for the environment": func(string) agent.Walls { return nil }, "another": func(string) agent.Walls { return agentsuite.Paper("uid") },
	} {
		res, _ := runBehind(t, command.Options{}, walls, "touch "+file, nil)
		if res.Failure != ops.FailureLayer || res.ExitCode != nil || !strings.Contains(res.Err, "sandbox.mode") {
			t.Errorf("%s: %+v", name, res)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it ran")
	}
	for _, layer := range []string{command.LayerBubblewrap, command.LayerLandlock} {
		walls := func(string) agent.Walls { return agentsuite.Paper(layer) }
		if res, _ := runBehind(t, command.Options{}, walls, "true", nil); !res.Success() {
			t.Errorf("behind %s: %+v", layer, res)
		}
	}
}

func behindPaper(string) agent.Walls { return agentsuite.Paper(command.LayerLandlock) }

func TestAHandlerWithoutAProgramIsRefused(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{nil, {""}} {
		res, _ := run(t, command.Options{}, "", func(s *ops.SessionSpec) { s.Command = argv })
		if res.Failure != ops.FailureNotFound || !strings.Contains(res.Err, "other") {
			t.Errorf("result: %+v", res)
		}
	}
}

func TestTheKeyIsReplacedByAToken(t *testing.T) {
	t.Parallel()
	var got []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "answered")
	}))
	t.Cleanup(api.Close)
	const key = "sk-the-real-key"
	o := command.Options{ExtraEnv: []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}}
	spec := ops.SessionSpec{
		Session: ops.Session{ID: 5, CycleID: 3, Tier: ops.Tier1, Handler: "other", Key: "test-" + uuid.NewString()},
		Prompt:  "look around", StateDir: t.TempDir(),
		Command: []string{"/bin/sh", "-c", `env; echo "${OPENAI_API_KEY%%-session-*} token"; curl -s -H "x-api-key: $ANTHROPIC_API_KEY" -d '{}' "$ANTHROPIC_BASE_URL/v1/messages"; echo
curl -s -H "Authorization: Bearer $OPENAI_API_KEY" -d '{}' "$OPENAI_BASE_URL/responses"; echo; echo '` + outcome + `'`},
		Env: []string{
			"PATH=/usr/bin:/bin", "ANTHROPIC_API_KEY=" + key, "ANTHROPIC_BASE_URL=" + api.URL, "OPENAI_API_KEY=" + key, "OPENAI_BASE_URL=" + api.URL + "/v1",
		},
		Limits: ops.Limits{Wall: time.Minute, Idle: time.Minute, Grace: time.Second},
	}
	rec := &agenttest.Recorder{}
	res := agent.NewRunner(command.New(o), agent.Options{Walls: behindPaper}).Run(t.Context(), spec, rec)
	text := rec.Text()
	if !res.Success() || strings.Count(text, "answered") != 2 || strings.Contains(text, key) || !strings.Contains(text, "claudeops token") {
		t.Errorf("got %+v\n%s", res, text)
	}
	want := []string{"/v1/messages", key, "", "/v1/responses", "", "Bearer " + key}
	if !slices.Equal(got, want) {
		t.Errorf("the API got %q", got)
	}
}
