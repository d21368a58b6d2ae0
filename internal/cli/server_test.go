package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// elsewhere is a daemon's server over a journal, and the command line that asks it.
type elsewhere struct {
	*apitest.Journal
	t       *testing.T
	url     string
	control *apitest.Control
	environ []string
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	return newElsewhereAt(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
}

func newElsewhereAt(t *testing.T, now time.Time) *elsewhere {
	t.Helper()
	j := apitest.Open(t, now)
	e := &elsewhere{Journal: j, t: t, control: &apitest.Control{Journal: j}}
	server := httptest.NewServer(web.New(web.Options{
		Options: api.Options{
			Store: j.Store, Control: e.control, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock, Version: "test",
			Environments: []ops.Environment{{Name: "default", Policy: ops.Policy{Cooldowns: apitest.Limits()}}},
		},
		Token: "secret",
	}))
	t.Cleanup(server.Close)
	e.url = server.URL
	// No state folder and no configuration: everything must come from the server.
	e.environ = []string{"HOME=" + t.TempDir(), "CLAUDEOPS_SERVER=" + server.URL, "CLAUDEOPS_API_TOKEN=secret"}
	return e
}

func (e *elsewhere) run(args ...string) (code int, stdout, stderr string) {
	e.t.Helper()
	var out, errs bytes.Buffer
	code = Main(args, Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Environ: e.environ, Version: "test"})
	return code, out.String(), errs.String()
}

func (e *elsewhere) must(args ...string) string {
	e.t.Helper()
	code, out, errs := e.run(args...)
	if code != exitOK {
		e.t.Fatalf("%v: exit %d\n%s", args, code, errs)
	}
	return out
}

func (e *elsewhere) chain() (ops.CycleID, []ops.SessionID) {
	e.t.Helper()
	return e.Chain(ops.NewCycle{Environment: "default"}, ops.CycleResolved, "Tier 2 repaired it.",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 17 * time.Second, Outcome: ops.OutcomeEscalate, Handoff: `{"schema_version":1,"confidence":0.85}`, Lines: []string{"one", "two"},
			Figures:  ops.Figures{CostUSD: ops.Ptr(0.25), NumTurns: ops.Ptr[int64](4), DurationMS: ops.Ptr[int64](17_000)},
			Decision: &ops.Decision{SourceHandler: "tier1", TargetHandler: "tier2", Reason: "it is down", Depth: 1, MaxDepth: 2, Verdict: ops.VerdictEscalate},
			Events:   []ops.Event{{Level: ops.LevelWarning, Verb: ops.VerbProbeFailed, Service: "jellyfin", Reason: "is down"}},
		},
		apitest.Run{Tier: 2, Model: "sonnet", For: time.Minute, Outcome: ops.OutcomeResolved, Figures: ops.Figures{CostUSD: ops.Ptr(0.5)}})
}

// shows runs a command at the server and looks for words in what it prints.
func (e *elsewhere) shows(args string, wanted ...string) string {
	e.t.Helper()
	out := e.must(strings.Fields(args)...)
	for _, want := range wanted {
		if !strings.Contains(out, want) {
			e.t.Errorf("%s: no %q in\n%s", args, want, out)
		}
	}
	return out
}

