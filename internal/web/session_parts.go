package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"reflect"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

// maxReported bounds each list of a report on a page.
const maxReported = 100

// prose renders markdown that an agent wrote, shortened.
func (s *server) prose(text string) template.HTML {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return s.markdown.html(shorten(text))
}

// outcomeReport is the structured outcome of a session, or nil if there is none that can be read.
func outcomeReport(session ops.Session) *ops.Outcome {
	var o ops.Outcome
	if len(session.OutcomeJSON) == 0 || json.Unmarshal(session.OutcomeJSON, &o) != nil || o.Kind == "" {
		return nil
	}
	if o.Handoff != nil && len(o.CheckResults) == 0 {
		o.CheckResults = o.Handoff.CheckResults
	}
	return &o
}

// handoffReport is the handoff of a session as a report, or nil if there is none that can be read.
func handoffReport(session ops.Session) *ops.Outcome {
	var h ops.Handoff
	if len(session.HandoffJSON) == 0 || json.Unmarshal(session.HandoffJSON, &h) != nil {
		return nil
	}
	return &ops.Outcome{Handoff: &h, CheckResults: h.CheckResults}
}

// atMost is the beginning of a list, as much as a page shows.
func atMost(list any) any {
	all := reflect.ValueOf(list)
	return all.Slice(0, min(all.Len(), maxReported)).Interface()
}

// isDocument reports whether a text is a JSON object, which people read under "Raw".
func isDocument(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") && json.Valid([]byte(text))
}

// maxFileCalls limits the calls that are searched for files.
const maxFileCalls = 200

// fileView is one call that reads or changes a file.
type fileView struct {
	At    stamp
	Badge badge
	Tool  string
	Path  string
	Raw   string
}

// filesView lists the files that tools read or changed by name. Changes made by shell commands are not known.
type filesView struct {
	Rows   []fileView
	Capped bool
}

// files returns the calls of a session that name a file.
func (s *server) files(ctx context.Context, m moment, id ops.SessionID) (*filesView, error) {
	denied, err := s.denials(ctx, id)
	if err != nil {
		return nil, err
	}
	var out filesView
	for _, field := range []string{`"file_path"`, `"notebook_path"`, `"file_change"`} {
		lines, err := s.Store.FindLines(ctx, id, field, maxFileCalls)
		if err != nil {
			return nil, fmt.Errorf("find files: %w", err)
		}
		out.Capped = out.Capped || len(lines) == maxFileCalls
		for _, line := range lines {
			out.Rows = append(out.Rows, m.fileCalls(id, line, denied)...)
		}
	}
	return &out, nil
}

// fileCalls returns the calls in one line that name a file.
func (m moment) fileCalls(id ops.SessionID, line ops.Line, denied map[string]denial) []fileView {
	var out []fileView
	for _, p := range transcript.Read(line.Text) {
		for _, path := range p.Paths {
			row := fileView{
				At: m.precise(line.At), Tool: plain(p.Tool), Path: plain(path), Badge: stateOf("", p.Tool), Raw: linePath(id, line.Seq),
			}
			if _, refused := denied[p.Call]; refused {
				row.Badge = allowedBadge(false)
			} else if row.Badge.Tone == "unknown" {
				row.Badge.Word = "Used"
			}
			out = append(out, row)
		}
	}
	return out
}

const (
	rawBatch  = 500
	rawWithin = 30 * time.Second // for each batch
)

