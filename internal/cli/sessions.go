package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

func (a sessions) commands() *cobra.Command {
	c := &cobra.Command{Use: "sessions", Aliases: []string{"session"}, Short: "List, show and stop sessions, read their transcripts"}
	c.AddCommand(a.list(), a.show(), a.logsOf(), a.stop())
	return c
}

func (a sessions) list() *cobra.Command {
	header := tabbed("ID", "CYCLE", "TIER", "MODEL", "STATUS", "OUTCOME", "COST", "DURATION", "TURNS", "STARTED")
	l := newListing(a.app, "List sessions, newest first", "/sessions", header, func(x api.Session) string {
		return tabbed(fmt.Sprint(x.ID), fmt.Sprint(x.CycleID), fmt.Sprint(int(x.Tier)), x.Model, mark(x.Status)+" "+string(x.Status),
			value(x.Outcome), ops.Dollars(x.CostUSD), span(x.DurationMS), figure(x.NumTurns), a.screen.when(x.StartedAt))
	})
	l.Example = `  claudeops sessions list
  claudeops sessions list --status failed --limit 5 -o json`
	return l.since("list sessions since then").by("status", "list this status only", wordsOf(ops.SessionStatuses())...).
		by("tier", "list this tier only", "1", "2", "3").by("environment", "list this environment only").before("sessions").limit(20)
}

func (a sessions) show() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "show ID", Short: "Show a session and the other sessions of its cycle", Args: cobra.ExactArgs(1),
		RunE: readOne(a.app, func(ctx context.Context, s *client, id ops.SessionID) error {
			x, err := s.Session(ctx, id)
			if err != nil {
				return err
			}
			cycle, err := s.Cycle(ctx, ops.CycleID(x.CycleID))
			if err != nil {
				return err
			}
			decided, err := items[api.GuardDecision](ctx, s, "/sessions/"+digits(id)+"/guard", query(), mostItems)
			if err != nil {
				return err
			}
			refused := map[ops.Verb][]api.Event{}
			for _, kind := range []ops.EventKind{ops.EventGuard, ops.EventPermission} {
				events, err := items[api.Event](ctx, s, "/events", query("session_id", digits(id), "kind", string(kind)), mostItems)
				if err != nil {
					return err
				}
				for _, e := range events {
					refused[e.Verb] = append(refused[e.Verb], e)
				}
			}
			all := api.GuardedSession{
				SessionReport: x, GuardDecisions: decided, WallRefusals: append([]api.Event{}, refused[ops.VerbWallRefused]...),
				OwnRefusals: append([]api.Event{}, refused[ops.VerbPermissionWarned]...),
			}
			return a.printOne(all, func(w io.Writer) {
				printSession(w, x, cycle.Sessions)
				fmt.Fprintln(w)
				printChain(w, cycle.Cycle)
				printGuard(w, decided)
				printRefusals(w, "the walls", all.WallRefusals)
				printRefusals(w, "the agent's own program", all.OwnRefusals)
			})
		}),
	})
}

func printSession(w io.Writer, s api.SessionReport, chain []api.Session) {
	fmt.Fprintf(w, "Session #%d  %s %s  %s %s\n", s.ID, s.Tier, s.Tier.Title(), mark(s.Status), s.Status)
	if s.ParentSessionID != nil {
		for _, p := range chain {
			if p.ID == *s.ParentSessionID {
				fmt.Fprintf(w, "Escalated from Session #%d (%s)\n", p.ID, p.Tier)
			}
		}
	}
	if child := childOf(s.ID, chain); child != nil {
		fmt.Fprintf(w, "Escalated to Session #%d (%s)\n", child.ID, child.Tier)
	}
	printFields(w, "  %-14s %s\n", [][2]string{
		{"Handler", fmt.Sprintf("%s (%s, %s)", s.Handler, s.Agent, s.Model)},
		{"Outcome", value(s.Outcome)},
		{"Confidence", confidence(s.Confidence)},
		{"Stopped", value(s.StopCause)},
		{"Walls", value(s.Walls)},
		{"Error", clean(value(s.Error))},
		{"Context", s.ContextMode},
		{"Cost", ops.Dollars(s.CostUSD)},
		{"Duration", span(s.DurationMS)},
		{"Turns", turns(s.NumTurns)},
		{"Started", stamp(s.StartedAt)},
		{"Ended", stamp(s.EndedAt)},
		{"CLI session", value(s.SessionID)},
		{"CLI version", value(s.CLIVersion)},
		{"Handoff", clean(s.HandoffJSON.Text())},
		{"Handoff error", value(s.HandoffError)},
	})
}

// confidence is how sure an agent is; empty if it did not say.
func confidence(of *float64) string {
	if of == nil {
		return ""
	}
	return notice.Share(*of)
}

// printGuard lists what the guard decided.
func printGuard(w io.Writer, decided []api.GuardDecision) {
	if len(decided) == 0 {
		return
	}
	fmt.Fprintf(w, "\nGuard decisions\n")
	for _, r := range decided {
		allowed := r.Verdict == "allow"
		verdict := "✗ deny "
		if allowed {
			verdict = "✓ allow"
		}
		fmt.Fprintf(w, "  %s  %s  %-5s  %s  %s\n", r.At.Local().Format("15:04:05"), verdict, r.Gate, clean(r.Tool), shorten(r.Input, 161))
		if !allowed {
			fmt.Fprintf(w, "            %s: %s\n", r.Rule, clean(r.Reason))
		}
	}
}

// printRefusals lists what something around the session refused, oldest first.
func printRefusals(w io.Writer, by string, refused []api.Event) {
	if len(refused) > 0 {
		fmt.Fprintf(w, "\nRefused by %s\n", by)
	}
	for _, e := range slices.Backward(refused) {
		fmt.Fprintf(w, "  %s  %s\n", e.At.Local().Format("15:04:05"), clean(e.Message))
	}
}

