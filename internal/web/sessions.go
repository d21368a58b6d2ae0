package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const chainsPerPage = 25

type sessionsView struct {
	Chains      []chainRow
	Statuses    []choice
	Environment string
	Several     bool
	Filtered    bool
	Paged       bool
	Older       string
	Newest      string
}

// choice is one entry of a filter.
type choice struct {
	Value, Word string
	Chosen      bool
}

// chainRow is one cycle with its sessions beneath it.
type chainRow struct {
	ID          ops.CycleID
	Environment string
	Title       string
	Tiers       []ops.Tier
	Badge       badge
	Reason      string
	Duration    figure
	Turns       figure
	Cost        figure
	Started     stamp
	Sessions    []sessionRow
}

func (s *server) sessions(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	status := ops.CycleStatus(query.Get("status"))
	environment := query.Get("environment")
	before, err := strconv.ParseInt(query.Get("cursor"), 10, 64)
	if query.Get("cursor") != "" && (err != nil || before < 1) {
		s.errorPage(w, r, http.StatusNotFound, "There is no such page of sessions.")
		return
	}
	cycles, err := s.Store.Cycles(r.Context(), store.CycleFilter{
		Status: status, Environment: environment, Before: ops.CycleID(before), Limit: chainsPerPage + 1,
	})
	if err != nil {
		s.fail(w, r, "list of sessions", err)
		return
	}
	m := moment{s.Clock()}
	view := sessionsView{
		Statuses: statusChoices(status), Environment: environment, Several: len(s.Environments) > 1,
		Filtered: status != "" || environment != "", Paged: before > 0,
		Newest: sessionsPath(status, environment, 0),
	}
	live := false
	for i, c := range cycles {
		if i == chainsPerPage {
			view.Older = sessionsPath(status, environment, cycles[i-1].ID)
			break
		}
		view.Chains = append(view.Chains, m.chainRow(c))
		live = live || !c.Status.Ended() && c.Status != ops.CycleWaitingHuman
	}
	p := page{Title: "Sessions", Nav: "sessions", Body: view}
	if live {
		p.Refresh = sessionsPath(status, environment, ops.CycleID(before))
	}
	s.render(w, r, http.StatusOK, "sessions", p)
}

func (m moment) chainRow(c store.CycleSummary) chainRow {
	chain := m.chain(c.Sessions, 0)
	row := chainRow{
		ID: c.ID, Environment: c.Environment, Title: cycleTitle(c.Cycle), Badge: cycleBadge(c.Status),
		Reason: plain(c.Reason), Turns: chain.Turns, Cost: chain.Cost,
		Started: m.stamp(c.CreatedAt), Sessions: chain.Rows, Duration: figure{Text: "Not available"},
	}
	for _, session := range c.Sessions {
		if !slices.Contains(row.Tiers, session.Tier) {
			row.Tiers = append(row.Tiers, session.Tier)
		}
	}
	if c.StartedAt != nil {
		end := m.now
		if c.EndedAt != nil {
			end = *c.EndedAt
		}
		d := end.Sub(*c.StartedAt)
		row.Started = m.stamp(*c.StartedAt)
		row.Duration = figure{Known: true, Text: span(d), Exact: d.String()}
	}
	if !c.Status.Ended() && !row.Cost.Known {
		row.Cost = figure{Text: "Not yet"}
	}
	return row
}

func statusChoices(chosen ops.CycleStatus) []choice {
	choices := []choice{{Word: "Any outcome", Chosen: chosen == ""}}
	for _, status := range []ops.CycleStatus{
		ops.CycleQueued, ops.CycleRunning, ops.CycleWaitingHuman, ops.CycleHealthy, ops.CycleResolved, ops.CycleNeedsHuman,
		ops.CycleSuppressed, ops.CycleBlocked, ops.CyclePartial, ops.CycleFailed, ops.CycleCancelled,
	} {
		choices = append(choices, choice{string(status), cycleBadge(status).Word, chosen == status})
	}
	return choices
}

func sessionsPath(status ops.CycleStatus, environment string, before ops.CycleID) string {
	query := url.Values{}
	if status != "" {
		query.Set("status", string(status))
	}
	if environment != "" {
		query.Set("environment", environment)
	}
	if before > 0 {
		query.Set("cursor", strconv.FormatInt(int64(before), 10))
	}
	if len(query) == 0 {
		return "/sessions"
	}
	return "/sessions?" + query.Encode()
}

// cyclePath shows the list so that it begins with that cycle.
func cyclePath(id ops.CycleID) string {
	return sessionsPath("", "", id+1) + "#c" + strconv.FormatInt(int64(id), 10)
}
