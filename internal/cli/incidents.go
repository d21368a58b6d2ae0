package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/daemon/control"
	"claudeops/internal/ops"
	"claudeops/internal/story"
)

func (a incidents) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "incidents", Aliases: []string{"incident"},
		Short: "Outages and problems: list, show, report, ack, snooze, resolve",
	}
	c.AddCommand(a.list(), show(a.app, "Show an incident: checks, findings, what was tried, cost", "/incidents/%d", printIncident),
		a.report(), a.snooze(),
		answer(a.app, "Acknowledge an incident: nothing escalates for it, and reminders stop", "/incidents/%d/ack", incidentNow),
		answer(a.app, "Close an incident; a cycle that waits for it ends as resolved", "/incidents/%d/resolve", incidentNow))
	return c
}

func (a incidents) list() *cobra.Command {
	header := tabbed("ID", "STATUS", "LEVEL", "ENVIRONMENT", "SERVICE", "TIMES", "OPENED", "TITLE")
	return newListing(a.app, "List open incidents, newest first", "/incidents", header, func(i api.Incident) string {
		return tabbed(fmt.Sprint(i.ID), string(i.Status), i.Level, i.Environment, orDash(i.Service), fmt.Sprint(i.Occurrences),
			a.screen.when(&i.OpenedAt), shorten(i.Title, 60))
	}).since("list incidents opened since then").all("include resolved incidents", "open", "true", "").
		by("environment", "list this environment only").by("service", "list this service only").before("incidents").limit(50)
}

func (a incidents) report() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "report ID", Short: "Print the report of an incident as Markdown", Args: cobra.ExactArgs(1),
		Long: `Prints what happened, when and by what it was detected, what was tried, what it cost and how it ended: as steps in UTC,
each with what is on record about it. The report is made from the records alone; no model is asked.`,
		Example: `  claudeops incidents report 3 > incident-3.md`,
		RunE: readOne(a.app, func(ctx context.Context, s *client, id int64) error {
			text, err := get[[]byte](ctx, s, "/incidents/"+digits(id)+"/report")
			if err != nil {
				return err
			}
			return a.printOne(map[string]any{"id": id, "markdown": string(text)}, func(w io.Writer) { fmt.Fprintf(w, "%s", text) })
		}),
	})
}

