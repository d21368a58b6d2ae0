package web

import (
	"net/http"
	"strconv"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

type guardListView struct {
	Filters  filterRow
	Filtered bool
	Walls    []Wall
	Rows     []guardListRow
	Pager    pager
}

// guardListRow is a decision of the guard, with the session that it was about.
type guardListRow struct {
	guardRow
	ID      int64
	Tier    ops.Tier
	Session ops.SessionID
	Cycle   cycleRef
}

// guardPage lists the newest decisions of the guard in all sessions.
func (s *server) guardPage(w http.ResponseWriter, r *http.Request) {
	before, ok := cursor(r)
	f := store.GuardFilter{
		Verdict: queried(r, "verdict"), Rule: queried(r, "rule"), Service: queried(r, "service"), Before: before, Limit: listed,
	}
	if text := queried(r, "tier"); text != "" {
		n, err := strconv.Atoi(text)
		ok = ok && err == nil && n >= int(ops.Tier1) && n <= int(ops.LastTier)
		f.Tier = ops.Tier(n)
	}
	if !ok || (f.Verdict != "" && f.Verdict != "allow" && f.Verdict != "deny") {
		s.errorPage(w, r, http.StatusNotFound, "No such list of decisions. A verdict is allow or deny, and a tier is 1, 2 or 3.")
		return
	}
	found, err := s.Store.GuardList(r.Context(), f)
	if err != nil {
		s.fail(w, r, "list of decisions", err)
		return
	}
	view := guardListView{
		Walls: s.Walls(), Pager: paging(r, found.Next), Filtered: f.Verdict != "" || f.Tier > 0 || f.Rule != "" || f.Service != "",
	}
	view.Filters = guardFilters(f).clearing(view.Filtered)
	m := moment{s.Clock()}
	for _, record := range found.Records {
		view.Rows = append(view.Rows, guardListRow{m.guardRow(record), record.ID, record.Tier, record.SessionID, refer(record.CycleID)})
	}
	s.render(w, r, http.StatusOK, "guard", page{Title: "Guard", Nav: "guard", Body: view})
}

func guardFilters(f store.GuardFilter) filterRow {
	tier := ""
	if f.Tier > 0 {
		tier = strconv.Itoa(int(f.Tier))
	}
	return filterRow{Action: "/guard", Fields: []filterField{
		{Kind: "search", Name: "service", Label: "Service", Value: f.Service},
		selected("verdict", "Verdict", chosen(f.Verdict, "All verdicts", choice{Value: "deny", Word: "Denied"},
			choice{Value: "allow", Word: "Allowed"})),
		selected("tier", "Tier", chosen(tier, "All tiers", choice{Value: "1", Word: "Tier 1"}, choice{Value: "2", Word: "Tier 2"},
			choice{Value: "3", Word: "Tier 3"})),
		{Kind: "text", Name: "rule", Label: "Rule", Value: f.Rule},
	}}
}
