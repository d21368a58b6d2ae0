package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	maxSeries       = 5 // besides "All others"
	expensiveCycles = 8
	sumDays         = 30 // the longest period in the totals
)

type costsView struct {
	Sums        []costSum
	Budgets     []budgetView
	Groups      []option
	Ranges      []option
	Filters     filterRow
	Environment string
	Several     bool
	Days        int
	By          string
	Word        string // the group in lower case
	Chart       *picture
	Legend      []series
	Groupings   []groupRow
	Chains      []store.ChainCost
	Tokens      []fact
	Unknown     string // note on sessions of unknown cost
	Any         bool
	Known       bool // some session told its cost
}

type costSum struct {
	Word string
	Cost figure
}

type budgetView struct {
	Environment string
	Spent       figure
	Limit       string
	Share       string // percent of the bar
	Percent     string
	Reached     bool
}

type groupRow struct {
	Name     string
	Cost     figure
	Share    string
	Sessions int
	Tokens   figure
}

func errNoCosts() error {
	return noSuch("Costs are grouped by tier, model, service or trigger, over 7, 30 or 90 days.")
}

// costQuery is the requested view of costs.
type costQuery struct {
	by          store.CostGroup
	days        int
	environment string
}

func readCostQuery(r *http.Request) (costQuery, error) {
	q := costQuery{by: store.CostGroup(cmp.Or(queried(r, "by"), string(store.CostByTier))), days: 30, environment: queried(r, "environment")}
	if text := queried(r, "days"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || !slices.Contains([]int{7, 30, 90}, n) {
			return q, errNoCosts()
		}
		q.days = n
	}
	if !slices.Contains(store.CostGroups(), q.by) {
		return q, errNoCosts()
	}
	return q, nil
}

// since is midnight UTC of the first day. Budgets use the same days.
func (q costQuery) since(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-q.days)
}

func (s *costs) costs(r *http.Request) (page, error) {
	q, err := readCostQuery(r)
	if err != nil {
		return page{}, err
	}
	ctx, m := r.Context(), moment{s.Clock()}
	view := costsView{
		Days: q.days, By: groupWord(q.by), Word: strings.ToLower(groupWord(q.by)), Environment: q.environment,
		Several: len(s.Environments) > 1, Filters: s.costFilters(r, q),
	}
	for _, by := range store.CostGroups() {
		view.Groups = append(view.Groups, option{Word: groupWord(by), Path: with(r, "by", string(by)), Current: by == q.by})
	}
	for _, n := range []int{7, 30, 90} {
		view.Ranges = append(view.Ranges, option{Word: fmt.Sprintf("%d days", n), Path: with(r, "days", strconv.Itoa(n)), Current: n == q.days})
	}
	filter := store.CostFilter{Environment: q.environment, Since: q.since(m.now)}
	rows, err := s.Store.Reports.Costs(ctx, q.by, filter)
	if err != nil {
		return page{}, err
	}
	view.addGroups(q, rows, m.now)
	if q.days < sumDays { // the totals go further back than the chart
		rows, err = s.Store.Reports.Costs(ctx, q.by, store.CostFilter{Environment: q.environment, Since: costQuery{days: sumDays}.since(m.now)})
		if err != nil {
			return page{}, err
		}
	}
	view.addSums(rows, m.now)
	if err := s.addBudgets(ctx, m, q, &view); err != nil {
		return page{}, err
	}
	view.Chains, err = s.Store.Reports.ExpensiveChains(ctx, filter, expensiveCycles)
	return page{Title: "Costs", Nav: "costs", Body: view}, err
}

// addSums adds the totals of recent periods.
func (v *costsView) addSums(rows []store.CostRow, now time.Time) {
	for _, one := range []struct {
		word string
		days int
	}{{"today", 1}, {"7 days", 7}, {"30 days", sumDays}} {
		var sum store.Cost
		for _, row := range rows {
			if !row.Day.Before(costQuery{days: one.days}.since(now)) {
				sum = sum.Add(row.Cost)
			}
		}
		v.Sums = append(v.Sums, costSum{one.word, spentFigure(sum)})
	}
}

// addBudgets adds today's budgets.
func (s *costs) addBudgets(ctx context.Context, m moment, q costQuery, view *costsView) error {
	today := costQuery{days: 1}.since(m.now)
	for _, e := range s.Environments {
		if e.Policy.BudgetDayUSD == 0 || q.environment != "" && q.environment != e.Name {
			continue
		}
		spent, known, err := s.Store.Reports.CostSince(ctx, e.Name, today)
		if err != nil {
			return err
		}
		b := budgetView{Environment: e.Name, Limit: dollars(&e.Policy.BudgetDayUSD).Text, Spent: dollars(nil)}
		if known {
			share := 100 * spent / e.Policy.BudgetDayUSD
			b.Spent, b.Share, b.Percent = dollars(&spent), percent(min(100, share)), strconv.FormatFloat(share, 'f', 0, 64)
			b.Reached = spent >= e.Policy.BudgetDayUSD
			if spent == 0 {
				b.Spent = figure{Text: "Nothing spent"}
			}
		}
		view.Budgets = append(view.Budgets, b)
	}
	return nil
}

