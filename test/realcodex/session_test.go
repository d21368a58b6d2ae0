package realcodex_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/codex"
	"claudeops/internal/decide/report"
	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
	"claudeops/test/loopback"
	"claudeops/test/realcodex"
	"claudeops/test/responsesapi"
)

const relayWord = relay.Word // importing the package makes this program one

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confine.Word {
		syscall.Exit(confine.Main(os.Args[2:], os.Environ(), os.Stdout, os.Stderr)) //nolint:forbidigo // passed on unread; os.Exit waits a second under the race detector
	}
	os.Exit(m.Run())
}

// desk runs sessions of the real Codex with a scripted API.
type desk struct {
	t       *testing.T
	api     *responsesapi.Server
	options codex.Options
	walls   agent.Walls // nil: none
	spec    ops.SessionSpec
	rec     *agenttest.Recorder
}

func newDesk(t *testing.T, script responsesapi.Script) *desk {
	t.Helper()
	api := responsesapi.New(t, script)
	dir := t.TempDir()
	return &desk{
		t: t, api: api, options: codex.Options{Bin: realcodex.Path(t), Prices: ops.Prices{realcodex.Model: {Input: 1, CacheRead: 0.1, Output: 10}}},
		spec: ops.SessionSpec{
			Session: ops.Session{ID: 1, CycleID: 1, Tier: ops.Tier1, Model: realcodex.Model},
			Prompt:  "look around", StateDir: filepath.Join(dir, "state"), WorkDir: filepath.Join(dir, "state", "work"),
			Env:    realcodex.Env(t, api.URL()),
			Limits: ops.Limits{Wall: time.Minute, Idle: time.Minute, Tool: time.Minute, Grace: 3 * time.Second},
		},
	}
}

// run runs a session; change, if any, makes it another one than the usual.
func (d *desk) run(change func(*ops.SessionSpec)) ops.RunResult {
	d.t.Helper()
	return d.runIn(d.t.Context(), change)
}

func (d *desk) runIn(ctx context.Context, change func(*ops.SessionSpec)) ops.RunResult {
	d.t.Helper()
	spec := d.spec
	spec.Session.Key = "test-" + uuid.NewString()
	if change != nil {
		change(&spec)
	}
	d.rec = &agenttest.Recorder{}
	runner := agent.NewRunner(codex.New(d.options), agent.Options{
		Walls: func(string) agent.Walls { return d.walls },
	})
	res := runner.Run(ctx, spec, d.rec)
	if killed, err := agent.Sweep(context.Background(), spec.Session.Key); err != nil || killed > 0 {
		d.t.Errorf("the session left %d processes (%v)", killed, err)
	}
	return res
}

func (d *desk) succeeded(res ops.RunResult) ops.RunResult {
	d.t.Helper()
	if !res.Success() {
		d.t.Fatalf("the session failed: %+v\n%s", res, d.rec.Text())
	}
	return res
}

func (d *desk) last() responsesapi.Request {
	d.t.Helper()
	all := d.api.Requests()
	if len(all) == 0 {
		d.t.Fatal("there was no request")
	}
	return all[len(all)-1]
}

// output is what a command printed, as the model got it.
func (d *desk) output(id string) string {
	d.t.Helper()
	text, ok := d.last().Output(id)
	if !ok {
		d.t.Fatalf("the call %s was not answered\n%s", id, d.rec.Text())
	}
	return text
}

func TestAFreshSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Exec("call_1", "echo seen; exit 3").Took(responsesapi.Usage{Input: 1000, Cached: 400, Output: 20}),
		responsesapi.Text("done").Took(responsesapi.Usage{Input: 2000, Cached: 900, Output: 10, Reasoning: 4}),
	))
	res := d.succeeded(d.run(func(s *ops.SessionSpec) { s.SystemPrompt = "Environment: \"staging\"\n\ttab \x7f <x>" }))
	if res.Text != "done" || res.CLIVersion != realcodex.Version || res.Model != realcodex.Model || len(res.Warnings) > 0 {
		t.Errorf("result: %+v", res)
	}
	for what, pair := range map[string][2]*int64{
		"turns": {res.NumTurns, ops.Ptr(int64(2))}, "input": {res.InputTokens, ops.Ptr(int64(1700))}, "cached": {res.CacheReadTokens, ops.Ptr(int64(1300))},
		"written": {res.CacheWriteTokens, ops.Ptr(int64(0))}, "output": {res.OutputTokens, ops.Ptr(int64(30))},
		"context": {res.ContextTokens, ops.Ptr(int64(2010))}, "window": {res.ContextWindow, ops.Ptr(int64(258_400))},
	} {
		if pair[0] == nil || *pair[0] != *pair[1] {
			t.Errorf("%s: %v, want %d", what, pair[0], *pair[1])
		}
	}
	if want := (1700*1 + 1300*0.1 + 30*10) / 1e6; res.CostUSD == nil || *res.CostUSD-want > 1e-9 || want-*res.CostUSD > 1e-9 {
		t.Errorf("cost: %v, want %v", res.CostUSD, want)
	}
	req := d.last()
	if !strings.Contains(req.Developer(), "Environment: \"staging\"\n\ttab \x7f <x>") {
		t.Error("the model was not told the system prompt")
	}
	if got := req.Prompts(); !slices.Equal(got, []string{"look around"}) {
		t.Errorf("prompts: %q", got)
	}
	if got, want := req.ToolNames(), []string{"apply_patch", "exec_command", "request_user_input", "write_stdin"}; !slices.Equal(got, want) {
		t.Errorf("tools: %q, want %q", got, want)
	}
	if out := d.output("call_1"); !strings.Contains(out, "code 3") || !strings.Contains(out, "seen") {
		t.Errorf("the command answered %q", out)
	}
	if !strings.Contains(d.rec.Text(), `"type":"command_execution"`) {
		t.Errorf("the command is not in the record:\n%s", d.rec.Text())
	}
}