func TestCommandsShowTheJournalOfAServer(t *testing.T) {
	e := newElsewhere(t)
	e.chain()
	if _, err := e.Store.People.AddMemory(t.Context(), ops.Memory{Environment: "default", Category: "note", Observation: "starts slowly"}); err != nil {
		t.Fatal(err)
	}
	e.Check("jellyfin", ops.Down, "HTTP 502")
	e.Earn("default", "web")
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"sessions list", []string{"haiku", "sonnet", "$0.25", "escalate"}},
		{"sessions list --tier 2", []string{"sonnet"}},
		{"sessions show 1", []string{"Session #1", "Escalated to Session #2 (Tier 2)", "$0.25", "$0.75", "Confidence:    85 %"}},
		{"sessions show 2", []string{"Escalated from Session #1 (Tier 1)"}},
		{"sessions logs 1", []string{"one", "two"}},
		{"cycles list", []string{"resolved", "T1→T2", "$0.75", "Tier 2 repaired it."}},
		{"cycles show 1", []string{"it is down", "is down", "Decision after session #1: escalate"}},
		{"cycles show 1 -v", []string{"Decision after session #1: escalate", "source_handler: tier1", "target_handler: tier2"}},
		{"cycles show --session 2", []string{"it is down"}},
		{"events", []string{"is down"}},
		{"events --level critical", []string{"No events found."}},
		{"logs -n 5", []string{"is down"}},
		{"incidents list", []string{"No incidents found."}},
		{"approvals list", []string{"No approvals found."}},
		{"cooldowns list", []string{"No cooldowns found."}},
		{"memory list", []string{"starts slowly"}},
		{"costs --days 3650", []string{"Tier 1", "Tier 2", "Total of 3650 days: $0.75", "Most expensive cycles", "cycle 1"}},
		{"services list", []string{"jellyfin", "down", "HTTP 502"}},
		{"services show jellyfin", []string{"jellyfin: down", "jellyfin is down: ", "30 days", "._  now"}},
		{"reflexes show 1", []string{"Reflex 1 of web is asked", "the probe GET / finds it down (5xx)"}},
	} {
		code, out, errs := e.run(strings.Fields(tc.args)...)
		if code != exitOK {
			t.Fatalf("%s: exit %d, %s", tc.args, code, errs)
		}
		for _, want := range tc.want {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s: no %q in\n%s", tc.args, want, out)
			}
		}
	}
	if out := e.must("cycles", "show", "1"); strings.Contains(out, "source_handler") {
		t.Errorf("what a decision was made of is shown without -v:\n%s", out)
	}
	if out := e.must("sessions", "list", "--tier", "2"); strings.Contains(out, "haiku") {
		t.Errorf("the filter is not passed on:\n%s", out)
	}
	var session map[string]any
	if err := json.Unmarshal([]byte(e.must("sessions", "show", "1", "-o", "json")), &session); err != nil || session["cost_usd"] != 0.25 || session["guard_decisions"] == nil {
		t.Errorf("%v, %v", session, err)
	}
	if out := e.must("sessions", "list", "-o", "jsonl", "--limit", "1"); strings.Count(out, "\n") != 1 {
		t.Errorf("jsonl:\n%s", out)
	}
}

func TestCommandsActAtAServer(t *testing.T) {
	e := newElsewhere(t)
	_, ids := e.Chain(ops.NewCycle{Environment: "default"}, "", "", apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	e.must("sessions", "stop", fmt.Sprint(ids[0]))
	e.must("cycles", "cancel", "1", "--reason", "maintenance")
	if len(e.control.Cancelled) != 2 {
		t.Errorf("cancelled %v", e.control.Cancelled)
	}
	if out := e.must("run", "--detach", "look at the disk"); out != "2\n" || e.control.Submitted[0].Prompt != "look at the disk" {
		t.Errorf("printed %q, submitted %+v", out, e.control.Submitted)
	}
	e.must("memory", "add", "--service", "web", "starts slowly")
	if out := e.must("memory", "list"); !strings.Contains(out, "starts slowly") || !strings.Contains(out, "90%") {
		t.Errorf("memories:\n%s", out)
	}
	e.must("memory", "rm", "1")
	e.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "x", Tier: 2, Allowed: true, Mutating: true, Rule: "r"}, ops.Reservation{Service: "web", Action: "restart"})
	if out := e.must("cooldowns", "list"); !strings.Contains(out, "web") {
		t.Errorf("cooldowns:\n%s", out)
	}
	e.must("cooldowns", "clear", "web", "restart", "--reason", "new disk")
}

