package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
)

// overview is what status prints.
type overview struct {
	Daemon    string             `json:"daemon"`
	Stop      api.Standstill     `json:"stop"`
	Stats     api.Stats          `json:"stats"`
	Situation api.Situation      `json:"situation"`
	Services  []api.ServiceState `json:"services"`
	Cycles    []api.Cycle        `json:"cycles"`
	Incidents []api.Incident     `json:"incidents"`
	Approvals []api.Approval     `json:"approvals"`
}

func (a overviews) command() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "status", Short: "Show services, running cycles, what needs you, cost and next check on one screen",
		Example: `  claudeops status
  claudeops status --server http://ops.lan:8080`,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			daemon := a.surroundings(ctx)
			return a.read(ctx, func(s *client) error {
				o, err := overviewOf(ctx, s)
				if err != nil {
					return err
				}
				o.Daemon = daemon
				return a.printOne(o, func(w io.Writer) { a.print(w, o) })
			})
		},
	})
}

// surroundings are what only this machine knows. A daemon of the state folder becomes the server: only it knows the next check.
func (a overviews) surroundings(ctx context.Context) (daemon string) {
	if a.remote != nil {
		return "at " + strings.TrimSuffix(a.remote.Base, api.Prefix)
	}
	cfg, err := a.load()
	if err != nil {
		return "unknown" // the command that follows says why
	}
	daemon = "not running; start it with 'claudeops serve'"
	if reply, err := control.Ping(ctx, cfg.StateDir); err == nil {
		daemon = fmt.Sprintf("running, pid %d", reply.PID)
		if !process.InSession() {
			_ = a.useDaemon(ctx) // without it, the rows come from the database
		}
	}
	return daemon
}

// mostShown is how many rows of each kind fit on the screen.
const mostShown = 5

func overviewOf(ctx context.Context, s *client) (o overview, err error) {
	if o.Stop, err = get[api.Standstill](ctx, s, "/stop"); err != nil {
		return o, err
	}
	if o.Stats, err = get[api.Stats](ctx, s, "/stats"); err != nil {
		return o, err
	}
	if o.Situation, err = get[api.Situation](ctx, s, "/situation"); err != nil {
		return o, err
	}
	if o.Services, err = s.Services(ctx, ""); err != nil {
		return o, err
	}
	slices.SortStableFunc(o.Services, func(x, y api.ServiceState) int { return severity(y.State) - severity(x.State) })
	if o.Cycles, err = unfinished(ctx, s); err != nil {
		return o, err
	}
	o.Cycles = append([]api.Cycle{}, o.Cycles...)
	if o.Incidents, err = items[api.Incident](ctx, s, "/incidents", query("needs_you", "true"), 50); err != nil {
		return o, err
	}
	o.Approvals, err = items[api.Approval](ctx, s, "/approvals", query("status", string(ops.ApprovalPending)), 50)
	return o, err
}

// stoppedBy says who stopped everything, when and why.
func (a *app) stoppedBy(h api.Standstill) string {
	text := fmt.Sprintf("by %s at %s", value(h.By), a.screen.when(h.At))
	if h.Reason != nil {
		text += ": " + *h.Reason
	}
	return clean(text)
}

// printOverview prints one line per subject, with the rows that matter below it.
func (a overviews) print(w io.Writer, o overview) {
	row := func(name, text string) { fmt.Fprintf(w, "%-11s %s\n", name, text) }
	if o.Stop.Stopped {
		row("Stopped", a.fitted(a.stoppedBy(o.Stop)))
		row("", "'claudeops resume' lets agents work again")
	}
	row("Services", servicesLine(o.Stats))
	bad := slices.DeleteFunc(slices.Clone(o.Services), func(x api.ServiceState) bool { return x.State != "down" && x.State != "degraded" })
	below(row, bad, func(x api.ServiceState) string {
		state := x.State
		if a.screen.color {
			state = paint(state, tone(state))
		}
		return a.fitted(fmt.Sprintf("%s  %s  %s", state, clean(x.Name), problem(x)))
	})
	now := time.Now()
	row("Doing", or(first(o.Situation.Doing, now), "nothing to do"))
	below(row, tail(o.Situation.Doing), func(x api.StatusLine) string { return a.fitted(clean(x.Sentence(now))) })
	row("Ahead", or(first(o.Situation.Ahead, now), "–"))
	below(row, tail(o.Situation.Ahead), func(x api.StatusLine) string { return a.fitted(clean(x.Sentence(now))) })
	row("Cycles", cyclesLine(o.Cycles))
	below(row, o.Cycles, func(x api.Cycle) string {
		return a.fitted(fmt.Sprintf("cycle %d  %s  %s  %s  %s  %s", x.ID, x.StatusText(), shorten(x.Title, 60),
			or(tiers(x.Sessions), "no session yet"), spent(x), ranFor(x.StartedAt)))
	})
	row("Needs you", needsLine(o))
	below(row, o.Incidents, func(x api.Incident) string {
		return a.fitted(fmt.Sprintf("incident %d  %s  (claudeops incidents show %d)", x.ID, clean(x.Title), x.ID))
	})
	below(row, o.Approvals, func(x api.Approval) string {
		return a.fitted(fmt.Sprintf("approval %d  %s: %s  (claudeops approvals show %d)", x.ID, ops.Spoken(x.Handler), spoken(x.Reason), x.ID))
	})
	row("Spend", spendLine(o.Stats))
	if at := o.Stats.BudgetGoneAt; at != nil {
		row("", fmt.Sprintf("at this rate (%s per hour) the day's budget is gone at %s", ops.Dollars(&o.Stats.SpendPerHourUSD),
			at.Local().Format("15:04 MST")))
	}
	if s := o.Stats; s.LastCycleEndedAt != nil {
		row("Last cycle", fmt.Sprintf("%s, %s ago", value(s.LastCycleStatus), roughly(time.Duration(value(s.LastCycleAgeSeconds))*time.Second)))
	}
	row("Walls", wallsLine(o))
	if o.Stats.DryRun {
		row("Dry run", "on: agents only look, nothing is changed")
	}
	row("Daemon", o.Daemon)
}