func groupWord(by store.CostGroup) string { return ops.Capital(string(by)) }

func keyWord(by store.CostGroup, key string) string {
	switch {
	case by == store.CostByTier:
		if n, err := strconv.Atoi(key); err == nil {
			return ops.Tier(n).String()
		}
	case by == store.CostByTrigger:
		return ops.Trigger(key).Title()
	case by == store.CostByService && key == "":
		return "No service"
	case key == "":
		return "Unknown"
	}
	return firstLine(key, 60)
}

// addGroups fills the chart, its legend, the table of groups and the tokens.
func (v *costsView) addGroups(q costQuery, rows []store.CostRow, now time.Time) {
	sums := map[string]store.Cost{}
	var all store.Cost
	for _, row := range rows {
		sums[row.Key] = sums[row.Key].Add(row.Cost)
		all = all.Add(row.Cost)
	}
	v.Any = all.Sessions > 0
	if silent := all.Sessions - all.Reported; silent > 0 {
		v.Unknown = ops.Plural(silent, "session", "sessions") + " reported no cost."
	}
	v.Tokens = tokenFacts(all)
	keys := make([]string, 0, len(sums))
	for key := range sums {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if q.by == store.CostByTier {
			return cmp.Compare(a, b)
		}
		return cmp.Or(cmp.Compare(value(sums[b].USD), value(sums[a].USD)), cmp.Compare(a, b))
	})
	for _, key := range keys {
		row := groupRow{
			Name: keyWord(q.by, key), Cost: atLeast(sums[key]), Sessions: sums[key].Sessions, Tokens: count(tokens(sums[key])),
		}
		if all.USD != nil && *all.USD > 0 && sums[key].USD != nil {
			row.Share = strconv.FormatFloat(100**sums[key].USD/(*all.USD), 'f', 0, 64)
		}
		v.Groupings = append(v.Groupings, row)
	}
	if v.Known = all.USD != nil; !v.Known {
		return
	}
	v.draw(q, keys, rows, sums, now)
}

// draw makes the chart of the most expensive groups, from the first day with costs; the rest is one series.
func (v *costsView) draw(q costQuery, keys []string, rows []store.CostRow, sums map[string]store.Cost, now time.Time) {
	begin := costQuery{days: 1}.since(now)
	for _, row := range rows {
		if row.USD != nil && row.Day.Before(begin) {
			begin = row.Day
		}
	}
	days := make([]time.Time, 1+int(now.Sub(begin)/(24*time.Hour)))
	if len(days) < fewest {
		return
	}
	for i := range days {
		days[i] = begin.AddDate(0, 0, i)
	}
	var drawn []series
	at := map[string]int{}
	for _, key := range keys {
		if sums[key].USD == nil {
			continue
		}
		if len(drawn) == maxSeries+1 || len(drawn) == maxSeries && len(keys) > maxSeries+1 {
			if len(drawn) == maxSeries {
				drawn = append(drawn, series{Name: "All others", Class: "stack-rest", USD: make([]*float64, len(days))})
			}
			at[key] = maxSeries
			drawn[maxSeries].Total = plus(drawn[maxSeries].Total, sums[key].USD)
			continue
		}
		at[key] = len(drawn)
		drawn = append(drawn, series{
			Name: keyWord(q.by, key), Class: fmt.Sprintf("stack-%d", len(drawn)+1), USD: make([]*float64, len(days)), Total: sums[key].USD,
		})
	}
	for _, row := range rows {
		n, found := at[row.Key]
		day := int(row.Day.Sub(begin) / (24 * time.Hour))
		if found && day >= 0 && day < len(days) {
			drawn[n].USD[day] = plus(drawn[n].USD[day], row.USD)
		}
	}
	title := fmt.Sprintf("Estimated cost per day by %s, last %d days", strings.ToLower(v.By), q.days)
	chart := stackedBars("cost-per-day", title, days, drawn)
	chart.Note = "Days begin at 00:00 UTC."
	v.Chart, v.Legend = &chart, drawn
}

// costFilters keeps the grouping and the range of the page.
func (s *costs) costFilters(r *http.Request, q costQuery) filterRow {
	row := filterRow{Action: "/costs", Hidden: map[string]string{}}
	for _, name := range []string{"by", "days"} {
		if value := queried(r, name); value != "" {
			row.Hidden[name] = value
		}
	}
	return row.withEnvironment(s.environmentChoices(q.environment))
}

// spentFigure distinguishes no sessions from sessions without a reported cost.
func spentFigure(c store.Cost) figure {
	if c.Sessions == 0 {
		return figure{Text: "No sessions"}
	}
	return atLeast(c)
}