func TestExitCodesAreThoseOfTheStore(t *testing.T) {
	e := newElsewhere(t)
	_, reader, err := e.Store.People.AddToken(t.Context(), store.Token{Name: "reader", Role: "read", CreatedAt: e.Now, CreatedBy: "test"})
	must(t, err)
	e.chain()
	for _, tc := range []struct {
		args    []string
		environ string
		code    int
		says    string
	}{
		{args: []string{"sessions", "show", "99"}, code: exitNotFound, says: "no session 99; the newest is 2"},
		{args: []string{"cycles", "show", "C-99"}, code: exitNotFound, says: "no cycle 99; the newest is 1"},
		{args: []string{"cycles", "show", "c-1"}},
		{args: []string{"sessions", "show", "#1"}},
		{args: []string{"sessions", "show", "C-1"}, code: exitUsage, says: "is not an id"},
		{args: []string{"sessions", "show"}, code: exitUsage, says: "claudeops sessions show needs ID"},
		{args: []string{"sessions", "show", "1", "2"}, code: exitUsage, says: `does not take "2": it takes ID`},
		{args: []string{"actions", "run", "web"}, code: exitUsage, says: "claudeops actions run needs ACTION"},
		{args: []string{"actions", "run", "web", "fix"}, code: exitNotFound, says: "service web has no action fix; 'claudeops actions list'"},
		{args: []string{"incidents", "ack", "99"}, code: exitNotFound},
		{args: []string{"approvals", "approve", "99"}, code: exitNotFound, says: "there are none yet"},
		{args: []string{"silences", "add", "web", "--for", "1h", "--reason", "moving"}, says: "silence 1 lasts until"},
		{args: []string{"silences", "add", "web", "--service", "db", "--for", "1h", "--reason", "moving"}, code: exitUsage, says: "given twice"},
		{args: []string{"memory", "rm", "99"}, code: exitNotFound},
		{args: []string{"sessions", "stop", "1"}, code: exitConflict, says: "already ended"},
		{args: []string{"cycles", "cancel", "1"}, code: exitConflict},
		{args: []string{"sessions", "list", "--status", "happy"}, code: exitUsage, says: "status"},
		{args: []string{"sessions", "list"}, environ: "CLAUDEOPS_API_TOKEN=wrong", code: exitError, says: "CLAUDEOPS_API_TOKEN"},
		{args: []string{"cycles", "cancel", "1"}, environ: "CLAUDEOPS_API_TOKEN=" + reader, code: exitError, says: "read-only"},
		{args: []string{"sessions", "list"}, environ: "CLAUDEOPS_SERVER=127.0.0.1", code: exitUsage, says: "not an address"},
		{args: []string{"--server", "http://127.0.0.1:1", "sessions", "list"}, code: exitError, says: "ask the server"},
		{args: []string{"--server", e.url, "doctor"}, code: exitUsage, says: "local state folder only"},
		{args: []string{"--server", e.url, "tokens", "list"}, code: exitUsage, says: "run it on the machine of the daemon"},
		{args: []string{"tokens", "create", "x", "--role", "read"}, environ: "CLAUDEOPS_SERVER=" + e.url, code: exitUsage, says: "without --server and CLAUDEOPS_SERVER"},
		{args: []string{"--server", e.url, "--token-file", "/does/not/exist", "sessions", "list"}, code: exitUsage, says: "read token"},
	} {
		old := e.environ
		e.environ = append(e.environ, tc.environ)
		code, _, errs := e.run(tc.args...)
		e.environ = old
		if code != tc.code || !strings.Contains(errs, tc.says) {
			t.Errorf("%v %s: exit %d, want %d\n%s", tc.args, tc.environ, code, tc.code, errs)
		}
	}
}