func printIncident(w io.Writer, i api.Incident) {
	fmt.Fprintf(w, "Incident #%d: %s\n", i.ID, clean(i.Title))
	if i.Story != nil {
		printStory(w, *i.Story)
	}
	if i.Changed != nil && len(i.Changed.Lines) > 0 {
		fmt.Fprintln(w, "What changed before it, since it was last healthy:")
		for _, text := range i.Changed.Lines {
			fmt.Fprintf(w, "- %s\n", clean(text))
		}
	}
	fmt.Fprintf(w, "Status: %s", i.Status)
	switch {
	case i.ResolvedAt != nil:
		fmt.Fprintf(w, " by %s at %s: %s", value(i.ResolvedBy), stamp(i.ResolvedAt), clean(value(i.Resolution)))
	case i.AcknowledgedAt != nil:
		fmt.Fprintf(w, " by %s at %s", value(i.AcknowledgedBy), stamp(i.AcknowledgedAt))
	}
	if i.SnoozedUntil != nil && i.Status == ops.IncidentSnoozed {
		fmt.Fprintf(w, " until %s", stamp(i.SnoozedUntil))
	}
	fmt.Fprintf(w, "\nEnvironment: %s   Service: %s   Seen %s, first %s",
		i.Environment, orDash(i.Service), ops.Plural(i.Occurrences, "time", "times"), stamp(&i.OpenedAt))
	if i.FirstCycleID != 0 { // an update may have opened it
		fmt.Fprintf(w, ", cycles %d to %d", i.FirstCycleID, i.LastCycleID)
	}
	fmt.Fprintln(w)
	if i.ReopenedAt != nil {
		fmt.Fprintf(w, "The repair did not hold: opened again at %s.\n", stamp(i.ReopenedAt))
	}
	if i.ProbationUntil != nil && time.Now().Before(*i.ProbationUntil) {
		fmt.Fprintf(w, "On probation until %s: the same check opens it again.\n", stamp(i.ProbationUntil))
	}
	if i.DeniedUntil != nil && i.ResolvedAt == nil {
		fmt.Fprintf(w, "Somebody said no: no agent works on it until %s or until the facts change.\n", stamp(i.DeniedUntil))
	}
	if i.Handled {
		fmt.Fprintf(w, "Cycle %d repairs it; no human is needed yet.\n", i.LastCycleID)
	}
	for _, d := range i.Told {
		fmt.Fprintf(w, "Told: %s, by %s, at %s\n", clean(d.To), clean(story.ByRoute(d)), stamp(&d.At))
	}
	if i.NobodyTold != nil {
		fmt.Fprintf(w, "%s\n", clean(*i.NobodyTold))
	}
	if i.WaitingCycleID != nil {
		fmt.Fprintf(w, "Cycle %d waits for the answer.\n", *i.WaitingCycleID)
	}
	var r ops.IncidentReport
	if json.Unmarshal(i.Report, &r) != nil {
		return
	}
	r.Recommendation = ops.Incident{Status: ops.IncidentStatus(i.Status), ResolvedAt: i.ResolvedAt}.ToDo(r.Recommendation)
	for _, x := range r.Checks {
		if x.Status != ops.Healthy {
			fmt.Fprintf(w, "  %s %s: %s %s\n", clean(x.Service), x.CheckType, x.Status, clean(x.Error))
		}
	}
	for _, f := range i.Findings {
		state := "open"
		if f.OverAt != nil {
			state = "over since " + stamp(f.OverAt) + ": " + clean(f.How)
		}
		fmt.Fprintf(w, "Found by %s: %s (%s)\n", ops.FindingKind(f.By).Finder(), clean(f.What), state)
	}
	printFields(w, "%s %s\n", [][2]string{
		{"Claude Ops found", spoken(r.Seen)},
		{"The agent says", spoken(r.Findings)},
		{"The agent says that it tried", spoken(r.Tried)},
		{"To do", spoken(r.Recommendation)},
	})
	if r.CostUSD > 0 {
		fmt.Fprintf(w, "Cost so far: %s\n", ops.Dollars(&r.CostUSD))
	}
}

func printStory(w io.Writer, s story.Story) {
	fmt.Fprintf(w, "%s\n", clean(s.Headline))
	for _, step := range s.Steps {
		fmt.Fprintf(w, "  %-9s %-13s %s\n", step.After(), step.Kind.Words(), clean(step.Text))
	}
}

// answer makes a command that changes the row it names at the path that ends with its verb, and says what became of it. More can add to
// what is sent.
func answer[T any](a *app, short, at string, said func(T) string, more ...func(body map[string]any)) *cobra.Command {
	var reason string
	c := a.anywhere(&cobra.Command{Use: path.Base(at) + " ID", Short: short, Args: cobra.ExactArgs(1)})
	c.RunE = changeOne(a, func(ctx context.Context, s *client, id int64) error {
		body := because(reason)
		for _, add := range more {
			add(body)
		}
		row, err := post[T](ctx, s, fmt.Sprintf(at, id), body)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Stderr, said(row))
		return a.wake(ctx)
	})
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func incidentNow(i api.Incident) string {
	return fmt.Sprintf("incident %d is %s%s", i.ID, i.Status, note(i))
}

// note is what a person leaves behind who resolves an incident.
func note(i api.Incident) string {
	if i.Note == nil {
		return ""
	}
	return "; " + clean(*i.Note)
}

