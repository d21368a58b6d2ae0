package realcli_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

// snapshotOff makes the program write the system prompt and the tools again on a resume.
var snapshotOff = []string{"--system-prompt-snapshot", "off"}

// tiers plays three tiers of one conversation; each looks once and then ends.
func tiers(t *testing.T) messagesapi.Script {
	return func(req messagesapi.Request) messagesapi.Answer {
		calls := map[string]messagesapi.Answer{
			"tier one":   messagesapi.Bash("toolu_one", "echo evidence of one"),
			"tier two":   messagesapi.Call("toolu_two", "Read", map[string]any{"file_path": "/etc/hostname"}),
			"tier three": messagesapi.Bash("toolu_three", "echo evidence of three"),
		}
		call, ok := calls[req.Prompt()]
		if !ok {
			t.Errorf("unexpected prompt %q", req.Prompt())
		}
		return messagesapi.Turns(call, messagesapi.Text("end of "+req.Prompt()))(req).
			Took(messagesapi.Usage{Input: 50_000, Output: 5_000})
	}
}

func TestCLI_AForkContinuesTheConversationWithNewToolsAndModel(t *testing.T) {
	t.Parallel()
	c := newCLI(t, tiers(t))
	c.fresh(first, "tier one", "haiku", "Bash", "--append-system-prompt", "system prompt of one").succeeded()
	before := c.readTranscript(first)

	var out output
	requests := c.requests(func() {
		out = c.fork(first, second, "tier two", "sonnet", "Read,Write", snapshotOff...)
	})
	r := out.succeeded()
	if !bytes.Equal(before, c.readTranscript(first)) {
		t.Error("the transcript of the parent was changed")
	}
	if r.SessionID != second || out.all("system", "init")[0].SessionID != second {
		t.Errorf("the fork has id %s", r.SessionID)
	}
	if len(requests) != 2 {
		t.Fatalf("%d requests", len(requests))
	}
	got := requests[0]
	if !slices.Equal(got.Prompts(), []string{"tier one", "tier two"}) {
		t.Errorf("prompts: %q", got.Prompts())
	}
	if seen, _ := got.Result("toolu_one"); seen.Text != "evidence of one" {
		t.Errorf("the parent's evidence: %+v", seen)
	}
	if !strings.HasPrefix(got.Model, "claude-sonnet-") {
		t.Errorf("model: %s", got.Model)
	}
	if !slices.Equal(got.ToolNames(), []string{"Read", "Write"}) {
		t.Errorf("tools: %q", got.ToolNames())
	}
	if bytes.Contains(got.Body, []byte("system prompt of one")) {
		t.Error("the system prompt of the parent is still there")
	}
}

// TestCLI_ByDefaultAForkKeepsTheParentsSystemPromptAndOffersItsTools holds why the snapshot must be off.
func TestCLI_ByDefaultAForkKeepsTheParentsSystemPromptAndOffersItsTools(t *testing.T) {
	t.Parallel()
	c := newCLI(t, func(req messagesapi.Request) messagesapi.Answer {
		if req.Prompt() == "tier one" {
			return messagesapi.Text("end of one")
		}
		return messagesapi.Turns(messagesapi.Bash("toolu_gone", "touch made"), messagesapi.Text("end of two"))(req)
	})
	c.fresh(first, "tier one", "haiku", "Bash", "--append-system-prompt", "system prompt of one").succeeded()
	r := c.fork(first, second, "tier two", "haiku", "Read", "--append-system-prompt", "system prompt of two").succeeded()
	got := c.last()
	system := got.System.String()
	if !strings.Contains(system, "system prompt of one") || bytes.Contains(got.Body, []byte("system prompt of two")) {
		t.Errorf("the system prompt ends %q", system[max(0, len(system)-200):])
	}
	if !slices.Equal(got.ToolNames(), []string{"Bash", "Read"}) {
		t.Errorf("tools: %q", got.ToolNames())
	}
	// The old tool is offered, but it is not there, and the denial is not listed.
	refused, _ := got.Result("toolu_gone")
	if !refused.IsError || !strings.Contains(refused.Text, "No such tool available: Bash") || len(r.Denials) != 0 {
		t.Errorf("the old tool answered %+v, denials %+v", refused, r.Denials)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "made")); err == nil {
		t.Error("the old tool ran")
	}
}

