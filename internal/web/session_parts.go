package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/transcript"
)

// maxReported bounds each list of a report on a page.
const maxReported = 100

// reportView is what a session reported, in readable form.
type reportView struct {
	Outcome  *badge
	Summary  template.HTML
	Affected []string
	Checks   []reportedCheck
	Findings template.HTML
	Tried    template.HTML
	Reason   string
	Target   string
	Plan     []ops.PlanStep
	Actions  []reportedAction
	Remarks  []reportedRemark
	Lessons  []ops.Lesson
}

type reportedCheck struct {
	Service  string
	Type     string
	Badge    badge
	Error    string
	Response string
}

type reportedAction struct {
	Title  string
	Badge  badge
	Detail string
}

type reportedRemark struct {
	Badge   badge
	Service string
	Message string
}

// outcomeReport renders a structured outcome, or returns nil if there is none that can be read.
func (s *server) outcomeReport(session ops.Session) *reportView {
	var o ops.Outcome
	if len(session.OutcomeJSON) == 0 || json.Unmarshal(session.OutcomeJSON, &o) != nil || o.Kind == "" {
		return nil
	}
	shown := outcomeBadge(o.Kind, false)
	view := &reportView{Outcome: &shown, Summary: s.prose(o.Summary), Checks: reportedChecks(o.CheckResults)}
	if o.Handoff != nil {
		view.addHandoff(s, *o.Handoff)
		if len(o.CheckResults) == 0 {
			view.Checks = reportedChecks(o.Handoff.CheckResults)
		}
	}
	for _, a := range o.Actions[:min(len(o.Actions), maxReported)] {
		done := badge{"bad", "octagon-x", "Failed"}
		if a.Success {
			done = badge{"ok", "circle-check", "Done"}
		}
		view.Actions = append(view.Actions, reportedAction{Title: firstLine(a.Action+" "+a.Service, 200), Badge: done, Detail: plain(a.Detail)})
	}
	for _, e := range o.Events[:min(len(o.Events), maxReported)] {
		view.Remarks = append(view.Remarks, reportedRemark{
			Badge: levelBadge(e.Level), Service: firstLine(e.Service, 80), Message: plain(e.Message),
		})
	}
	for _, l := range o.Memories[:min(len(o.Memories), maxReported)] {
		view.Lessons = append(view.Lessons, ops.Lesson{Category: plain(l.Category), Service: plain(l.Service), Observation: plain(l.Observation)})
	}
	return view
}

// handoffReport renders a handoff, or returns nil if there is none that can be read.
func (s *server) handoffReport(session ops.Session) *reportView {
	var h ops.Handoff
	if len(session.HandoffJSON) == 0 || json.Unmarshal(session.HandoffJSON, &h) != nil {
		return nil
	}
	view := &reportView{Checks: reportedChecks(h.CheckResults)}
	view.addHandoff(s, h)
	return view
}

func (v *reportView) addHandoff(s *server, h ops.Handoff) {
	for _, name := range h.ServicesAffected[:min(len(h.ServicesAffected), maxReported)] {
		v.Affected = append(v.Affected, firstLine(name, 80))
	}
	v.Reason, v.Target = plain(h.Reason), plain(h.Target)
	if v.Target == "" && h.RecommendedTier.Known() {
		v.Target = h.RecommendedTier.String()
	}
	v.Findings, v.Tried = s.prose(h.InvestigationFindings), s.prose(h.RemediationAttempted)
	for _, p := range h.Plan[:min(len(h.Plan), maxReported)] {
		v.Plan = append(v.Plan, ops.PlanStep{
			Service: plain(p.Service), Action: plain(p.Action), Reason: plain(p.Reason), Effect: plain(p.Effect),
		})
	}
}

// prose renders markdown that an agent wrote, shortened.
func (s *server) prose(text string) template.HTML {
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return s.markdown.html(shorten(text))
}