func (a incidents) snooze() *cobra.Command {
	var span time.Duration
	c := answer(a.app, "Mute an incident for a time: nothing escalates for it, and reminders stop", "/incidents/%d/snooze",
		func(i api.Incident) string {
			return fmt.Sprintf("incident %d is snoozed until %s", i.ID, stamp(i.SnoozedUntil))
		},
		func(body map[string]any) { body["for"] = span.String() })
	c.Example = `  claudeops incidents snooze 3 --for 2h --reason "disk arrives at noon"`
	c.Flags().DurationVar(&span, "for", 0, "how long, such as 2h (required)")
	return c
}

func (a approvals) commands() *cobra.Command {
	c := &cobra.Command{Use: "approvals", Aliases: []string{"approval"}, Short: "Steps that wait for approval: list, show, approve, deny"}
	c.AddCommand(a.list(), a.show(),
		a.approve(), a.deny())
	return c
}

func (a approvals) list() *cobra.Command {
	header := tabbed("ID", "CYCLE", "STATUS", "KIND", "HANDLER", "ASKED", "EXPIRES", "BY", "PLAN", "WHY")
	return newListing(a.app, "List pending approvals, newest first", "/approvals", header, func(x api.Approval) string {
		return tabbed(fmt.Sprint(x.ID), fmt.Sprint(x.CycleID), string(x.Status), x.Kind, x.Handler, a.screen.when(&x.RequestedAt),
			or(a.screen.when(x.ExpiresAt), "never"), orDash(x.AnsweredBy), or(planLine(x.Plan), "–"), shorten(ops.Spoken(x.Reason), 60))
	}).all("include answered approvals", "status", string(ops.ApprovalPending), "").
		by("environment", "list this environment only").before("approvals").limit(50)
}

func (a approvals) show() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "show ID", Short: "Show an approval: what is asked, why, and what the cycle has done", Args: cobra.ExactArgs(1),
		RunE: readOne(a.app, func(ctx context.Context, s *client, id int64) error {
			x, err := s.Approval(ctx, id)
			if err != nil {
				return err
			}
			if a.output != asTable {
				return a.printOne(x, nil)
			}
			cycle, err := s.Cycle(ctx, ops.CycleID(x.CycleID))
			if err != nil {
				return err
			}
			return a.printOne(x, func(w io.Writer) { printApproval(w, x, cycle) })
		}),
	})
}

func printApproval(w io.Writer, x api.Approval, cycle api.CycleReport) {
	fmt.Fprintf(w, "Approval #%d: %s, handler %s (%s)\n", x.ID, x.Tier, x.Handler, x.Status)
	printFields(w, "  %-12s %s\n", [][2]string{
		{"Environment", x.Environment},
		{"Why", spoken(x.Reason)},
		{"Asked", stamp(&x.RequestedAt)},
		{"Expires", or(stamp(x.ExpiresAt), "never")},
		{"Answered", strings.TrimSpace(stamp(x.AnsweredAt) + " " + value(x.AnsweredBy))},
		{"Answer", clean(value(x.Answer))},
		{"Effect", clean(value(x.Effect))},
	})
	for i, p := range x.Plan {
		fmt.Fprintf(w, "\n%s\n  runs:     %s\n  undo:     %s\n  reason:   %s\n  expected: %s\n  way back: %s\n",
			planStep(i, p), clean(p.Does), clean(p.Undo), clean(p.Reason), clean(p.ExpectedEffect), clean(p.WayBack))
	}
	fmt.Fprintln(w)
	printChain(w, cycle.Cycle)
	if x.Status == ops.ApprovalPending {
		fmt.Fprintf(w, "\nAnswer with 'claudeops approvals approve %d' or 'claudeops approvals deny %d'.\n", x.ID, x.ID)
	}
}

// planStep is a step of a plan with what became of it.
func planStep(i int, p api.PlanStep) string {
	text := fmt.Sprintf("step %d: %s of %s (%s)", i+1, p.Action, p.Service, ops.Spaced(p.State))
	if p.Why != nil {
		text += ": " + clean(*p.Why)
	}
	return text
}