func TestAnAnswerThatIsNoOutcomeIsNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(responsesapi.Text("I did it")))
	res := d.succeeded(d.run(func(s *ops.SessionSpec) { s.OutcomeJSON = report.Inline(ops.Tier1) }))
	if res.Structured != nil || res.Text != "I did it" {
		t.Errorf("result: %+v", res)
	}
}

// TestAConversationIsForked holds that a run which continues a conversation is told its own share, also when another model
// goes on and Codex has the first one sum the conversation up, and that what it continues stays as it was.
func TestAConversationIsForked(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(
		responsesapi.Exec("call_1", "echo seen").Took(responsesapi.Usage{Input: 100, Cached: 10, Output: 5}),
		responsesapi.Text("done").Took(responsesapi.Usage{Input: 200, Cached: 50, Output: 7}),
	))
	first := d.succeeded(d.run(func(s *ops.SessionSpec) { s.SystemPrompt = "Environment: staging" }))
	d2 := &desk{t: t, options: d.options, spec: d.spec}
	d2.api = responsesapi.New(t, responsesapi.Turns(responsesapi.Text("and more").Took(responsesapi.Usage{Input: 400, Cached: 100, Output: 9})))
	d2.spec.Env = realcodex.Env(t, d2.api.URL())
	resume := func(from ops.RunResult, model string) func(*ops.SessionSpec) {
		return func(s *ops.SessionSpec) {
			s.Resume, s.Conversation, s.Prompt, s.Session.Model = from.CLISessionID, from.Conversation, "go on", model
		}
	}
	second := d2.succeeded(d2.run(resume(first, realcodex.Model)))
	if *second.InputTokens != 300 || *second.CacheReadTokens != 100 || *second.OutputTokens != 9 || *second.NumTurns != 1 {
		t.Errorf("figures: %d %d %d", *second.InputTokens, *second.CacheReadTokens, *second.OutputTokens)
	}
	req := d2.last()
	if got := req.Prompts(); !slices.Equal(got, []string{"look around", "go on"}) || !strings.Contains(req.Developer(), "Environment: staging") {
		t.Errorf("prompts: %q", got)
	}
	if out, ok := req.Output("call_1"); !ok || !strings.Contains(out, "seen") {
		t.Errorf("the command of the first run answered %q", out)
	}
	if got := agent.FingerprintOf(first.Conversation.Path); got != first.Conversation {
		t.Error("the record of the first conversation was changed")
	}
	third := d2.succeeded(d2.run(resume(second, realcodex.Model)))
	if *third.InputTokens != 300 || *third.OutputTokens != 9 || len(d2.last().Prompts()) != 3 {
		t.Errorf("the third: %d %d", *third.InputTokens, *third.OutputTokens)
	}
	before := len(d2.api.Requests())
	other := d2.succeeded(d2.run(resume(first, "gpt-5.6-sol")))
	calls := d2.api.Requests()[before:]
	if len(calls) != 2 || calls[0].Model != realcodex.Model || calls[1].Model != "gpt-5.6-sol" {
		t.Errorf("%d calls", len(calls))
	}
	if *other.InputTokens != 600 || *other.OutputTokens != 18 || *other.NumTurns != 2 {
		t.Errorf("figures with another model: %d %d", *other.InputTokens, *other.OutputTokens)
	}
	if other.CostUSD != nil {
		t.Errorf("a model without a price cost %v", *other.CostUSD)
	}
}

func TestASessionThatWasStoppedInsideACommandCanBeContinued(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(req responsesapi.Request) responsesapi.Answer {
		if req.Prompt() == "go on" {
			return responsesapi.Text("done")
		}
		return responsesapi.Exec("call_1", "sleep 300").Took(responsesapi.Usage{Input: 100, Output: 5})
	})
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	res := d.runIn(ctx, func(s *ops.SessionSpec) {
		s.Watch = func(a ops.Activity) *ops.Halt {
			if a.Kind == ops.ActivityCall {
				stop(ops.Stop(ops.StopUser, "enough"))
			}
			return nil
		}
	})
	if res.Stop != ops.StopUser || !strings.Contains(res.OpenTool, "sleep 300") || res.CLISessionID == "" {
		t.Fatalf("result: %+v", res)
	}
	if res.InputTokens == nil || *res.InputTokens != 100 || *res.OutputTokens != 5 {
		t.Errorf("the tokens of the stopped session are not known: %+v", res.Figures)
	}
	d.succeeded(d.run(func(s *ops.SessionSpec) {
		s.Resume, s.Conversation, s.Prompt = res.CLISessionID, res.Conversation, "go on"
	}))
}

