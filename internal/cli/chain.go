package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// printChain draws the sessions of a cycle as a tree with the cost of each, and the total.
func printChain(w io.Writer, c api.Cycle) {
	fmt.Fprintf(w, "Escalation Chain for Cycle #%d\n", c.ID)
	if c.Problem != nil {
		fmt.Fprintf(w, "Problem: %s\n", shorten(*c.Problem, 120))
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, s := range c.Sessions {
		branch := "├──"
		if i == len(c.Sessions)-1 {
			branch = "└──"
		}
		fmt.Fprintln(t, tabbed(
			fmt.Sprintf("%s Session #%d", branch, s.ID), s.Tier.String(), s.Model, ops.Dollars(s.CostUSD), span(s.DurationMS),
			turns(s.NumTurns), mark(s.Status)+" "+ending(s)))
	}
	_ = t.Flush() // w is a buffer or stdout; a broken pipe shows in the next write
	total := totalOf(c.Sessions)
	if len(c.Sessions) == 0 {
		fmt.Fprintln(w, "    no session has run")
	}
	fmt.Fprintf(w, "Total: %s  %s  %s\n", ops.Dollars(total.cost), duration(total.time), turns(total.turns))
	fmt.Fprintf(w, "Result: %s", c.StatusText())
	if why := whyNow(c); why != "" {
		fmt.Fprintf(w, " (%s)", spoken(why))
	}
	fmt.Fprintln(w)
	switch {
	case c.RefutedAt != nil:
		fmt.Fprintf(w, "Did not hold: the same check failed again at %s\n", stamp(c.RefutedAt))
	case c.ProbationUntil != nil && time.Now().Before(*c.ProbationUntil):
		fmt.Fprintf(w, "On probation until %s: the same check opens the incident again\n", stamp(c.ProbationUntil))
	}
}

// ending says how a session of a chain ended, and why it ran.
func ending(s api.Session) string {
	if !works(s) {
		return s.Role + " · " + string(s.Status)
	}
	out := string(s.Status)
	if s.Outcome != nil {
		out += " · " + *s.Outcome
	}
	if s.StopCause != nil {
		out += " · stopped: " + *s.StopCause
	}
	switch {
	case s.RecoveryLevel > 0:
		out += fmt.Sprintf(" · %s after #%d", s.RecoveryLevel.Action(), *s.RetryOfSessionID)
	case s.RetryOfSessionID != nil:
		out += fmt.Sprintf(" · again after #%d", *s.RetryOfSessionID)
	}
	return out
}

// works reports whether the session did the work of a tier itself.
func works(s api.Session) bool { return s.Role == string(ops.RoleWork) }

type sums struct {
	cost  *float64
	turns *int64
	time  time.Duration
}

// totalOf adds up the known figures; a figure that no session reported stays unknown.
func totalOf(sessions []api.Session) sums {
	var t sums
	for _, s := range sessions {
		if s.CostUSD != nil {
			t.cost = ops.Ptr(value(t.cost) + *s.CostUSD)
		}
		if s.NumTurns != nil {
			t.turns = ops.Ptr(value(t.turns) + *s.NumTurns)
		}
		if s.DurationMS != nil {
			t.time += time.Duration(*s.DurationMS) * time.Millisecond
		}
	}
	return t
}

// printDecisions shows every routing decision with its reason, or with all that it was made of.
func printDecisions(w io.Writer, decisions []api.Escalation, whole bool) {
	for _, d := range decisions {
		fmt.Fprintf(w, "\nDecision after session #%d: %s\n", d.SessionID, d.Decision)
		if !whole {
			fmt.Fprintf(w, "  %s\n", spoken(d.Reason))
			continue
		}
		for _, line := range [][2]string{
			{"source_handler", d.SourceHandler},
			{"target_handler", or(value(d.TargetHandler), "none")},
			{"escalation_reason", or(clean(value(d.Proposed)), "none given")},
			{"decision_reason", spoken(d.Reason)},
			{"escalation_depth", fmt.Sprint(d.Depth)},
			{"max_depth", fmt.Sprint(d.MaxDepth)},
			{"target_validated", fmt.Sprint(d.TargetValidated)},
			{"self_escalation_rejected", fmt.Sprint(d.SelfEscalationRejected)},
			{"process_mode", d.ProcessMode},
			{"manager_present", fmt.Sprint(d.ManagerPresent)},
			{"path", "[" + strings.Join(d.Path, ", ") + "]"},
		} {
			fmt.Fprintf(w, "  %s: %s\n", line[0], line[1])
		}
	}
}

// printRecoveries shows the recovery attempts, the verifications and the result of a cycle that ended without success.
func printRecoveries(w io.Writer, c api.CycleReport) {
	if len(c.Recoveries) > 0 {
		fmt.Fprintln(w, "\nRecovery")
	}
	for _, r := range c.Recoveries {
		fmt.Fprintf(w, "  %s  level %d %-10s after session #%d (%s), before: %v: %s\n",
			r.EnteredAt.Local().Format("15:04:05"), r.Level, r.Action, r.SessionID, r.ErrorType, r.PreviousLevels, spoken(r.Reason))
	}
	for _, v := range c.Verifications {
		fmt.Fprintf(w, "\nVerification of session #%d by session #%d: %s, %d of 100: %s\n",
			v.SessionID, v.JudgeSessionID, v.Verdict, v.TotalScore, clean(v.Reasoning))
	}
	if len(c.Result) > 0 {
		printPartial(w, c.Result)
	}
}

// printApprovals shows the approvals that were asked for, and the answers.
func printApprovals(w io.Writer, approvals []api.Approval) {
	for _, a := range approvals {
		fmt.Fprintf(w, "\nApproval #%d (%s): %s", a.ID, a.Handler, a.Status)
		if a.AnsweredBy != nil {
			fmt.Fprintf(w, " by %s at %s %s", *a.AnsweredBy, stamp(a.AnsweredAt), clean(value(a.Answer)))
		}
		fmt.Fprintln(w)
		for i, p := range a.Plan {
			fmt.Fprintf(w, "  %s\n", planStep(i, p))
		}
	}
}

// printPartial shows what was done and what a human should do; a result of another form is shown as it is stored.
func printPartial(w io.Writer, result api.Document) {
	ending, report := recovery.ParseForceDone(result)
	if !report.OK() {
		fmt.Fprintf(w, "\nPartial result\n  %s\n", clean(ops.Prose(result.Text())))
		return
	}
	fmt.Fprintf(
		w,
		"\nPartial result\n  Failed at: %s\n  Why:       %s\n  To do:     %s\n",
		spoken(ending.FailedAt),
		spoken(ops.Prose(ending.FailureReason)),
		spoken(ops.Prose(ending.Recommendation)),
	)
	for _, step := range ending.CompletedSteps {
		fmt.Fprintf(w, "  Done:      %s\n", clean(ops.Prose(step)))
	}
}

// spent is what the sessions of a cycle cost; one without a session cost nothing.
func spent(c api.Cycle) string {
	if len(c.Sessions) == 0 {
		return "–"
	}
	return ops.Dollars(c.TotalCostUSD)
}

// whyNow is the reason for the state of a cycle.
func whyNow(c api.Cycle) string { return ops.Cycle{Status: c.Status, Reason: value(c.Reason)}.Why() }

func (a *app) costsCommand() *cobra.Command {
	by, environment := string(store.CostByTier), ""
	var days, most int
	c := a.anywhere(&cobra.Command{
		Use: "costs", Aliases: []string{"cost"}, Short: "Show the estimated cost per day",
		Example: `  claudeops costs
  claudeops costs --by model --days 7
  claudeops costs --by service -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case days < 1 || days > 3650:
				return usage(fmt.Errorf("--days is %d: use 1 to 3650", days))
			case most < 0 || most > 200:
				return usage(fmt.Errorf("--cycles is %d: use 0 to 200", most))
			}
			since := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days).Format(time.RFC3339)
			return a.read(c.Context(), func(s *client) error {
				sum, err := get[api.Costs](c.Context(), s, "/costs?"+query("by", by, "environment", environment, "since", since).Encode())
				if err != nil {
					return err
				}
				switch a.output {
				case asJSON, asYAML:
					return a.printOne(sum, nil)
				case asLines:
					return printRows(a, sum.Items, "", nil)
				}
				var expensive []api.CycleCost
				if most > 0 {
					expensive, err = items[api.CycleCost](c.Context(), s, "/costs/chains", query("environment", environment, "since", since), most)
					if err != nil {
						return err
					}
				}
				printCosts(a.Stdout, a.screen, sum, days, expensive)
				return nil
			})
		},
	})
	choose(c, &by, "by", "group by tier, model, service or trigger", wordsOf(store.CostGroups()))
	c.Flags().IntVar(&days, "days", 30, "number of days to show; days begin at midnight UTC")
	c.Flags().IntVar(&most, "cycles", 5, "number of most expensive cycles to list below the table")
	c.Flags().StringVar(&environment, "environment", "", "show this environment only")
	return c
}

func printCosts(w io.Writer, s screen, c api.Costs, days int, expensive []api.CycleCost) {
	if len(c.Items) == 0 {
		fmt.Fprintf(w, "No cost recorded in the last %s.\n", ops.Plural(days, "day", "days"))
		return
	}
	var lines []string
	for _, i := range c.Items {
		lines = append(lines, tabbed(i.Day, costKey(c.By, i.Key), ops.Dollars(i.CostUSD), fmt.Sprint(i.Sessions),
			figure(i.InputTokens), figure(i.OutputTokens), figure(i.CacheReadTokens), figure(i.CacheWriteTokens)))
	}
	header := tabbed("DAY (UTC)", strings.ToUpper(c.By), "EST. COST", "SESSIONS", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE")
	fmt.Fprint(w, s.table(header, lines))
	fmt.Fprintf(w, "\nTotal of %s: %s in %s", ops.Plural(days, "day", "days"), ops.Dollars(c.TotalUSD),
		ops.Plural(c.Sessions, "session", "sessions"))
	if c.UnknownCosts > 0 {
		fmt.Fprintf(w, ", %d of them without a reported cost", c.UnknownCosts)
	}
	fmt.Fprintln(w)
	if c.BudgetDayUSD > 0 {
		fmt.Fprintf(w, "Budget per day: %s\n", ops.Dollars(&c.BudgetDayUSD))
	}
	if len(expensive) > 0 {
		fmt.Fprintln(w, "\nMost expensive cycles:")
	}
	for _, d := range expensive {
		fmt.Fprintf(w, "  cycle %d  %s  %s, %s, %s\n",
			d.CycleID, ops.Dollars(d.CostUSD), d.Status, ops.Plural(d.Sessions, "session", "sessions"), stamp(&d.CreatedAt))
	}
	fmt.Fprintln(w, "\nFigures are list-price estimates from the agent CLI, not a bill.")
}

func costKey(by, key string) string {
	switch {
	case key == "":
		return "-"
	case by == string(store.CostByTier):
		return "Tier " + key
	}
	return shorten(key, 60)
}
