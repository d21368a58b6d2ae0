package realcli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/test/messagesapi"
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

func TestAForkContinuesTheConversationWithNewToolsAndModel(t *testing.T) {
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

// TestByDefaultAForkKeepsTheParentsSystemPromptAndOffersItsTools holds why the snapshot must be off.
func TestByDefaultAForkKeepsTheParentsSystemPromptAndOffersItsTools(t *testing.T) {
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

func TestAnUnknownConversationIsRefused(t *testing.T) {
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

func TestAConversationIsFoundFromAnotherFolderToo(t *testing.T) {
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

func TestATruncatedConversationIsResumedSilently(t *testing.T) {
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

func TestTheTranscriptLiesInAFolderNamedAfterTheWorkingFolder(t *testing.T) {
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

func TestALongWorkingFolderIsCutInTheTranscriptsPath(t *testing.T) {
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