// rawTranscript responds with every line as recorded.
func (s *server) rawTranscript(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such session.")
		return
	}
	if _, err := s.Store.Session(r.Context(), id); err != nil {
		s.fail(w, r, "session", err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	control := http.NewResponseController(w)
	for last := int64(0); ; {
		lines, err := s.Store.Transcript(r.Context(), id, last, rawBatch)
		if err != nil {
			s.Logger.ErrorContext(r.Context(), "read transcript failed", "session", id, "error", err)
			panic(http.ErrAbortHandler) // a cut connection shows that lines are missing
		}
		_ = control.SetWriteDeadline(time.Now().Add(rawWithin)) // not every connection supports it
		for _, line := range lines {
			if _, err := w.Write([]byte(plain(line.Text) + "\n")); err != nil {
				return // the client has disconnected
			}
			last = line.Seq
		}
		if len(lines) < rawBatch {
			return
		}
	}
}

type fact struct {
	Name  string
	Value string
	Title string
	At    *stamp // a time instead of a value
	Since string // start time of a running duration
	Faint bool   // the value is unknown
	Code  bool
	Broad bool // needs the full width
	Copy  bool // offer to copy it
}

// whyStopped returns the recorded reasons why the session ended.
func whyStopped(s ops.Session) []string {
	var why []string
	if cause := stopText(s.StopCause); cause != "" {
		why = append(why, cause+".")
	}
	if s.Error != "" {
		why = append(why, plain(s.Error))
	}
	if s.Failure != "" {
		why = append(why, "Failure class: "+plain(string(s.Failure))+".")
	}
	return why
}

func (m moment) facts(s ops.Session, cycle ops.Cycle, row sessionRow, chain []ops.Session) []fact {
	facts := []fact{figureFact("Est. cost", row.Cost)}
	if len(chain) > 1 {
		facts = append(facts, figureFact("Cycle total", totalCost(chain)))
	}
	if sure := s.Confidence(); sure != nil {
		facts = append(facts, fact{Name: "Confidence", Value: fmt.Sprintf("%.0f %%", 100**sure), Title: "How sure the agent is of its report"})
	}
	return append(facts, figureFact("Duration", row.Duration), figureFact("Turns", row.Turns), tokenFact(s),
		fact{Name: "Model", Value: plain(s.Model)}, fact{Name: "Trigger", Value: cycle.Trigger.Title()})
}

// details are the less common facts.
func (m moment) details(s ops.Session) []fact {
	var facts []fact
	if s.StartedAt != nil {
		facts = append(facts, fact{Name: "Started", At: m.maybe(s.StartedAt)})
	}
	if s.EndedAt != nil {
		facts = append(facts, fact{Name: "Ended", At: m.maybe(s.EndedAt)})
	}
	if s.BudgetUSD != nil {
		facts = append(facts, figureFact("Budget", dollars(s.BudgetUSD)))
	}
	facts = append(facts, fact{Name: "Context", Value: contextText(s.ContextMode)}, fact{Name: "Handler", Value: plain(s.Handler), Code: true})
	if s.May() != s.Tier {
		facts = append(facts, fact{Name: "Permissions", Value: s.May().String()})
	}
	if s.ExitCode != nil {
		facts = append(facts, fact{Name: "Exit code", Value: fmt.Sprint(*s.ExitCode)})
	}
	if s.CLIVersion != "" {
		facts = append(facts, fact{Name: "Agent version", Value: plain(s.CLIVersion)})
	}
	if s.CLISessionID != "" {
		facts = append(facts, fact{Name: "Conversation", Value: plain(s.CLISessionID), Code: true, Broad: true, Copy: true})
	}
	return facts
}

func figureFact(name string, f figure) fact {
	return fact{Name: name, Value: f.Text, Title: f.Exact, Since: f.Since, Faint: !f.Known}
}

func tokenFact(s ops.Session) fact {
	f := s.Figures
	if f.InputTokens == nil && f.OutputTokens == nil && f.CacheReadTokens == nil && f.CacheWriteTokens == nil {
		tokens := figureFact("Tokens", unknown().yet(s.Status.Ended()))
		tokens.Broad = true
		return tokens
	}
	return fact{
		Name: "Tokens", Broad: true,
		Value: fmt.Sprintf("%s in · %s out · %s cached",
			count(f.InputTokens).Text, count(f.OutputTokens).Text, count(f.CacheReadTokens).Text),
		Title: "Cache writes: " + count(f.CacheWriteTokens).Text,
	}
}

// guardRows is how many of the newest decisions of each kind a page shows.
const guardRows = 50

// GuardRows is how many of each kind the page shows.
func (sessionView) GuardRows() int { return guardRows }

// allowedBadge is the verdict of the guard.
func allowedBadge(allowed bool) badge {
	if allowed {
		return stateOf("", "allow")
	}
	return stateOf("", "deny")
}

// gateText says where the guard decided.
func gateText(g ops.Gate) string {
	words := map[ops.Gate]string{
		ops.GateHook: "before the tool call", ops.GateShell: "before the shell", ops.GateDocker: "before the Docker engine",
		ops.GateAction: "before the supervisor acts",
	}
	return cmp.Or(words[g], plain(string(g)))
}

// commandOf returns the command of a shell call, and any other input unchanged.
func commandOf(input string) string {
	var in map[string]any
	if json.Unmarshal([]byte(input), &in) != nil {
		return input
	}
	if command, ok := in["command"].(string); ok {
		return command
	}
	return input
}
