package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
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
	Transcript transcriptView
}

func (s *server) session(r *http.Request) (page, error) {
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
func (s *server) sessionView(ctx context.Context, m moment, id ops.SessionID) (sessionView, error) {
	session, err := s.Store.Session(ctx, id)
	if err != nil {
		return sessionView{}, fmt.Errorf("read session: %w", err)
	}
	chain, err := s.Store.Chain(ctx, id)
	if err != nil {
		return sessionView{}, fmt.Errorf("read chain: %w", err)
	}
	cycle, err := s.Store.Cycle(ctx, session.CycleID)
	if err != nil {
		return sessionView{}, fmt.Errorf("read cycle: %w", err)
	}
	approvals, err := s.Store.CycleApprovals(ctx, cycle.ID)
	if err != nil {
		return sessionView{}, fmt.Errorf("read approvals: %w", err)
	}
	calls, err := s.Store.CycleCalls(ctx, cycle.ID)
	if err != nil {
		return sessionView{}, fmt.Errorf("read tool calls: %w", err)
	}
	view := m.sessionView(session, chain, cycle)
	view.Chain = m.chain(chain, approvals, calls, session.ID)
	view.Handed, view.Report = handoffReport(session), outcomeReport(session)
	if err := s.addRecords(ctx, &view); err != nil {
		return view, err
	}
	total, err := s.Store.TranscriptCount(ctx, id)
	if err != nil {
		return view, fmt.Errorf("count transcript: %w", err)
	}
	view.Result, err = s.result(ctx, m, id, total)
	return view, err
}

func (s *server) addTranscript(ctx context.Context, m moment, view *sessionView, want window, find string) error {
	denied, err := s.denials(ctx, view.ID)
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
func (s *server) sessionState(ctx context.Context, id ops.SessionID, counts store.PageState) (sessionState, error) {
	view, err := s.sessionView(ctx, moment{s.Clock()}, id)
	if err != nil {
		return sessionState{}, err
	}
	html, err := s.piece("session", "session-state", view)
	if err != nil {
		return sessionState{}, fmt.Errorf("render state: %w", err)
	}
	rail, err := s.railCount(counts)
	return sessionState{revision: revision(counts), data: newDataBlock(html + rail), over: view.Over}, err
}

func (m moment) sessionView(session ops.Session, chain []ops.Session, cycle ops.Cycle) sessionView {
	row := m.sessionRow(session, chain)
	view := sessionView{
		ID: session.ID, Own: session.ID, Tier: session.Tier, TierTitle: session.Tier.Title(), Role: roleText(session.Role),
		Title: cycleTitle(cycle), Cycle: cycle.ID, CyclePath: cyclePath(cycle.ID),
		CycleBadge: badgeOf(cycle), CycleWhy: spoken(cycle.Why()),
		Badge: row.Badge, Running: !session.Status.Ended(), Over: stopped(session, cycle),
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

func (s *server) addRecords(ctx context.Context, view *sessionView) error {
	decisions, err := s.Store.Decisions(ctx, view.Cycle)
	if err != nil {
		return fmt.Errorf("read decisions: %w", err)
	}
	for _, d := range decisions {
		if d.SessionID == view.ID {
			view.Decisions = append(view.Decisions, d)
		}
	}
	if view.Recoveries, err = s.Store.Recoveries(ctx, view.Cycle); err != nil {
		return fmt.Errorf("read recoveries: %w", err)
	}
	if view.Verdicts, err = s.Store.Verifications(ctx, view.Cycle); err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	if view.Guard, err = s.Store.GuardSummary(ctx, view.ID, guardRows); err != nil {
		return fmt.Errorf("read guard decisions: %w", err)
	}
	slices.SortFunc(view.Guard.Records, func(a, b ops.GuardRecord) int { return cmp.Compare(a.ID, b.ID) })
	runs, err := s.Store.ActionRuns(ctx, store.ActionFilter{SessionID: &view.ID, Limit: listed})
	if err != nil {
		return fmt.Errorf("read actions: %w", err)
	}
	view.Actions = api.Rows(runs, s.runRow)
	events, err := s.Store.Events(ctx, store.EventFilter{CycleID: &view.Cycle, Limit: sessionEvents})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	view.Events = eventsOfCycle(events)
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
	short, cut := clip(plain(text), longText)
	if cut {
		return short + "\n… truncated; the full text is in the database"
	}
	return short
}
