package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// stopText describes why a session was stopped.
func stopText(c ops.StopCause) string {
	return cmp.Or(map[ops.StopCause]string{
		ops.StopUser:      "Stopped by a person",
		ops.StopShutdown:  "The supervisor was shut down",
		ops.StopWall:      "It exceeded the maximum session time",
		ops.StopIdle:      "It sent no output for too long",
		ops.StopTool:      "One tool call ran for too long",
		ops.StopCrash:     "The supervisor crashed while the session was running",
		ops.StopLease:     "Its host lost the lease",
		ops.StopInvariant: "A tool ran without permission from the guard",
		ops.StopJournal:   "Its output could not be written to the journal",
		ops.StopLoop:      "It was repeating itself",
		ops.StopAttack:    "It attacked the supervisor",
		ops.StopBudget:    "It reached its budget",
		ops.StopDeadline:  "It exceeded the time limit of its recovery level",
	}[c], string(c))
}

func contextText(m ops.ContextMode) string {
	return cmp.Or(map[ops.ContextMode]string{
		ops.ContextFresh: "New conversation", ops.ContextResume: "Resumed conversation", ops.ContextHandoff: "Handoff",
	}[m], string(m))
}

// roleText is the role of a session, empty for the ordinary work of its tier.
func roleText(r ops.Role) string {
	return map[ops.Role]string{ops.RoleManager: "Manager", ops.RolePlanner: "Planner", ops.RoleJudge: "Judge"}[r]
}

// counterCache shares the change counters among all readers, so that a thousand open tabs cause one query.
type counterCache struct {
	store *store.Reports
	state func(context.Context) string // of this host, as pages show it; nil: none

	mu    sync.Mutex
	at    time.Time
	value store.PageState
	host  string
}

// read returns counters that are not older than age.
func (p *counterCache) read(ctx context.Context, age time.Duration) (store.PageState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.at.IsZero() && now.Sub(p.at) <= age {
		return p.value, nil
	}
	value, err := p.store.PageState(ctx)
	if err != nil {
		return store.PageState{}, err
	}
	p.value, p.at = value, now
	if p.state != nil {
		p.host = p.state(ctx)
	}
	return value, nil
}

// hostState is what pages show that is in no row: why no session can start, the walls, the day of the budget, and the set-up. A banner
// about it disappears when this changes.
func (s *site) hostState(ctx context.Context) string {
	trouble := ""
	if s.Trouble != nil {
		trouble = s.Trouble()
	}
	walls, _ := situation.Walls(s.Walls())
	steps := ""
	if s.Setup != nil && !s.HideSetup {
		steps = fmt.Sprint(s.Setup(ctx, false))
	}
	return trouble + "\n" + walls + "\n" + s.Clock().UTC().Format(time.DateOnly) + "\n" + steps
}

// revision identifies a state of the counters, so that a browser can report what it has seen.
func revision(p store.PageState) string { return digest(p, "") }

// revision identifies a state of the counters and of this host.
func (p *counterCache) revision(counts store.PageState) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return digest(counts, p.host)
}

func digest(counts store.PageState, host string) string {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, counts, host) // a hash never fails
	return hex.EncodeToString(sum.Sum(nil))
}

// railLink is one entry of the navigation, or a page of one.
type railLink struct {
	Name, Path, Icon, Word string
	Tab                    bool // one of the tabs of a phone
	Current                bool
	Count                  int
	Pages                  []railLink // all of the entry, the first is its own
}