// childOf is the last attempt of the tier that the session escalated to.
func childOf(id int64, chain []api.Session) *api.Session {
	var found *api.Session
	for i := range chain {
		if value(chain[i].ParentSessionID) == id {
			found = &chain[i]
		}
	}
	return found
}

func (a sessions) logsOf() *cobra.Command {
	var follow, raw bool
	c := a.anywhere(&cobra.Command{
		Use: "logs ID", Short: "Print a session's transcript", Args: cobra.ExactArgs(1),
		Long: `Prints what the agent said, called and got, as the session's page shows it. --raw prints the lines of the agent's stream as they
were recorded.`,
		Example: `  claudeops sessions logs 18
  claudeops sessions logs 18 --follow`,
		RunE: readOne(a.app, func(ctx context.Context, s *client, id ops.SessionID) error {
			return a.logs(ctx, s, id, follow, raw)
		}),
	})
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the session ends")
	c.Flags().BoolVar(&raw, "raw", false, "print the recorded lines unchanged")
	return c
}

func (a sessions) logs(ctx context.Context, s *client, id ops.SessionID, follow, raw bool) error {
	var after int64
	rows := []api.Line{} // of one JSON document
	for {
		// The state is read first: whatever a session that has ended wrote is then found by the read below.
		x, err := s.Session(ctx, id)
		if err != nil {
			return err
		}
		for {
			lines, err := s.Transcript(ctx, id, after, 1000)
			if err != nil {
				return err
			}
			if len(lines) == 0 {
				break
			}
			for _, l := range lines {
				after = l.Seq
				if a.output == asJSON {
					rows = append(rows, l)
				} else if err := a.logLine(l, raw); err != nil {
					return err
				}
			}
		}
		switch {
		case follow && !x.Status.Ended():
		case a.output == asJSON:
			return a.encode(rows)
		default:
			return nil
		}
		if !ops.Pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

func (a sessions) logLine(l api.Line, raw bool) error {
	switch {
	case a.output == asYAML:
		return a.encode([]api.Line{l}) // the items of one list
	case a.output != asTable:
		return a.printOne(l, nil)
	case raw:
		_, err := fmt.Fprintln(a.Stdout, clean(l.Line))
		return err
	}
	return a.screen.printLine(a.Stdout, l)
}

func (a sessions) stop() *cobra.Command {
	return a.anywhere(&cobra.Command{
		Use: "stop ID", Short: "Stop a running session and end its cycle", Args: cobra.ExactArgs(1),
		RunE: changeOne(a.app, func(ctx context.Context, s *client, id ops.SessionID) error {
			return a.ending(ctx, fmt.Sprintf("session %d", id), s.ask(ctx, http.MethodPost, "/sessions/"+digits(id)+"/stop", nil, nil))
		}),
	})
}

// number reads an id, also as it is printed: #12.
func number(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "#"), 10, 64)
	if err != nil || n < 1 {
		return 0, usage(errors.New(strconv.Quote(s) + " is not an id: ids are numbers from 1 up"))
	}
	return n, nil
}

// shownLines is how many lines of one output are shown; --raw shows all.
const shownLines = 20

// labelOf is the label of a part and its colour.
func labelOf(p transcript.Part) (label, color string) {
	label = p.Word()
	switch p.Kind {
	case transcript.Stderr, transcript.Retry, transcript.Dropped, transcript.Withheld:
		color = yellow
	case transcript.Call:
		color = blue
	case transcript.Output:
		if p.Failed {
			color = red
		}
	case transcript.Result:
		color = green
		if p.Failed {
			color = red
		}
	case transcript.Stdout, transcript.Start, transcript.Text, transcript.Prompt, transcript.Thinking, transcript.Event:
	}
	return label, color
}

// partText is the text of a part, with its figures below.
func partText(p transcript.Part) string {
	text := p.Text
	if p.Kind == transcript.Call {
		text = p.Tool + " " + text
	}
	var figures []string
	if p.Figures.Turns != nil {
		figures = append(figures, turns(p.Figures.Turns))
	}
	if p.Figures.Duration != nil {
		figures = append(figures, duration(*p.Figures.Duration))
	}
	if p.Figures.CostUSD != nil {
		figures = append(figures, ops.Dollars(p.Figures.CostUSD))
	}
	if t := p.Figures.Tokens; t != nil {
		figures = append(figures, fmt.Sprintf("%d tokens read, %d written", t.Read, t.Written))
	}
	return strings.TrimSpace(text + "\n" + strings.Join(figures, " · "))
}

// printLine writes a line of a transcript for people: a time and a label in front, the text beside them.
func (s screen) printLine(w io.Writer, l api.Line) error {
	for _, p := range l.Parts() {
		name, color := labelOf(p)
		lines := strings.Split(strings.TrimRight(partText(p), "\n"), "\n")
		whole := p.Kind == transcript.Text || p.Kind == transcript.Result
		if more := len(lines) - shownLines; more > 1 && !whole {
			lines = append(lines[:shownLines], fmt.Sprintf("… %d more lines; --raw shows them", more))
		}
		for i, text := range lines {
			front := strings.Repeat(" ", len("15:04:05  "))
			label := fmt.Sprintf("%-8s", "")
			if i == 0 {
				front, label = l.At.Local().Format("15:04:05  "), fmt.Sprintf("%-8s", name)
				if s.color {
					label = paint(label, color)
				}
			}
			if _, err := fmt.Fprintln(w, strings.TrimRight(front+label+"  "+clean(strings.ReplaceAll(text, "\t", "    ")), " ")); err != nil {
				return err
			}
		}
	}
	return nil
}