// first is the first sentence of a list, or empty.
func first(lines []api.StatusLine, now time.Time) string {
	if len(lines) == 0 {
		return ""
	}
	return clean(lines[0].Sentence(now))
}

func tail(lines []api.StatusLine) []api.StatusLine { return lines[min(1, len(lines)):] }

// fitted cuts a line that is printed below a subject.
func (a overviews) fitted(text string) string {
	if a.screen.width < 40 || a.screen.color && strings.Contains(text, "\x1b") {
		return text
	}
	return shorten(text, a.screen.width-12)
}

func below[T any](row func(name, text string), rows []T, line func(T) string) {
	for i, r := range rows {
		if i == mostShown {
			row("", fmt.Sprintf("… and %d more", len(rows)-i))
			return
		}
		row("", line(r))
	}
}

func servicesLine(s api.Stats) string {
	if s.ServicesTotal == 0 {
		return "none are watched"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{
		{s.ServicesDown, "down"},
		{s.ServicesDegraded, "degraded"},
		{s.ServicesUnknown, "unknown"},
		{s.ServicesStale, api.HealthStale},
		{s.ServicesHealthy, "healthy"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}

func cyclesLine(cycles []api.Cycle) string {
	if len(cycles) == 0 {
		return "none is running"
	}
	return ops.Plural(len(cycles), "has", "have") + " not ended"
}

func needsLine(o overview) string {
	s := o.Stats
	line := "nothing"
	if s.NeedsYou > 0 {
		var what []string
		if s.IncidentsOpen > 0 {
			what = append(what, ops.Plural(s.IncidentsOpen, "incident", "incidents"))
		}
		if s.ApprovalsPending > 0 {
			what = append(what, ops.Plural(s.ApprovalsPending, "approval", "approvals"))
		}
		line = strings.Join(what, ", ")
	}
	if s.IncidentsUnverified > 0 {
		line += fmt.Sprintf(" (%d unverified)", s.IncidentsUnverified)
	}
	return line
}

func spendLine(s api.Stats) string {
	text := ops.Dollars(s.CostTodayUSD) + " today"
	if s.BudgetDayUSD != nil {
		text += fmt.Sprintf(" of %s", ops.Dollars(s.BudgetDayUSD))
	}
	return text + fmt.Sprintf(", %s in 7 days, %s in 30 days (estimates)", ops.Dollars(s.Cost7DaysUSD), ops.Dollars(s.Cost30DaysUSD))
}

// wallsLine tells the walls of the host that answered.
func wallsLine(o overview) string {
	line := strings.TrimPrefix(value(o.Stats.Walls), "Walls: ")
	if value(o.Stats.WallsMissing) {
		line += "; see 'claudeops doctor'"
	}
	return or(clean(line), "–")
}

// ranFor is how long something has run.
func ranFor(t *time.Time) string {
	if t == nil {
		return "not started"
	}
	return "for " + roughly(time.Since(*t))
}

// unfinished lists the cycles that run, wait for a human or are queued.
func unfinished(ctx context.Context, s *client) ([]api.Cycle, error) {
	var out []api.Cycle
	for _, status := range []ops.CycleStatus{ops.CycleRunning, ops.CycleWaitingHuman, ops.CycleQueued} {
		found, err := items[api.Cycle](ctx, s, "/cycles", query("status", string(status)), 20)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}
