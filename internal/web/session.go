package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/transcript"
)

const (
	sessionEvents = 40
	// longText is how much of a document a page shows.
	longText = 24 << 10
)

type sessionView struct {
	ID         ops.SessionID
	Tier       ops.Tier
	TierTitle  string
	Title      string
	Cycle      ops.CycleID
	CyclePath  string
	CycleBadge badge
	CycleWhy   string
	Badge      badge
	Running    bool   // it has not ended
	Over       bool   // its cycle has ended too
	For        figure // how long it has run; unknown if it does not
	Stop       *question
	Role       string
	Parent     *ops.Session // the one that this was escalated from
	Child      *ops.Session // the one that this was escalated to
	RetryOf    *ops.SessionID
	Attempt    int
	Why        []string // why it stopped
	Facts      []fact   // shown at once
	Details    []fact   // shown on demand
	Tab        string
	Files      *filesView // nil unless the tab is open
	Chain      chainView
	Own        ops.SessionID // the session of this page, in lists of several
	Decisions  []ops.Decision
	Recoveries []ops.Recovery
	Verdicts   []ops.Verification
	Guard      store.GuardSummary
	Actions    []runRow
	Handoff    string       // as it was written
	Handed     *ops.Outcome // the same, readable
	HandoffWhy string
	Result     *resultView
	Outcome    string       // as it was written
	Report     *ops.Outcome // the same, readable
	Events     []api.Event
	Refused    []api.Event // by its walls
	Transcript transcriptView
}

func (s *sessions) session(r *http.Request) (page, error) {
	id := ops.SessionID(rowID(r))
	want, ok := transcriptWindow(r)
	if !ok {
		return page{}, noSuch("No such page of the transcript.")
	}
	tab, ok := sessionTab(r)
	if !ok {
		return page{}, noSuch("No such tab.")
	}
	m := moment{s.Clock()}
	view, err := s.sessionView(r.Context(), m, id)
	if err != nil {
		return page{}, err
	}
	query := r.URL.Query()
	// A running session is shown from its newest line.
	want.tail = want.tail || view.Running && !query.Has("after") && want.before == 0
	if err := s.addTranscript(r.Context(), m, &view, want, query.Get("find")); err != nil {
		return page{}, err
	}
	if view.Tab = tab; tab == tabFiles {
		view.Files, err = s.files(r.Context(), m, id)
	}
	p := page{Title: fmt.Sprintf("Session #%d", id), Nav: navCycles, Stream: "/stream", Tab: tab, Body: view}
	if !view.Over {
		p.Stream = streamPath(id, view.Transcript, revision(counts(r)))
	}
	if view.Running && query.Get("stopping") != "" {
		p.Flash = fmt.Sprintf("Stopping session #%d. Its processes have a moment to exit on their own.", id)
	}
	return p, err
}

// tabFiles is the one tab that is loaded on demand; all others are in the page and CSS shows one of them.
const tabFiles = "files"

// sessionTab returns the requested tab.
func sessionTab(r *http.Request) (string, bool) {
	switch tab := r.URL.Query().Get("tab"); tab {
	case "":
		return "transcript", true
	case "transcript", "handoff", "result", "recovery", "guard", tabFiles:
		return tab, true
	}
	return "", false
}

// streamPath is the URL of the stream of a session, starting after what the page shows.
func streamPath(id ops.SessionID, shown transcriptView, seen string) string {
	query := url.Values{"seen": {seen}}
	if shown.AtEnd && shown.Find == "" {
		query.Set("after", strconv.FormatInt(shown.Last, 10))
	}
	return fmt.Sprintf("/sessions/%d/stream?%s", id, query.Encode())
}