// rail returns the navigation. Every page can be reached from it: by an entry, or by the pages of one.
func rail(current string, counts store.PageState) []railLink {
	asked := counts.Approvals + counts.Incidents
	entries := []railLink{
		{Name: "overview", Path: "/", Icon: "layout-dashboard", Word: "Overview", Tab: true},
		{Name: "incidents", Path: "/incidents", Icon: "siren", Word: "Incidents", Tab: true, Count: asked, Pages: []railLink{
			{Name: "approvals", Path: "/approvals", Word: "Approvals"},
		}},
		{Name: "services", Path: "/services", Icon: "server", Word: "Services", Tab: true, Pages: []railLink{
			{Name: "actions", Path: "/actions", Word: "Actions"},
			{Name: "silences", Path: "/silences", Word: "Silences"},
		}},
		{Name: "cycles", Path: "/cycles", Icon: "activity", Word: "Activity", Tab: true, Pages: []railLink{
			{Name: "events", Path: "/events", Word: "Events"},
			{Name: "guard", Path: "/guard", Word: "Guard"},
			{Name: "memory", Path: "/memory", Word: "Memory"},
		}},
		{Name: "costs", Path: "/costs", Icon: "coins", Word: "Costs"},
		{Name: "config", Path: "/config", Icon: "settings", Word: "Settings", Pages: []railLink{
			{Name: "notifications", Path: "/notifications", Word: "Notifications"},
			{Name: "hosts", Path: "/hosts", Word: "Hosts"},
		}},
	}
	own := map[string]string{"cycles": "Cycles", "config": "Configuration"}
	for i := range entries {
		e := &entries[i]
		e.Current = e.Name == current
		if e.Pages == nil {
			continue
		}
		e.Pages = append([]railLink{{Name: e.Name, Path: e.Path, Word: cmp.Or(own[e.Name], e.Word)}}, e.Pages...)
		for j := range e.Pages {
			page := &e.Pages[j]
			page.Current = page.Name == current
			e.Current = e.Current || page.Current
		}
	}
	return entries
}

// railPages are the pages of the current entry of the navigation, if it has several.
func railPages(current string) []railLink {
	for _, e := range rail(current, store.PageState{}) {
		if e.Current {
			return e.Pages
		}
	}
	return nil
}

// railName is the page of the navigation that a path belongs to; empty if none.
func railName(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "":
		return "overview"
	case "sessions":
		return "cycles"
	}
	for _, e := range rail("", store.PageState{}) {
		if e.Name == first || slices.ContainsFunc(e.Pages, func(p railLink) bool { return p.Name == first }) {
			return first
		}
	}
	return ""
}

// setupView is the list of what is left to set up.
type setupView struct {
	Done  int
	Steps []setupStep
}

type setupStep struct {
	api.SetupRow

	Title string
	Badge badge
	Todo  bool
	Test  bool   // it is done by a test that this page can send
	Copy  string // a command, or lines of the configuration
	Link  *pageLink
}

// addSetup adds the steps of the set-up until none is left to do, and then how far agents may go.
func (v *overviewView) addSetup(ctx context.Context, s *site) {
	if s.Setup == nil {
		return
	}
	rows := s.Setup(ctx, false)
	for _, row := range rows {
		if row.Step == api.StepTrust && row.State == api.SetupDone {
			v.May = pageLink{row.Page, "Trust " + plain(row.Detail)}
		}
	}
	if s.HideSetup || !api.SetupIncomplete(rows) {
		return
	}
	// The title of each step, and the link to where it is done.
	words := map[string][2]string{
		api.StepAgent: {"Agent"}, api.StepKey: {"Key"}, api.StepService: {"First service", "Add a service"},
		api.StepTrust: {"What it may do", "Trust"}, api.StepNotifications: {"Who is told", "Add a target"},
	}
	v.Setup = &setupView{}
	for _, row := range rows {
		step := setupStep{SetupRow: row, Title: words[row.Step][0], Copy: cmp.Or(row.Command, row.Lines)}
		step.Badge = badge{"ok", "circle-check", "Done"}
		switch row.State {
		case api.SetupDone:
			v.Setup.Done++
		case api.SetupUnknown:
			step.Badge = badge{"unknown", "circle-question-mark", "Not testable"}
		case api.SetupTodo:
			step.Todo, step.Badge = true, badge{"warn", "triangle-alert", "To do"}
			if row.Blocks {
				step.Badge = badge{"bad", "octagon-x", "To do"}
			}
		}
		step.Test = row.Step == api.StepNotifications && row.Command != "" && !row.Blocks
		if row.Page != "" && words[row.Step][1] != "" {
			step.Link = &pageLink{row.Page, words[row.Step][1]}
		}
		v.Setup.Steps = append(v.Setup.Steps, step)
	}
}
