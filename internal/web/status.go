package web

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// stopText describes why a session was stopped.
func stopText(c ops.StopCause) string {
	switch c {
	case ops.StopNone:
		return ""
	case ops.StopUser:
		return "Stopped by a person"
	case ops.StopShutdown:
		return "The supervisor was shut down"
	case ops.StopWall:
		return "It exceeded the maximum session time"
	case ops.StopIdle:
		return "It sent no output for too long"
	case ops.StopTool:
		return "One tool call ran for too long"
	case ops.StopCrash:
		return "The supervisor crashed while the session was running"
	case ops.StopLease:
		return "Its host lost the lease"
	case ops.StopInvariant:
		return "A tool ran without permission from the guard"
	case ops.StopJournal:
		return "Its output could not be written to the journal"
	case ops.StopLoop:
		return "It was repeating itself"
	case ops.StopBudget:
		return "It reached its budget"
	case ops.StopDeadline:
		return "It exceeded the time limit of its recovery level"
	}
	return string(c)
}

func contextText(m ops.ContextMode) string {
	switch m {
	case ops.ContextFresh:
		return "New conversation"
	case ops.ContextResume:
		return "Resumed conversation"
	case ops.ContextHandoff:
		return "Handoff"
	}
	return string(m)
}

// roleText is the role of a session, empty for the ordinary work of its tier.
func roleText(r ops.Role) string {
	switch r {
	case ops.RoleWork, "":
		return ""
	case ops.RoleManager:
		return "Manager"
	case ops.RolePlanner:
		return "Planner"
	case ops.RoleJudge:
		return "Judge"
	}
	return plain(string(r))
}

// counterCache shares the change counters among all readers, so that a thousand open tabs cause one query.
type counterCache struct {
	store *store.Store
	state func() string // of this host, as pages show it; nil: none

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
		p.host = p.state()
	}
	return value, nil
}

// hostState is what pages show that is in no row: why no session can start, the walls, and the day of the budget. A banner about
// it disappears when this changes.
func (s *server) hostState() string {
	trouble := ""
	if s.Trouble != nil {
		trouble = s.Trouble()
	}
	walls, _ := situation.Walls(s.Walls())
	return trouble + "\n" + walls + "\n" + s.Clock().UTC().Format(time.DateOnly)
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

// costCache keeps today's cost, which changes only when a session ends.
type costCache struct {
	mu    sync.Mutex
	since time.Time
	ended string // end of the last session, from the counters
	total float64
	known bool
}

func (c *costCache) upTo(ctx context.Context, s *store.Store, since time.Time, ended string) (float64, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended != "" && c.ended == ended && c.since.Equal(since) {
		return c.total, c.known, nil
	}
	total, known, err := s.CostSince(ctx, "", since)
	if err != nil {
		return 0, false, err
	}
	c.since, c.ended, c.total, c.known = since, ended, total, known
	return total, known, nil
}

// railGroup is a part of the navigation.
type railGroup struct {
	Name  string
	Links []railLink
	More  []railLink // those that a phone shows under More
}

// railLink is one entry of the navigation.
type railLink struct {
	Name, Path, Icon, Word string
	Tab                    bool // one of the tabs of a phone
	Current                bool
	Count                  int
}

// rail returns the navigation: every page can be reached from it.
func rail(current string, counts store.PageState) []railGroup {
	groups := []railGroup{
		{Links: []railLink{{Name: "overview", Path: "/", Icon: "layout-dashboard", Word: "Overview", Tab: true}}},
		{Name: "Watch", Links: []railLink{
			{Name: "cycles", Path: "/cycles", Icon: "list", Word: "Cycles", Tab: true},
			{Name: "incidents", Path: "/incidents", Icon: "siren", Word: "Incidents", Tab: true, Count: counts.Approvals + counts.Incidents},
			{Name: "services", Path: "/services", Icon: "server", Word: "Services", Tab: true},
			{Name: "events", Path: "/events", Icon: "activity", Word: "Events"},
		}},
		{Name: "Act", Links: []railLink{
			{Name: "approvals", Path: "/approvals", Icon: "hand", Word: "Approvals"},
			{Name: "actions", Path: "/actions", Icon: "wrench", Word: "Actions"},
			{Name: "silences", Path: "/silences", Icon: "bell-off", Word: "Silences"},
		}},
		{Name: "Records", Links: []railLink{
			{Name: "costs", Path: "/costs", Icon: "coins", Word: "Costs"},
			{Name: "notifications", Path: "/notifications", Icon: "bell", Word: "Notifications"},
			{Name: "memory", Path: "/memory", Icon: "brain", Word: "Memory"},
			{Name: "guard", Path: "/guard", Icon: "shield", Word: "Guard"},
		}},
		{Name: "Set-up", Links: []railLink{
			{Name: "hosts", Path: "/hosts", Icon: "monitor", Word: "Hosts"},
			{Name: "config", Path: "/config", Icon: "settings", Word: "Config"},
			{Name: "docs", Path: "/api/docs", Icon: "scroll-text", Word: "API docs"},
		}},
	}
	for g := range groups {
		for i := range groups[g].Links {
			link := &groups[g].Links[i]
			link.Current = link.Name == current
			if !link.Tab {
				groups[g].More = append(groups[g].More, *link)
			}
		}
	}
	return groups
}

// railName is the entry of the navigation that a path belongs to; empty if none.
func railName(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "":
		return "overview"
	case "sessions":
		return "cycles"
	}
	for _, group := range rail("", store.PageState{}) {
		for _, link := range group.Links {
			if link.Name == first {
				return first
			}
		}
	}
	return ""
}