// Without a daemon the same handler answers in the process of the command: what is refused is refused alike, under the name of the user.
func TestCommandsWithoutADaemonAskTheSameHandler(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second))
	e.chain()
	server := e.environ
	local := []string{"HOME=" + t.TempDir(), "CLAUDEOPS_STATE_DIR=" + filepath.Dir(e.Path)}
	for _, args := range [][]string{
		{"sessions", "show", "99"},
		{"cycles", "cancel", "99"},
		{"cycles", "cancel", "1"},
		{"sessions", "stop", "1"},
		{"incidents", "ack", "99"},
		{"incidents", "report", "99"},
		{"approvals", "approve", "99"},
		{"memory", "rm", "99"},
		{"memory", "add", "x", "--environment", "nowhere"},
		{"memory", "add", strings.Repeat("x", 2001)},
		{"silences", "rm", "9"},
		{"silences", "add", "--service", "x", "--environment", "nowhere", "--for", "2h", "--reason", "y"},
		{"cooldowns", "clear", "web", "invented", "--reason", "y"},
		{"actions", "run", "web", "restart", "--why", "y"},
		{"services", "show", "nothing"},
		{"costs", "--environment", "nowhere"},
	} {
		e.environ = server
		code, _, says := e.run(args...)
		e.environ = local
		localCode, _, localSays := e.run(args...)
		if code == exitOK || localCode != code || localSays != says {
			t.Errorf("%v: exit %d here, %d at the server\n%s%s", args, localCode, code, localSays, says)
		}
	}
	e.environ = local
	e.must("silences", "add", "--service", "jellyfin", "--for", "2h", "--reason", "new disk")
	e.must("memory", "add", "starts slowly")
	kept, err := e.Store.Watch.Silences(t.Context(), store.SilenceFilter{})
	if err != nil || len(kept) != 1 || kept[0].Author != person() {
		t.Errorf("kept %+v, %v", kept, err)
	}
	e.shows("memory list", "starts slowly", "operator")
	e.shows("events --kind audit", person()+" from command line: claudeops memory add starts slowly (done)")
}

func TestARedirectDoesNotGetTheToken(t *testing.T) {
	asked := false
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	if err := newClient(server.URL, "secret").ask(t.Context(), "GET", "/x", nil, nil); err == nil || asked {
		t.Errorf("followed: %v, %v", asked, err)
	}
}

func TestTheStarterFileIsValidAsItIsAndWithEverythingSwitchedOn(t *testing.T) {
	on := strings.Builder{}
	for line := range strings.Lines(starter) {
		if len(line) > 1 && line[0] == '#' && line[1] != ' ' && line[1] != '\n' {
			line = line[1:]
		} else if strings.HasPrefix(line, "#  ") {
			line = line[1:]
		}
		on.WriteString(strings.ReplaceAll(line, "/run/secrets/", ""))
	}
	for name, text := range map[string]string{"as it is": starter, "switched on": on.String()} {
		dir := t.TempDir()
		for file, secret := range map[string]string{"apprise": "ntfy://x", "claudeops-token": "full-of-twenty-letters", "claudeops-read-token": "look-of-twenty-letters"} {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(secret), 0o600))
		}
		path := filepath.Join(dir, "claudeops.yaml")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := config.Load(config.Input{ConfigPath: path, Environ: []string{"HOME=" + dir}, Dir: dir, Check: escalation.Flaws})
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		if got := c.Environments()[0].Policy.Trust; got != ops.TrustSuggest {
			t.Errorf("%s: trust is %s", name, got)
		}
		if name == "switched on" && (len(c.Environments()[0].Policy.Inventory.Services) != 2 || len(c.AppriseURLs) != 1) {
			t.Errorf("%s: %+v", name, c.Environments()[0].Policy.Inventory)
		}
	}
	if !strings.HasPrefix(starter, "# yaml-language-server: $schema=./"+schemaFile+"\n") {
		t.Error("the schema is not named in the first line")
	}
}

func TestInitNeverOverwrites(t *testing.T) {
	e := newElsewhere(t)
	path := filepath.Join(t.TempDir(), "claudeops.yaml")
	e.must("init", path)
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	code, _, errs := e.run("init", path)
	if code != exitConflict || !strings.Contains(errs, "it exists") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if text, _ := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("the file is now %s", text)
	}
	if out := e.must("init", "-"); out != starter {
		t.Errorf("printed %.60s", out)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(e.must("config", "schema")), &schema); err != nil || schema["$id"] != config.SchemaID {
		t.Errorf("schema %v, %v", schema["$id"], err)
	}
}