// sessionView reads everything about a session except its transcript.
func (s *sessions) sessionView(ctx context.Context, m moment, id ops.SessionID) (sessionView, error) {
	session, err := s.Store.Journal.Session(ctx, id)
	if err != nil {
		return sessionView{}, fmt.Errorf("read session: %w", err)
	}
	chain, err := s.Store.Journal.Chain(ctx, id)
	if err != nil {
		return sessionView{}, fmt.Errorf("read chain: %w", err)
	}
	cycle, err := s.Store.Journal.Cycle(ctx, session.CycleID)
	if err != nil {
		return sessionView{}, fmt.Errorf("read cycle: %w", err)
	}
	calls, err := s.Store.Acts.CycleCalls(ctx, cycle.ID)
	if err != nil {
		return sessionView{}, fmt.Errorf("read tool calls: %w", err)
	}
	view := m.sessionView(session, chain, cycle)
	view.Chain = m.chain(chain, calls, session.ID)
	view.Handed, view.Report = handoffReport(session), outcomeReport(session)
	if err := s.addRecords(ctx, &view); err != nil {
		return view, err
	}
	total, err := s.Store.Journal.TranscriptCount(ctx, id)
	if err != nil {
		return view, fmt.Errorf("count transcript: %w", err)
	}
	view.Result, err = s.result(ctx, m, id, total)
	return view, err
}

func (s *sessions) addTranscript(ctx context.Context, m moment, view *sessionView, want window, find string) error {
	denied, err := s.refusals(ctx, view.ID)
	if err != nil {
		return err
	}
	if find != "" {
		view.Transcript, err = s.find(ctx, m, view.ID, find, denied)
		return err
	}
	view.Transcript, err = s.transcript(ctx, m, view.ID, want, denied)
	return err
}

// sessionState renders everything on the page except the transcript, as fragments to swap in.
func (s *sessions) sessionState(ctx context.Context, id ops.SessionID, counts store.PageState) (sessionState, error) {
	view, err := s.sessionView(ctx, moment{s.Clock()}, id)
	if err != nil {
		return sessionState{}, err
	}
	html, err := s.piece("session", "session-state", view)
	if err != nil {
		return sessionState{}, fmt.Errorf("render state: %w", err)
	}
	rail, err := s.railCount(counts)
	return sessionState{revision: revision(counts), data: html + rail, over: view.Over}, err
}

func (m moment) sessionView(session ops.Session, chain []ops.Session, cycle ops.Cycle) sessionView {
	row := m.sessionRow(session, chain)
	view := sessionView{
		ID: session.ID, Own: session.ID, Tier: session.Tier, TierTitle: session.Tier.Title(), Role: roleText(session.Role),
		Title: cycleTitle(cycle), Cycle: cycle.ID, CyclePath: cyclePath(cycle.ID),
		CycleBadge: badgeOf(cycle), CycleWhy: spoken(cycle.Why()),
		Badge: row.Badge, Running: !session.Status.Ended(), Over: session.Status.Ended() && cycle.Status.Ended(),
		RetryOf: session.RetryOf, Attempt: session.Attempt,
		Why:     whyStopped(session),
		Handoff: document(session.HandoffJSON), HandoffWhy: plain(session.HandoffError),
		Outcome: document(session.OutcomeJSON),
	}
	if session.Status == ops.SessionRunning {
		view.For = row.Duration
	}
	if view.Running {
		view.Stop = stopQuestion(session.ID)
	}
	if session.ParentID != nil {
		view.Parent = ops.Journal{Sessions: chain}.Session(*session.ParentID)
	}
	view.Child = childOf(session, chain)
	view.Facts, view.Details = m.facts(session, cycle, row, chain), m.details(session)
	return view
}

func stopQuestion(id ops.SessionID) *question {
	return &question{
		ID: "stop", Button: "Stop", Icon: "square", Title: fmt.Sprintf("Stop session %d?", id),
		Text:   "Work in progress may be left half done. Its cycle ends.",
		Action: fmt.Sprintf("/sessions/%d/stop", id), Yes: "Stop session", No: "Keep running", Danger: true,
	}
}