func TestCLI_AnUnknownConversationIsRefused(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(messagesapi.Text("done")))
	out := c.fork(first, second, "tier two", "haiku", "Bash", snapshotOff...)
	r := out.result()
	want := "No conversation found with session ID: " + first
	if out.code != 1 || len(out.events) != 1 || r.Subtype != "error_during_execution" || !r.IsError ||
		r.Turns != 0 || r.SessionID != second || !slices.Equal(r.Errors, []string{want}) || !strings.Contains(out.stderr, want) {
		t.Errorf("the refusal\n%s", out)
	}
	if r.Own != nil || r.Cost != 0 || len(c.api.Requests()) != 0 {
		t.Errorf("it cost %v, %+v, %d requests", r.Cost, r.Own, len(c.api.Requests()))
	}
	// The id is not used up by the refusal, so that a run without the conversation may take it.
	c.fresh(second, "tier two", "haiku", "Bash").succeeded()
}

func TestCLI_AConversationIsFoundFromAnotherFolderToo(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(messagesapi.Text("done")))
	c.fresh(first, "tier one", "haiku", "Bash").succeeded()
	for id, parent := range map[string]string{second: first, third: c.transcript(first)} {
		c.dir = t.TempDir()
		c.fork(parent, id, "tier two", "haiku", "Bash", snapshotOff...).succeeded()
		if got := c.last().Prompts(); !slices.Equal(got, []string{"tier one", "tier two"}) {
			t.Errorf("prompts: %q", got)
		}
		if _, err := os.Stat(c.transcript(id)); err != nil {
			t.Errorf("the fork is not kept under its own folder: %v", err)
		}
	}
}

func TestCLI_ATruncatedConversationIsResumedSilently(t *testing.T) {
	t.Parallel()
	took := messagesapi.Usage{Input: 50_000, Output: 5_000}
	c := newCLI(t, func(req messagesapi.Request) messagesapi.Answer {
		return messagesapi.Text("end of " + req.Prompt()).Took(took)
	})
	c.fresh(first, "tier one", "haiku", "Bash").succeeded()
	data := c.readTranscript(first)
	cut := bytes.Index(data, []byte("end of tier one"))
	if cut < 0 {
		t.Fatalf("the answer is not in the transcript\n%s", data)
	}
	must(t, os.WriteFile(c.transcript(first), data[:cut], 0o600))
	r := c.fork(first, second, "tier two", "haiku", "Bash", snapshotOff...).succeeded()
	got := c.last()
	if !slices.Equal(got.Prompts(), []string{"tier one", "tier two"}) || strings.Contains(jsonOf(got.Messages), "end of tier one") {
		t.Errorf("the conversation: %s", jsonOf(got.Messages))
	}
	// What the parent cost stood in the part that is lost, so the total is the run's own.
	if own := r.Own[got.Model]; own.usage() != took || !near(r.Cost, own.Cost) {
		t.Errorf("cost %v, own share %+v", r.Cost, own)
	}

	must(t, os.WriteFile(c.transcript(first), data[:100], 0o600))
	if out := c.fork(first, third, "tier two", "haiku", "Bash", snapshotOff...); out.code != 1 || !strings.Contains(out.stderr, "No conversation found") {
		t.Errorf("a transcript without a whole line\n%s", out)
	}
}