// planLine counts the steps of a plan by their states: "1 done, 2 skipped".
func planLine(plan []api.PlanStep) string {
	var order []ops.PlanState
	count := map[ops.PlanState]int{}
	for _, p := range plan {
		if count[p.State]++; count[p.State] == 1 {
			order = append(order, p.State)
		}
	}
	parts := ops.Map(order, func(state ops.PlanState) string { return fmt.Sprintf("%d %s", count[state], ops.Spaced(state)) })
	return strings.Join(parts, ", ")
}

func (a approvals) approve() *cobra.Command {
	var reason, steps string
	c := a.anywhere(&cobra.Command{
		Use: "approve ID", Short: "Approve a step; the cycle continues with exactly that step", Args: cobra.ExactArgs(1),
		RunE: changeOne(a.app, func(ctx context.Context, s *client, id int64) error {
			x, err := a.sayYes(ctx, s, id, reason, steps)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "%s is %s; cycle %d continues\n", x.Handler, x.Status, x.CycleID)
			return a.wake(ctx)
		}),
	})
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	c.Flags().StringVar(&steps, "steps", "all", "steps of the plan to approve: all, none, or numbers such as 1,3")
	return c
}

func (a approvals) deny() *cobra.Command {
	var span time.Duration
	var c *cobra.Command
	c = answer(a.app, "Deny a step; the cycle ends with your reason, and the no lasts", "/approvals/%d/deny",
		func(x api.Approval) string { return fmt.Sprintf("%s is denied. %s", x.Handler, clean(value(x.Effect))) },
		func(body map[string]any) {
			if c.Flags().Changed("for") {
				body["for"] = span.String()
			}
		})
	c.Long = `Denies a step. No agent starts for it and nobody is asked again until the time of the no is over or something else is wrong:
another service, probe, kind of failure or action. Probes keep looking.

Deny it again with another --for to change how long the no lasts; --for 0 takes it back.`
	c.Example = `  claudeops approvals deny 3 --for 2h --reason "I am on it"`
	c.Flags().DurationVar(&span, "for", ops.NoLasts, "how long the no lasts, such as 2h; 0 answers this question only")
	return c
}

// approve approves a step. What is approved of a plan is printed first, and approved exactly as it was printed.
func (a approvals) sayYes(ctx context.Context, s *client, id int64, reason, steps string) (api.Approval, error) {
	if steps == "none" {
		return s.Approve(ctx, id, "", nil, reason)
	}
	x, err := s.Approval(ctx, id)
	if err != nil || x.PlanHash == nil {
		if err == nil && steps != "all" {
			return x, usage(fmt.Errorf("--steps is %q, and approval %d has no plan", steps, id))
		}
		if err != nil {
			return x, err
		}
		return s.Approve(ctx, id, "", nil, reason)
	}
	var chosen []int
	for word := range strings.SplitSeq(steps, ",") {
		if steps == "all" {
			break
		}
		n, err := number(strings.TrimSpace(word))
		if err != nil {
			return x, usage(fmt.Errorf("--steps is %q: give all, none, or numbers such as 1,3", steps))
		}
		chosen = append(chosen, int(n))
	}
	for i, p := range x.Plan {
		if len(chosen) == 0 || slices.Contains(chosen, i+1) {
			fmt.Fprintf(a.Stderr, "step %d: %s of %s: %s\n", i+1, p.Action, p.Service, clean(p.Does))
		}
	}
	return s.Approve(ctx, id, *x.PlanHash, chosen, reason)
}

// wake tells a running daemon that a row has changed. Without one, the next start reads it.
func (a *app) wake(ctx context.Context) error {
	if a.remote != nil {
		return nil // the server has done so itself
	}
	_, err := control.Wake(ctx, a.stateDir)
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		fmt.Fprintln(a.Stderr, "no daemon is running; the change takes effect at the next start")
		return nil
	case err != nil:
		return fmt.Errorf("wake daemon: %w", err)
	}
	return nil
}