// TestWhatTheModelUsedIsToldWhileTheSessionRuns holds that a budget can stop a session that never ends by itself.
func TestWhatTheModelUsedIsToldWhileTheSessionRuns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(req responsesapi.Request) responsesapi.Answer {
		return responsesapi.Exec(fmt.Sprintf("call_%d", req.N), "true").Took(responsesapi.Usage{Input: 100, Cached: 40, Output: 5})
	})
	var used []ops.Activity
	res := d.run(func(s *ops.SessionSpec) {
		s.Watch = func(a ops.Activity) *ops.Halt {
			if a.Kind == ops.ActivityUsage {
				used = append(used, a)
			}
			if len(used) >= 3 {
				return &ops.Halt{Cause: ops.StopBudget, Why: "the budget is spent"}
			}
			return nil
		}
	})
	if res.Stop != ops.StopBudget || res.StopWhy != "the budget is spent" || len(used) != 3 {
		t.Fatalf("result: %+v", res)
	}
	for _, a := range used {
		if a.InputTokens != 60 || a.CacheReadTokens != 40 || a.OutputTokens != 5 || a.Model != realcodex.Model || a.Message == "" {
			t.Errorf("usage: %+v", a)
		}
	}
	if used[0].Message == used[1].Message {
		t.Error("two calls of the model have one id")
	}
	if res.NumTurns == nil || *res.NumTurns < 3 || *res.InputTokens != 60**res.NumTurns {
		t.Errorf("figures: %+v", res.Figures)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer responsesapi.Answer
		class  ops.FailureClass
		status int
		words  string
		calls  int
	}{
		"401":               {responsesapi.Fail(401, "bad key"), ops.FailureAPI, 401, "the API answered 401: bad key", 2},
		"403":               {responsesapi.Fail(403, "no"), ops.FailureAPI, 403, "the API answered 403: no", 2},
		"400":               {responsesapi.Fail(400, "bad schema"), ops.FailureAPI, 400, "the API answered 400: bad schema", 1},
		"404":               {responsesapi.Fail(404, "The model `x` does not exist or you do not have access to it."), ops.FailureModelNotFound, 404, "does not exist", 1},
		"429":               {responsesapi.Fail(429, "slow down"), ops.FailureAPI, 429, "the API answered 429", 1},
		"429 with a time":   {responsesapi.Fail(429, "slow down").RetryAfter(time.Second), ops.FailureAPI, 429, "the API answered 429", 2},
		"500":               {responsesapi.Fail(500, "boom"), ops.FailureAPI, 500, "the API failed", 6},
		"503":               {responsesapi.Fail(503, "overloaded"), ops.FailureAPI, 503, "the API answered 503: overloaded", 6},
		"a cut stream":      {responsesapi.Text("half").Cut(), ops.FailureAPI, 0, "stream disconnected", 2},
		"a full context":    {responsesapi.Failed("context_length_exceeded", "too long"), ops.FailurePromptTooLong, 0, "context window", 1},
		"a failed response": {responsesapi.Failed("server_error", "oops"), ops.FailureAPI, 0, "oops", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, responsesapi.InOrder(tc.answer))
			res := d.run(nil)
			if res.Success() || !res.IsError || res.Failure != tc.class || !strings.Contains(res.Err, tc.words) || *res.ExitCode != 1 {
				t.Errorf("result: %+v", res)
			}
			if got := res.APIStatus; (got == nil) != (tc.status == 0) || got != nil && *got != tc.status {
				t.Errorf("status: %v", got)
			}
			if got := len(d.api.Requests()); got != tc.calls {
				t.Errorf("%d calls, want %d", got, tc.calls)
			}
		})
	}
}

func TestWithoutAKeyItSaysSo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, responsesapi.Turns(responsesapi.Text("done")))
	d.spec.Env = slices.DeleteFunc(d.spec.Env, func(v string) bool { return strings.HasPrefix(v, "OPENAI_API_KEY=") })
	if res := d.run(nil); res.Failure != ops.FailureAgent || !strings.Contains(res.Err, "OPENAI_API_KEY") {
		t.Errorf("result: %+v", res)
	}
}

// TestNothingElseIsCalled holds that the program reaches for no other host: a proxy that takes all else is never asked.
func TestNothingElseIsCalled(t *testing.T) {
	t.Parallel()
	environ, end := loopback.Trap(t)
	d := newDesk(t, responsesapi.Turns(responsesapi.Exec("call_1", "true"), responsesapi.Text("done")))
	d.spec.Env = append(d.spec.Env, environ...)
	d.succeeded(d.run(nil))
	if asked := end(); asked != 0 || len(d.api.Others()) != 0 || len(d.api.Requests()) != 2 {
		t.Errorf("connections elsewhere: %d; other requests: %q; calls: %d", asked, d.api.Others(), len(d.api.Requests()))
	}
}