func TestCLI_TheTranscriptLiesInAFolderNamedAfterTheWorkingFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a.b_c d-é+Ä😀,1")
	must(t, os.Mkdir(folder, 0o700))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(folder, link))
	c := newCLI(t, messagesapi.Turns(messagesapi.Text("done")))
	c.dir = link
	c.fresh(first, "look around", "haiku", "Bash").succeeded()
	c.dir = folder
	info, err := os.Stat(c.transcript(first))
	if err != nil {
		found, _ := filepath.Glob(filepath.Join(c.config, "projects", "*", "*"))
		t.Fatalf("%v; found %q", err, found)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

func TestCLI_ALongWorkingFolderIsCutInTheTranscriptsPath(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.Turns(messagesapi.Text("done")))
	c.dir = filepath.Join(c.dir, strings.Repeat("x", 200))
	must(t, os.Mkdir(c.dir, 0o700))
	c.fresh(first, "look around", "haiku", "Bash").succeeded()
	found, _ := filepath.Glob(filepath.Join(c.config, "projects", folderName(c.dir)[:200]+"-*", first+".jsonl"))
	if len(found) != 1 {
		t.Errorf("found %q", found)
	}
}

// lines returns the lines of a transcript of a type.
func lines(t *testing.T, data []byte, kind string) []string {
	t.Helper()
	var found []string
	for line := range bytes.Lines(data) {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			t.Fatalf("a line of the transcript is no JSON: %v", err)
		}
		if head.Type == kind {
			found = append(found, string(line))
		}
	}
	return found
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// plants writes what a program started by a later session would obey.
const plants = `mkdir -p ~/.config/git "$CLAUDE_CONFIG_DIR/plugins" ~/.cache
printf '[alias]\n\tst = !echo PLANTED\n' > ~/.gitconfig
cp ~/.gitconfig ~/.config/git/config
echo 'echo PLANTED' | tee ~/.bashrc > ~/.profile
echo '{"env":{"PLANTED":"1"}}' > "$CLAUDE_CONFIG_DIR/settings.json"
echo PLANTED | tee "$CLAUDE_CONFIG_DIR/CLAUDE.md" "$CLAUDE_CONFIG_DIR/plugins/x" CLAUDE.md > ~/.cache/x
mkdir closed; chmod 0 closed`

// looks prints everything that was planted and is still there.
const looks = `cat ~/.gitconfig ~/.config/git/config ~/.bashrc ~/.profile "$CLAUDE_CONFIG_DIR"/settings.json "$CLAUDE_CONFIG_DIR"/CLAUDE.md \
"$CLAUDE_CONFIG_DIR"/plugins/x ~/.cache/x CLAUDE.md 2>/dev/null; git st 2>/dev/null; env | grep PLANTED; ls -A; echo looked`

// continuing makes a session go on with the conversation of another.
func continuing(from ops.RunResult, id ops.SessionID, tier ops.Tier) func(*ops.SessionSpec) {
	return func(s *ops.SessionSpec) {
		s.Resume, s.Conversation, s.SpentUSD = from.CLISessionID, from.Conversation, from.ReportedUSD
		s.Session.ID, s.Session.Tier = id, tier
	}
}

