package claude

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

// update writes what the decoder says now; read the difference before committing it.
var update = flag.Bool("update", false, "rewrite the golden files")

// told is what a transcript tells.
type told struct {
	SessionID, Version, Model, APIError string
	Open                                []string
	Result                              bool
	IsError                             bool
	Words                               string
	Structured                          json.RawMessage
	Denials                             []ops.Denial
	Figures                             ops.Figures
	Warnings                            []string
}

func tell(st *stream) told {
	out := told{
		SessionID: st.sessionID, Version: st.version, Model: st.model, APIError: st.apiError,
		Figures: st.figures(), Warnings: st.warnings,
	}
	for _, c := range st.open {
		out.Open = append(out.Open, c.String())
	}
	if r := st.result; r != nil {
		out.Result, out.IsError, out.Words = true, r.failed(), r.words()
		out.Structured, out.Denials = r.structured(), r.Denials
	}
	return out
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/stream/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			must(t, err)
			var st stream
			for line := range strings.Lines(string(data)) {
				st.line(strings.TrimSuffix(line, "\n"))
			}
			got, err := json.MarshalIndent(tell(&st), "", "  ")
			must(t, err)
			got = append(got, '\n')
			golden := strings.TrimSuffix(file, ".jsonl") + ".golden.json"
			if *update {
				must(t, os.WriteFile(golden, got, 0o600))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if !bytes.Equal(got, want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestToolCallsOpenAndClose(t *testing.T) {
	use := func(message, id string) string {
		return `{"type":"assistant","message":{"id":"` + message + `","content":[{"type":"tool_use","id":"` + id + `","name":"Bash"}]}}`
	}
	answer := func(id string) string {
		return `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"` + id + `"}]}}`
	}
	steps := []struct {
		line    string
		changed bool
		open    int
	}{
		{answer("t1"), false, 0},
		{use("m1", "t1"), true, 1},
		{use("m1", "t2"), true, 2},
		{"noise", false, 2},
		{answer("t9"), false, 2},
		{answer("t1"), true, 1},
		{use("m2", "t3"), true, 1}, // the answer to t2 was not seen, but the model went on
		{`{"type":"result","is_error":false}`, true, 0},
		{`{"type":"result","is_error":false}`, false, 0},
	}
	var st stream
	for i, s := range steps {
		if changed := st.line(s.line); changed != s.changed || len(st.open) != s.open {
			t.Errorf("step %d: changed %v, %d open; want %v, %d", i, changed, len(st.open), s.changed, s.open)
		}
	}
}

func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/stream/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var st stream
		for line := range strings.Lines(text) {
			st.line(line)
		}
		got := tell(&st)
		if len(got.Warnings) > maxWarnings {
			t.Errorf("%d warnings", len(got.Warnings))
		}
		if strings.HasPrefix(got.SessionID, "-") || strings.ContainsAny(got.SessionID, " /\n") {
			t.Errorf("session id %q could be taken for something else", got.SessionID)
		}
		fig := got.Figures
		for _, n := range []*int64{fig.NumTurns, fig.DurationMS, fig.InputTokens, fig.OutputTokens, fig.CacheReadTokens, fig.CacheWriteTokens, fig.ContextTokens, fig.ContextWindow} {
			if n != nil && *n < 0 {
				t.Errorf("a figure is negative: %+v", fig)
			}
		}
		if fig.CostUSD != nil && !(*fig.CostUSD >= 0) {
			t.Errorf("the cost is %v", *fig.CostUSD)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("what was read cannot be stored: %v", err)
		}
	})
}