// atLeast is a cost, marked if some sessions reported none.
func atLeast(c store.Cost) figure {
	f := dollars(c.USD)
	if silent := c.Sessions - c.Reported; f.Known && silent > 0 {
		f.Text = "≥ " + f.Text
		f.Exact += ", without " + ops.Plural(silent, "session", "sessions") + " of unknown cost"
	}
	return f
}

// plus adds numbers that may be unknown.
func plus[N int64 | float64](a, b *N) *N {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return ops.Ptr(*a + *b)
}

func value(usd *float64) float64 {
	if usd == nil {
		return -1
	}
	return *usd
}

// tokens is the sum of all token counts.
func tokens(c store.Cost) *int64 {
	return plus(plus(c.InputTokens, c.OutputTokens), plus(c.CacheReadTokens, c.CacheWriteTokens))
}

func tokenFacts(c store.Cost) []fact {
	var out []fact
	for _, one := range []struct {
		name string
		n    *int64
	}{{"Input", c.InputTokens}, {"Output", c.OutputTokens}, {"Cache read", c.CacheReadTokens}, {"Cache write", c.CacheWriteTokens}} {
		f := count(one.n)
		out = append(out, fact{Name: one.name, Value: f.Text, Faint: !f.Known})
	}
	return out
}

// chainView is the sessions of one cycle with their totals.
type chainView struct {
	Lines    []sessionRow
	Duration figure
	Turns    figure
	Cost     figure
}

// sessionRow is one session in its cycle.
type sessionRow struct {
	ops.Session
	Badge    badge
	Duration figure
	Turns    figure
	Cost     figure
	Current  bool   // the session of this page
	Calls    figure // of tools, as far as the guard saw them
	Refusals figure // by the guard
}

// chain lists the sessions of a cycle with what the guard saw of them.
func (m moment) chain(sessions []ops.Session, calls map[ops.SessionID]store.CallCounts, current ops.SessionID) chainView {
	view := chainView{Turns: totalTurns(sessions), Cost: totalCost(sessions)}
	var lasted time.Duration
	running := 0
	for _, s := range sessions {
		if s.Status == ops.SessionRunning {
			running++
		}
		row := m.sessionRow(s, sessions)
		row.Current = s.ID == current
		if n, seen := calls[s.ID]; seen {
			row.Calls, row.Refusals = count(&n.Calls), count(&n.Refusals)
		}
		view.Lines = append(view.Lines, row)
		d, _ := m.duration(s)
		lasted += d
	}
	view.Duration = figure{Known: true, Text: span(lasted)}
	if running == 1 {
		view.Duration.Since = m.now.Add(-lasted).UTC().Format(time.RFC3339)
	}
	return view
}

func (m moment) sessionRow(s ops.Session, chain []ops.Session) sessionRow {
	ended := s.Status.Ended()
	row := sessionRow{
		Session: s, Badge: sessionBadge(s, childOf(s, chain) != nil), Turns: count(s.NumTurns).yet(ended), Cost: dollars(s.CostUSD).yet(ended),
		Duration: unknown(), Calls: unknown(), Refusals: unknown(),
	}
	if s.Status == ops.SessionQueued {
		row.Duration.Exact = "Not started"
	}
	if d, known := m.duration(s); known {
		row.Duration = duration(d)
	}
	if s.Status == ops.SessionRunning && s.StartedAt != nil {
		row.Duration.Since = s.StartedAt.UTC().Format(time.RFC3339)
	}
	return row
}

// duration is the reported duration, or else the elapsed time.
func (m moment) duration(s ops.Session) (time.Duration, bool) {
	switch {
	case s.DurationMS != nil:
		return time.Duration(*s.DurationMS) * time.Millisecond, true
	case s.StartedAt == nil:
		return 0, false
	case s.EndedAt != nil:
		return s.EndedAt.Sub(*s.StartedAt), true
	case s.Status == ops.SessionRunning:
		return m.now.Sub(*s.StartedAt), true
	}
	return 0, false
}

// totalTurns adds up the known turns.
func totalTurns(sessions []ops.Session) figure {
	var total *int64
	for _, s := range sessions {
		total = plus(total, s.NumTurns)
	}
	return count(total)
}

func percent(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// totalCost adds up the known costs and marks the sum if some are unknown.
func totalCost(sessions []ops.Session) figure {
	sum := store.Cost{Sessions: len(sessions)}
	for _, s := range sessions {
		if s.CostUSD != nil {
			sum.Reported++
		}
		sum.USD = plus(sum.USD, s.CostUSD)
	}
	return atLeast(sum)
}

// childOf returns the session that s escalated to: the last attempt at the work of that tier.
func childOf(s ops.Session, chain []ops.Session) *ops.Session {
	var child *ops.Session
	for i := range chain {
		c := &chain[i]
		if c.ParentID == nil || *c.ParentID != s.ID || c.Tier <= s.Tier || !c.Works() {
			continue
		}
		if child == nil || c.Tier == child.Tier && c.ID > child.ID {
			child = c
		}
	}
	return child
}