// TestThreeTiersShareAConversationAndNothingElse holds that a session cannot plant anything for the next one, although each
// continues the conversation of the one before.
func TestThreeTiersShareAConversationAndNothingElse(t *testing.T) {
	t.Parallel()
	r := newRunner(t, func(req messagesapi.Request) messagesapi.Answer {
		n := len(req.Prompts())
		command := looks
		if n == 1 {
			command = plants
		}
		call := messagesapi.Bash("toolu_"+strconv.Itoa(n), command)
		return messagesapi.Turns(call, messagesapi.Text("end of "+req.Prompt()))(req)
	})
	succeeded := func(res ops.RunResult) ops.RunResult {
		t.Helper()
		if !res.Success() {
			t.Fatalf("got %+v\n%s", res, strings.Join(r.lines, "\n"))
		}
		return res
	}
	one := succeeded(r.run("one", nil))
	two := succeeded(r.run("two", continuing(one, 2, ops.Tier2)))
	nudged := succeeded(r.run("again", continuing(two, 3, ops.Tier2)))
	succeeded(r.run("three", continuing(two, 4, ops.Tier3)))
	succeeded(r.run("four", continuing(nudged, 5, ops.Tier3)))

	all := r.api.Requests()
	for _, want := range [][]string{{"one", "two"}, {"one", "two", "again"}, {"one", "two", "three"}, {"one", "two", "again", "four"}} {
		if !slices.ContainsFunc(all, func(req messagesapi.Request) bool { return slices.Equal(req.Prompts(), want) }) {
			t.Errorf("no session was told %q", want)
		}
	}
	for _, req := range all {
		for _, id := range []string{"toolu_2", "toolu_3", "toolu_4"} {
			if seen, ok := req.Result(id); ok && seen.Text != "looked" {
				t.Errorf("%s found %q", id, seen.Text)
			}
		}
	}
	if last := all[len(all)-1]; strings.Contains(string(last.Body), "PLANTED=1") {
		t.Error("the settings of the first session reached the last")
	}
	left, err := os.ReadDir(r.state)
	if err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() == "agent" }) {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// TestALongOutputCanStillBeRead holds that the file in which the program keeps a long output is there in the next tier.
func TestALongOutputCanStillBeRead(t *testing.T) {
	t.Parallel()
	var path string
	r := newRunner(t, func(req messagesapi.Request) messagesapi.Answer {
		if len(req.Prompts()) == 1 {
			return messagesapi.Turns(messagesapi.Bash("toolu_1", "seq 1 40000"), messagesapi.Text("long"))(req)
		}
		seen, _ := req.Result("toolu_1")
		for word := range strings.FieldsSeq(seen.Text) {
			if strings.Contains(word, "/tool-results/") {
				path = word
			}
		}
		return messagesapi.Turns(messagesapi.Bash("toolu_2", "tail -n 1 '"+path+"'"), messagesapi.Text("done"))(req)
	})
	one := r.run("one", nil)
	two := r.run("two", continuing(one, 2, ops.Tier2))
	three := r.run("three", continuing(two, 3, ops.Tier3))
	if !one.Success() || !two.Success() || !three.Success() {
		t.Fatalf("got %+v\n%+v\n%+v", one, two, three)
	}
	all := r.api.Requests()
	if seen, ok := all[len(all)-1].Result("toolu_2"); path == "" || !ok || seen.Text != "40000" {
		t.Errorf("%q ends with %q", path, seen.Text)
	}
}

// TestTheProgramNeverHoldsTheKey holds that neither the program nor its commands can read the key of the API, and that what
// they hold instead is worth nothing after the session.
func TestTheProgramNeverHoldsTheKey(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"ANTHROPIC_API_KEY": "X-Api-Key", "ANTHROPIC_AUTH_TOKEN": "Authorization", "CLAUDE_CODE_OAUTH_TOKEN": "Authorization",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const key, secret = "sk-ant-the-real-key-of-a-test", "secret-of-the-gateway"
			const look = `cat /proc/$PPID/environ /proc/self/environ | tr '\0' '\n' | sort -u > env.txt
for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ | grep -q "^CLAUDEOPS_SESSION_KEY=$CLAUDEOPS_SESSION_KEY" && cat $p/environ; done 2>/dev/null | tr '\0' '\n' >> env.txt
grep -rlF -e sk-ant-the-real -e secret-of-the ~ "$CLAUDE_CONFIG_DIR" "$CLAUDEOPS_STATE_DIR" env.txt; cat env.txt`
			r := newRunner(t, messagesapi.Turns(messagesapi.Bash("toolu_1", look), messagesapi.Text("done")))
			r.env = slices.DeleteFunc(r.env, func(v string) bool { return strings.HasPrefix(v, "ANTHROPIC_API_KEY=") })
			r.env = append(r.env, name+"="+key, "ANTHROPIC_CUSTOM_HEADERS=X-Gateway: "+secret, "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=example.com")
			r.runner = agent.NewRunner(claude.New(claude.Options{Bin: realcli.Path(t)}), agent.Options{})
			res := r.run("look around", nil)
			if !res.Success() {
				t.Fatalf("got %+v\n%s", res, strings.Join(r.lines, "\n"))
			}
			all := r.api.Requests()
			last := all[len(all)-1]
			if got := strings.TrimPrefix(last.Header.Get(header), "Bearer "); got != key || last.Header.Get("X-Gateway") != secret {
				t.Errorf("the API got %q", got)
			}
			seen, _ := last.Result("toolu_1")
			if !strings.Contains(seen.Text, name+"=claudeops-session-") {
				t.Errorf("the command did not see the token:\n%s", seen.Text)
			}
			for _, text := range []string{seen.Text, string(last.Body), strings.Join(r.lines, "\n")} {
				if strings.Contains(text, key) || strings.Contains(text, secret) {
					t.Error("the key can be read")
				}
			}
			err := filepath.WalkDir(r.state, func(path string, e fs.DirEntry, err error) error {
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
			worthless(t, seen.Text, name)
		})
	}
}