func reportedChecks(all []ops.CheckResult) []reportedCheck {
	var out []reportedCheck
	for _, c := range all[:min(len(all), maxReported)] {
		view := reportedCheck{
			Service: firstLine(c.Service, 80), Type: firstLine(string(c.CheckType), 40), Badge: healthBadge(c.Status),
			Error: firstLine(c.Error, 300),
		}
		if c.ResponseTimeMS != nil {
			view.Response = span(time.Duration(*c.ResponseTimeMS) * time.Millisecond)
		}
		out = append(out, view)
	}
	return out
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
				At: m.precise(line.At), Tool: plain(p.Tool), Path: plain(path), Badge: fileBadge(p.Tool), Raw: linePath(id, line.Seq),
			}
			if _, refused := denied[p.Call]; refused {
				row.Badge = badge{"bad", "ban", "Denied"}
			}
			out = append(out, row)
		}
	}
	return out
}

// fileBadge shows what a tool does to a file.
func fileBadge(tool string) badge {
	switch tool {
	case "Write":
		return badge{"warn", "plus", "Written"}
	case "Edit", "MultiEdit", "NotebookEdit":
		return badge{"warn", "wrench", "Changed"}
	case "Read":
		return badge{"ok", "eye", "Read"}
	}
	return badge{"unknown", "circle-question-mark", "Used"}
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

// recoveryView is one attempt that the recovery ladder started.
type recoveryView struct {
	At      stamp
	Level   int
	Action  string
	Session ops.SessionID // the one that failed
	Own     bool          // it is the session of this page
	Error   string
	Reason  string
	Facts   []fact
}

// verdictView is the verdict of a judge on a claimed repair.
type verdictView struct {
	At      stamp
	Badge   badge
	Judge   ops.SessionID
	Session ops.SessionID
	Score   string
	Reason  string
	Scores  []fact
	Failed  []string
	Advice  []string
}

// addRecovery adds the recovery attempts of the cycle and the verdicts on its repairs.
func (s *server) addRecovery(ctx context.Context, m moment, view *sessionView) error {
	recoveries, err := s.Store.Recoveries(ctx, view.Cycle)
	if err != nil {
		return fmt.Errorf("read recoveries: %w", err)
	}
	for _, r := range recoveries {
		view.Recoveries = append(view.Recoveries, m.recovery(r, view.ID))
	}
	verdicts, err := s.Store.Verifications(ctx, view.Cycle)
	if err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	for _, v := range verdicts {
		view.Verdicts = append(view.Verdicts, m.verdict(v))
	}
	return nil
}

func (m moment) recovery(r ops.Recovery, current ops.SessionID) recoveryView {
	view := recoveryView{
		At: m.stamp(r.EnteredAt), Level: int(r.Level), Action: plain(string(r.Action)), Session: r.SessionID, Own: r.SessionID == current,
		Error: plain(string(r.ErrorType)), Reason: plain(r.Reason),
	}
	if len(r.PreviousLevels) > 0 {
		levels := make([]string, 0, len(r.PreviousLevels))
		for _, l := range r.PreviousLevels {
			levels = append(levels, fmt.Sprintf("%d %s", int(l), l.Action()))
		}
		view.Facts = append(view.Facts, fact{Name: "Earlier levels", Value: strings.Join(levels, " → ")})
	}
	if r.Handler != "" {
		view.Facts = append(view.Facts, fact{Name: "Handler", Value: plain(r.Handler), Code: true})
	}
	if r.NotBefore != nil {
		view.Facts = append(view.Facts, fact{Name: "Not before", At: m.maybe(r.NotBefore)})
	}
	if r.Deadline != nil {
		view.Facts = append(view.Facts, fact{Name: "Deadline", At: m.maybe(r.Deadline)})
	}
	return view
}

func (m moment) verdict(v ops.Verification) verdictView {
	view := verdictView{
		At: m.stamp(v.At), Badge: judgeBadge(v.Verdict), Judge: v.JudgeSessionID, Session: v.SessionID,
		Score:  fmt.Sprintf("%s, confidence %.0f %%", plural(v.TotalScore, "point", "points"), 100*v.Confidence),
		Reason: plain(v.Reasoning),
	}
	for _, name := range slices.Sorted(maps.Keys(v.Dimensions)) {
		view.Scores = append(view.Scores, fact{Name: plain(name), Value: fmt.Sprint(v.Dimensions[name])})
	}
	for _, text := range v.FailureReasons {
		view.Failed = append(view.Failed, plain(text))
	}
	for _, text := range v.Recommendations {
		view.Advice = append(view.Advice, plain(text))
	}
	return view
}

func judgeBadge(verdict string) badge {
	switch strings.ToLower(verdict) {
	case "pass", "passed", "accept", "accepted":
		return badge{"ok", "circle-check", "Passed"}
	case "fail", "failed", "reject", "rejected":
		return badge{"bad", "octagon-x", "Failed"}
	case "conditional":
		return badge{"hand", "hand", "Conditional"}
	}
	return badge{"warn", "gavel", plain(verdict)}
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

func (m moment) facts(s ops.Session, cycle ops.Cycle, row sessionRow, chain chainView) []fact {
	facts := []fact{figureFact("Est. cost", row.Cost)}
	if len(chain.Rows) > 1 {
		facts = append(facts, figureFact("Cycle total", chain.Cost))
	}
	if sure := s.Confidence(); sure != nil {
		facts = append(facts, fact{Name: "Confidence", Value: fmt.Sprintf("%.0f %%", 100**sure), Title: "How sure the agent is of its report"})
	}
	lasts := figureFact("Duration", row.Duration)
	lasts.Since = row.Since
	return append(facts, lasts, figureFact("Turns", row.Turns), tokenFact(s),
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
	return fact{Name: name, Value: f.Text, Title: f.Exact, Faint: !f.Known}
}

func tokenFact(s ops.Session) fact {
	f := s.Figures
	if f.InputTokens == nil && f.OutputTokens == nil && f.CacheReadTokens == nil && f.CacheWriteTokens == nil {
		tokens := figureFact("Tokens", sessionFigure(s, count(nil)))
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

func yesNo(v bool) string {
	if v {
		return "Yes"
	}
	return "No"
}

const (
	// guardRows is how many of the newest decisions of each kind a page shows.
	guardRows = 50
	guardText = 300
)

// guardView is what the guard decided in a session.
type guardView struct {
	Summary string
	Count   int
	Rows    []guardRow
}

type guardRow struct {
	At       stamp
	Badge    badge
	Gate     string
	Tool     string
	Input    string
	Rest     string // the whole input where it is long
	Rule     string
	Reason   string
	Reserved bool
}

func (m moment) guardDecisions(summary store.GuardSummary) guardView {
	view := guardView{
		Summary: fmt.Sprintf("%d allowed, %d denied", summary.Allowed, summary.Denied), Count: summary.Allowed + summary.Denied,
	}
	if view.Count == 0 {
		view.Summary = ""
	}
	if summary.Allowed+summary.Denied > len(summary.Records) {
		view.Summary += fmt.Sprintf("; showing the newest %d of each", guardRows)
	}
	slices.SortFunc(summary.Records, func(a, b ops.GuardRecord) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range summary.Records {
		view.Rows = append(view.Rows, m.guardRow(r))
	}
	return view
}

func (m moment) guardRow(r ops.GuardRecord) guardRow {
	row := guardRow{
		At: m.stamp(r.At), Badge: guardBadge(r.Allowed), Gate: gateText(r.Gate), Tool: plain(r.Tool), Rule: plain(r.Rule),
		Reason: plain(r.Reason), Reserved: r.Allowed && r.Mutating,
	}
	whole := plain(commandOf(r.Input))
	short, cut := clip(whole, guardText)
	row.Input = short
	if cut {
		row.Input, row.Rest = short+"…", whole
	}
	return row
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

func guardBadge(allowed bool) badge {
	if allowed {
		return badge{"ok", "circle-check", "Allowed"}
	}
	return badge{"bad", "ban", "Denied"}
}

func gateText(g ops.Gate) string {
	switch g {
	case ops.GateHook:
		return "before the tool call"
	case ops.GateShell:
		return "before the shell"
	case ops.GateDocker:
		return "before the Docker engine"
	case ops.GateAction:
		return "before the supervisor acts"
	default:
		return plain(string(g))
	}
}