func (s *sessions) addRecords(ctx context.Context, view *sessionView) error {
	decisions, err := s.Store.Journal.Decisions(ctx, view.Cycle)
	if err != nil {
		return fmt.Errorf("read decisions: %w", err)
	}
	for _, d := range decisions {
		if d.SessionID == view.ID {
			view.Decisions = append(view.Decisions, d)
		}
	}
	if view.Recoveries, err = s.Store.Journal.Recoveries(ctx, view.Cycle); err != nil {
		return fmt.Errorf("read recoveries: %w", err)
	}
	if view.Verdicts, err = s.Store.Journal.Verifications(ctx, view.Cycle); err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	if view.Guard, err = s.Store.Acts.GuardSummary(ctx, view.ID, guardRows); err != nil {
		return fmt.Errorf("read guard decisions: %w", err)
	}
	slices.SortFunc(view.Guard.Records, func(a, b ops.GuardRecord) int { return cmp.Compare(a.ID, b.ID) })
	runs, err := s.Store.Acts.ActionRuns(ctx, store.ActionFilter{SessionID: &view.ID, Limit: listed})
	if err != nil {
		return fmt.Errorf("read actions: %w", err)
	}
	view.Actions = api.Rows(runs, s.runRow)
	events, err := s.Store.Journal.Events(ctx, store.EventFilter{CycleID: &view.Cycle, Limit: sessionEvents})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	view.Events = eventsOfCycle(events)
	refused, err := s.Store.Journal.Events(ctx, store.EventFilter{SessionID: &view.ID, Kind: string(ops.EventGuard), Limit: listed})
	if err != nil {
		return fmt.Errorf("read refusals: %w", err)
	}
	view.Refused = eventsOfCycle(slices.DeleteFunc(refused, func(e ops.Event) bool { return e.Verb != ops.VerbWallRefused }))
	return nil
}

// document indents stored text if it is JSON.
func document(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	var out bytes.Buffer
	text := string(raw)
	if json.Indent(&out, raw, "", "  ") == nil {
		text = out.String()
	}
	return shorten(text)
}

// shorten cuts a document to what a page shows.
func shorten(text string) string {
	text = plain(text)
	if len(text) > longText {
		return ops.Start(text, longText) + "\n… truncated; the full text is in the database"
	}
	return text
}

// maxReported bounds each list of a report on a page.
const maxReported = 100

// prose renders markdown that an agent wrote, shortened.
func (s *site) prose(text string) template.HTML {
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
func (s *sessions) files(ctx context.Context, m moment, id ops.SessionID) (*filesView, error) {
	denied, err := s.refusals(ctx, id)
	if err != nil {
		return nil, err
	}
	var out filesView
	for _, field := range []string{`"file_path"`, `"notebook_path"`, `"file_change"`} {
		lines, err := s.Store.Journal.FindLines(ctx, id, field, maxFileCalls)
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
func (m moment) fileCalls(id ops.SessionID, line ops.Line, denied ops.Refusals) []fileView {
	var out []fileView
	for _, p := range transcript.Read(line.Text) {
		for _, path := range p.Paths {
			row := fileView{
				At: m.precise(line.At), Tool: plain(p.Tool), Path: plain(path), Badge: stateOf("", p.Tool), Raw: linePath(id, line.Seq),
			}
			_, refused := denied.Of(p.Call, "", "")
			if refused = refused || p.Refused; refused {
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
func (s *sessions) rawTranscript(w http.ResponseWriter, r *http.Request) {
	id, ok := sessionID(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such session.")
		return
	}
	if _, err := s.Store.Journal.Session(r.Context(), id); err != nil {
		s.fail(w, r, "session", err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	control := http.NewResponseController(w)
	for last := int64(0); ; {
		lines, err := s.Store.Journal.Transcript(r.Context(), id, last, rawBatch)
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
	if s.Walls != "" {
		facts = append(facts, fact{Name: "Walls", Value: plain(s.Walls)})
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