// worthless uses what a command found in the environment after the session.
func worthless(t *testing.T, environment, name string) {
	t.Helper()
	vars := map[string]string{}
	for line := range strings.Lines(environment) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[k] = v
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, vars["ANTHROPIC_BASE_URL"]+"/v1/messages", strings.NewReader("{}"))
	must(t, err)
	req.Header.Set("X-Api-Key", vars[name])
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("the proxy still answers: %s", resp.Status)
	}
}

func TestCLI_AStructuredOutputEndsTheRun(t *testing.T) {
	t.Parallel()
	healthy := raw(`{"schema_version":1,"outcome":"healthy","summary":"All services answer.","check_results":` +
		`[{"service":"web","check_type":"http","status":"healthy","error":""}],"actions":[],"events":[],"memories":[]}`)
	c := newCLI(t, messagesapi.Turns(
		messagesapi.Structured("toolu_bad", raw(`{"outcome":"fine"}`)),
		messagesapi.Structured("toolu_good", healthy),
		messagesapi.Text("never said"),
	))
	out := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", report.Inline(ops.Tier1))
	r := out.succeeded()
	if string(r.Structured) != string(healthy) || r.Text != string(healthy) {
		t.Errorf("structured output %s, text %s", r.Structured, r.Text)
	}
	if len(c.api.Requests()) != 2 {
		t.Errorf("%d requests", len(c.api.Requests()))
	}
	fed, _ := c.last().Result("toolu_bad")
	if !fed.IsError || !strings.Contains(fed.Text, "must have required property 'summary'") || !strings.Contains(fed.Text, "/outcome: must be equal to one of the allowed values") {
		t.Errorf("fed back: %+v", fed)
	}
	if strings.Contains(out.stderr, "strict mode") {
		t.Errorf("the schema is not to its taste: %s", out.stderr)
	}
}

func TestCLI_AModelThatGivesNoStructuredOutputEndsWell(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.InOrder(messagesapi.Text("I looked"), messagesapi.Text("I will not")))
	r := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", `{"type":"object"}`).succeeded()
	if r.Structured != nil || r.Text != "I will not" || len(c.api.Requests()) != 2 {
		t.Errorf("structured output %s, text %q, %d requests", r.Structured, r.Text, len(c.api.Requests()))
	}
}

func TestCLI_FiveInvalidStructuredOutputsFailTheRun(t *testing.T) {
	t.Parallel()
	c := newCLI(t, messagesapi.InOrder(messagesapi.Structured("", raw(`{}`))))
	out := c.fresh(first, "look around", "haiku", "Bash", "--json-schema", `{"type":"object","required":["a"]}`)
	r := out.result()
	if out.code != 1 || !r.IsError || r.Subtype != "error_max_structured_output_retries" ||
		r.Reason != "structured_output_retry_exhausted" || r.Structured != nil || len(c.api.Requests()) != 5 {
		t.Errorf("%d requests\n%s", len(c.api.Requests()), out)
	}
}
