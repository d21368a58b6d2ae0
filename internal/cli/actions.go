package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/act"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// takenWithin is how long a daemon may take to begin with a request.
	takenWithin = 10 * time.Second
	actionPoll  = 300 * time.Millisecond
	undoRounds  = 400 // of polls in which the supervisor may undo what made things worse
)

func (a actions) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "actions", Aliases: []string{"action"}, Short: "What the supervisor can do to services: list, history, show, run, undo, trust",
	}
	c.AddCommand(a.list(), a.history(),
		show(a.app, "Show a run: who, why, what ran, and the services before and after", "/actions/runs/%d", printRun),
		a.run(), a.undo(), a.trust())
	return c
}

func (a actions) list() *cobra.Command {
	header := tabbed("ENVIRONMENT", "SERVICE", "ACTION", "TIER", "APPROVAL", "RUNS", "UNDO")
	return newListing(a.app, "List the actions of the services", "/actions", header, func(x api.Action) string {
		approval := map[bool]string{false: "no", true: "yes"}[x.Approval]
		return tabbed(x.Environment, x.Service, x.Name, fmt.Sprint(x.Tier), approval, shorten(x.Does, 60), shorten(x.Undo, 40))
	}).by("environment", "list this environment only").by("service", "list this service only").Command
}

func (a actions) history() *cobra.Command {
	header := tabbed("ID", "SERVICE", "ACTION", "STATUS", "BY", "CYCLE", "ASKED", "WHY")
	l := newListing(a.app, "List runs of actions, newest first", "/actions/runs", header, func(x api.ActionRun) string {
		name := x.Action
		if x.UndoOf != nil {
			name = fmt.Sprintf("undo of %d", *x.UndoOf)
		}
		return tabbed(fmt.Sprint(x.ID), x.Service, name, string(x.Status), clean(x.By), or(id(x.CycleID), "-"),
			a.screen.when(&x.RequestedAt), shorten(x.Why, 60))
	})
	l.Use = "history"
	return l.by("environment", "list this environment only").by("service", "list this service only").before("runs").limit(50)
}

func printRun(w io.Writer, x api.ActionRun) {
	what := x.Action + " of " + x.Service
	if x.UndoOf != nil {
		what = fmt.Sprintf("undo of action %d (%s)", *x.UndoOf, what)
	}
	undone := ""
	if x.UndoneBy != nil {
		undone = fmt.Sprintf("by action %d", *x.UndoneBy)
	}
	printFields(w, "%-9s %s\n", [][2]string{
		{"action", fmt.Sprintf("%d: %s", x.ID, what)},
		{"status", string(x.Status)},
		{"runs", clean(x.Does)},
		{"by", clean(x.By)},
		{"why", clean(x.Why)},
		{"commit", value(x.Commit)},
		{"started", stamp(x.StartedAt)},
		{"ended", stamp(x.EndedAt)},
		{"before", healthLine(x.Before)},
		{"after", healthLine(x.After)},
		{"undone", undone},
		{"error", clean(value(x.Error))},
	})
	if out := value(x.Output); out != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimRight(clean(out), "\n"))
	}
}

func healthLine(all []api.ServiceHealth) string {
	var parts []string
	for _, h := range all {
		text := h.Service + " " + h.Status
		if h.Error != nil {
			text += " (" + clean(*h.Error) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (a actions) run() *cobra.Command {
	var environment, branch string
	var why *string
	c := a.anywhere(&cobra.Command{
		Use: "run SERVICE ACTION", Short: "Run an action now; the daemon checks and runs it", Args: cobra.ExactArgs(2),
		Example: `  claudeops actions run jellyfin restart --why "the web page hangs"`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.request(c.Context(), func(s *client) (api.ActionRun, error) {
				return post[api.ActionRun](c.Context(), s, "/actions/runs", map[string]any{
					"environment": environment, "service": args[0], "action": args[1], "branch": branch, "why": *why,
				})
			})
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment of the service (default: the first)")
	c.Flags().StringVar(&branch, "branch", "", "branch to push")
	why = a.reasonFlag(c, "why")
	return c
}

func (a actions) undo() *cobra.Command {
	var why *string
	c := a.anywhere(&cobra.Command{
		Use: "undo ID", Short: "Undo a run that has a way back", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.request(c.Context(), func(s *client) (api.ActionRun, error) {
				return post[api.ActionRun](c.Context(), s, "/actions/runs/"+digits(id)+"/undo", map[string]any{"why": *why})
			})
		},
	})
	why = a.reasonFlag(c, "why")
	return c
}

// pursue asks the daemon for something that takes a while, waits for its end and prints it.
func pursue[T any](
	ctx context.Context, a *app, ask func(*client) (T, error), follow func(context.Context, *client, T) (T, error), text func(io.Writer, T),
) (row T, err error) {
	err = a.change(ctx, func(s *client) error {
		if row, err = ask(s); err != nil {
			return err
		}
		if err := a.wake(ctx); err != nil {
			return err
		}
		row, err = follow(ctx, s, row)
		return err
	})
	if err == nil {
		err = a.printOne(row, func(w io.Writer) { text(w, row) })
	}
	return row, err
}

// request asks the daemon for a run and waits for its end.
func (a actions) request(ctx context.Context, ask func(*client) (api.ActionRun, error)) error {
	run, err := pursue(ctx, a.app, ask, follow, printRun)
	if err != nil {
		return err
	}
	switch run.Status {
	case ops.ActionDone:
		return nil
	case ops.ActionRefused:
		return quietly(exitBlocked)
	case ops.ActionRequested, ops.ActionStarted, ops.ActionFailed, ops.ActionUndone, ops.ActionInterrupted:
	}
	return quietly(exitFailed)
}

// follow waits until a run has ended. A request that no daemon takes is withdrawn: it must not run at an unexpected time.
func follow(ctx context.Context, s *client, run api.ActionRun) (api.ActionRun, error) {
	began := time.Now()
	known, err := items[api.Action](ctx, s, "/actions", query("environment", run.Environment, "service", run.Service), mostItems)
	if err != nil {
		return run, err
	}
	back := slices.ContainsFunc(known, func(a api.Action) bool { return a.Name == run.Action && a.Undoable })
	for rounds := 0; !run.Status.Ended() || back && awaitsUndo(run) && rounds < undoRounds; {
		if run.Status.Ended() {
			rounds++
		}
		if !ops.Pause(ctx, actionPoll) {
			return run, context.Cause(ctx)
		}
		if run.Status == ops.ActionRequested && time.Since(began) > takenWithin {
			because := map[string]any{"why": "no daemon took the request"}
			if s.ask(ctx, http.MethodPost, fmt.Sprintf("/actions/runs/%d/withdraw", run.ID), because, nil) == nil {
				return run, errors.New("no daemon took the request: start it with 'claudeops serve' and ask again")
			}
		}
		if run, err = get[api.ActionRun](ctx, s, "/actions/runs/"+digits(run.ID)); err != nil {
			return run, err
		}
	}
	return run, nil
}

// awaitsUndo reports whether a run made something worse: if there is a way back, the supervisor takes it next.
func awaitsUndo(run api.ActionRun) bool {
	rank := map[string]int{string(ops.Healthy): 0, string(ops.Degraded): 1, string(ops.Down): 2}
	before := map[string]int{}
	for _, s := range run.Before {
		before[s.Service] = rank[s.Status]
	}
	worse := slices.ContainsFunc(run.After, func(s api.ServiceHealth) bool { return rank[s.Status] > before[s.Service] })
	return worse && (run.Status == ops.ActionDone || run.Status == ops.ActionFailed) && run.UndoOf == nil
}

// actionsTrust works on the clones of this machine, so it is local only.
func (a actions) trust() *cobra.Command {
	var environment string
	c := a.withState(&cobra.Command{
		Use: "trust REPOSITORY COMMIT", Short: "Approve a commit of an agent, so that actions use it or its branch comes back",
		Long: `Actions read repositories at the newest commit that no agent made. This command approves a commit that an agent
made. Look at it first: what it holds runs outside the sandbox. The commit must be the one that is checked out, or one that was kept
back because it touches files that programs obey: it becomes a branch of the clone then.`,
		Args: cobra.ExactArgs(2), Example: `  claudeops actions trust homelab 1f0c2e9`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.writing(c.Context(), func(s *store.Store, cfg *config.Config) error {
				e, err := cfg.Environment(environment)
				if err != nil {
					return err
				}
				if e.ReposDir == "" || args[0] != filepath.Base(args[0]) || strings.HasPrefix(args[0], ".") {
					return usage(fmt.Errorf("%q is not a folder of repos_dir", args[0]))
				}
				commits := &act.Commits{Trust: s.Acts, Host: cfg.Host.Name, Dir: filepath.Join(cfg.StateDir, "actions"), Clock: time.Now}
				commit, err := commits.Approve(c.Context(), e, args[0], args[1], person())
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "commit %.12s of %s is approved\n", commit, args[0])
				return nil
			})
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment of the repository (default: the first)")
	return c
}

func (a *app) trustCommand() *cobra.Command {
	var environment, reason string
	c := a.anywhere(&cobra.Command{
		Use: "trust [SERVICE [LEVEL]]", Short: "Show or change how far agents may go for a service: watch, suggest, ask, repair, full",
		Example: `  claudeops trust
  claudeops trust jellyfin repair --reason "five restarts, all good"`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 2 {
				return a.change(c.Context(), func(s *client) error {
					t, err := post[api.Trust](c.Context(), s, "/trust", map[string]any{
						"environment": environment, "service": args[0], "level": args[1], "reason": reason,
					})
					if err == nil {
						fmt.Fprintf(a.Stderr, "trust in %s is %s\n", clean(t.Service), t.Level)
					}
					return err
				})
			}
			service := ""
			if len(args) == 1 {
				service = args[0]
			}
			header := tabbed("SERVICE", "TRUST", "ALLOWED", "PROPOSED", "APPROVED", "VERIFIED", "UNDONE", "REFUTED", "NEXT")
			return a.read(c.Context(), func(s *client) error {
				rows, err := items[api.Trust](c.Context(), s, "/trust", query("environment", environment, "service", service), mostItems)
				if err != nil {
					return err
				}
				return printRows(a, rows, header, func(t api.Trust) string {
					return tabbed(clean(t.Service), t.Level, t.Ceiling, fmt.Sprint(t.Proposed), fmt.Sprint(t.Approved), fmt.Sprint(t.Verified),
						fmt.Sprint(t.Undone), fmt.Sprint(t.Refuted), clean(value(t.Next)))
				})
			})
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment (default: the first one)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}

func (a reflexes) commands() *cobra.Command {
	c := &cobra.Command{
		Use: "reflexes", Aliases: []string{"reflex"}, Short: "Repairs that helped three times: list, show, enable, disable",
	}
	c.AddCommand(a.list(),
		show(a.app, "Show an earned reflex: when it is done, what it runs, where it comes from", "/reflexes/%d", printReflex),
		answer(a.app, "Let the supervisor do it without an agent from now on", "/reflexes/%d/enable", reflexNow),
		answer(a.app, "Switch it off, or say no to it", "/reflexes/%d/disable", reflexNow))
	return c
}

func (a reflexes) list() *cobra.Command {
	header := tabbed("ID", "STATE", "SERVICE", "PROBE", "FAILURE", "DOES", "DONE", "HELPED", "WHY")
	return newListing(a.app, "List earned reflexes", "/reflexes", header, func(r api.EarnedReflex) string {
		return tabbed(fmt.Sprint(r.ID), r.State, clean(r.Service), clean(r.Probe), r.Class, clean(strings.Join(r.Do, ", ")),
			fmt.Sprint(r.Done), fmt.Sprint(r.Helped), shorten(value(r.Reason), 60))
	}).by("environment", "environment (default: the first one)").by("service", "list those of this service only").Command
}

func printReflex(w io.Writer, r api.EarnedReflex) {
	fmt.Fprintf(w, "Reflex %d of %s is %s", r.ID, clean(r.Service), r.State)
	if r.ChangedBy != nil {
		fmt.Fprintf(w, " by %s at %s", clean(*r.ChangedBy), stamp(&r.ChangedAt))
	}
	if r.Reason != nil {
		fmt.Fprintf(w, ": %s", clean(*r.Reason))
	}
	fmt.Fprintf(w, "\nWhen: the probe %s finds it %s (%s)\n", clean(r.Probe), r.Status, r.Class)
	for i, does := range r.Does {
		fmt.Fprintf(w, "Does: %s (%s)\n", clean(r.Do[i]), clean(does))
	}
	fmt.Fprintf(w, "Earned by %s; done %d times, helped %d times\n", cycleNames(r.Cycles), r.Done, r.Helped)
}

func cycleNames(ids []ops.CycleID) string {
	return strings.Join(ops.Map(ids, func(id ops.CycleID) string { return fmt.Sprintf("C-%d", id) }), ", ")
}

func reflexNow(r api.EarnedReflex) string {
	return fmt.Sprintf("reflex %d of %s is %s", r.ID, clean(r.Service), r.State)
}

func (a updates) commands() *cobra.Command {
	var environment, to string
	c := a.anywhere(&cobra.Command{
		Use: "update SERVICE", Short: "Give a service a newer image; go back if something is worse than before", Args: cobra.ExactArgs(1),
		Long: `The daemon pulls the newest image of the same tag, keeps the old one, recreates the service from its committed compose file, and
watches its probes and those of the services that depend on it. If one is worse than before, the old image comes back. It is about your
services; for Claude Ops itself see "claudeops version" and the upgrade guide. Interrupting this command does not stop the update.`,
		Example: "  claudeops update list\n  claudeops update jellyfin\n  claudeops update jellyfin --to jellyfin/jellyfin:10.11",
		RunE: func(c *cobra.Command, args []string) error {
			return a.update(c.Context(), map[string]any{"environment": environment, "service": args[0], "to": to})
		},
	})
	c.Flags().StringVar(&environment, "environment", "", "environment of the service (default: the first)")
	c.Flags().StringVar(&to, "to", "", "image of the same repository (default: the newest of the same tag)")
	c.AddCommand(a.list(), a.history(),
		show(a.app, "Show an update: the images before and after, and how it ended", "/updates/runs/%d", printUpdate))
	return c
}

// update asks for an update and waits for its end.
func (a updates) update(ctx context.Context, asked map[string]any) error {
	ask := func(s *client) (api.Update, error) { return post[api.Update](ctx, s, "/updates/runs", asked) }
	u, err := pursue(ctx, a.app, ask, a.follow, printUpdate)
	if err != nil {
		return err
	}
	switch u.Phase {
	case ops.UpdateKept, ops.UpdateUnchanged:
		return nil
	case ops.UpdateRefused:
		return quietly(exitBlocked)
	case ops.UpdateWaiting, ops.UpdateAsked, ops.UpdatePulling, ops.UpdateTagged, ops.UpdateRecreating, ops.UpdateWatching,
		ops.UpdateGoingBack, ops.UpdateGoneBack, ops.UpdateStuck:
	}
	return quietly(exitFailed)
}

// followUpdate says how far an update is until it has ended.
func (a updates) follow(ctx context.Context, s *client, u api.Update) (api.Update, error) {
	began := time.Now()
	for last := ops.UpdateAsked; !u.Phase.Ended(); {
		if !ops.Pause(ctx, actionPoll) {
			return u, context.Cause(ctx)
		}
		if u.Phase == ops.UpdateAsked && time.Since(began) > takenWithin {
			return u, errors.New("no daemon has begun with the update: start it with 'claudeops serve'; a request ends after two minutes")
		}
		var err error
		if u, err = get[api.Update](ctx, s, fmt.Sprintf("/updates/runs/%d", u.ID)); err != nil {
			return u, err
		}
		if u.Phase != last {
			last = u.Phase
			fmt.Fprintf(a.Stderr, "%s: %s\n", clean(u.Service), u.Phase)
		}
	}
	return u, nil
}

func printUpdate(w io.Writer, u api.Update) {
	printFields(w, "%-8s %s\n", [][2]string{
		{"update", fmt.Sprintf("%d of %s", u.ID, clean(u.Service))},
		{"phase", u.Phase.String()},
		{"by", clean(u.By)},
		{"before", imageLine(u.Before)},
		{"after", imageLine(u.After)},
		{"kept", clean(value(u.Kept))},
		{"asked", stamp(&u.AskedAt)},
		{"ended", stamp(u.EndedAt)},
		{"result", clean(value(u.Result))},
	})
}

func imageLine(i *api.Image) string {
	if i == nil {
		return ""
	}
	return clean(ops.Image{Ref: i.Reference, Digest: value(i.Digest), ID: i.ID}.String())
}

func (a updates) list() *cobra.Command {
	header := tabbed("SERVICE", "CURRENT", "NEWER", "SCHEDULE", "LAST UPDATE")
	short := "List services with their image and whether there is a newer one"
	return newListing(a.app, short, "/updates", header, func(u api.Updatable) string {
		last := "-"
		if u.Latest != nil {
			last = fmt.Sprintf("%d %s", u.Latest.ID, u.Latest.Phase)
		}
		return tabbed(clean(u.Service), cmp.Or(imageLine(u.Current), "-"), newer(u), orDash(u.Schedule), last)
	}).by("environment", "environment (default: the first one)").by("service", "list this service only").Command
}

// newer says whether there is a newer image.
func newer(u api.Updatable) string {
	switch {
	case u.NotUpdated != nil:
		return "not updated by Claude Ops: " + clean(*u.NotUpdated)
	case u.Unknown != nil:
		return "unknown: " + shorten(*u.Unknown, 80)
	case u.LookedAt == nil:
		return "not looked at yet"
	case u.Newer:
		return fmt.Sprintf("yes (%.19s)", value(u.Newest))
	}
	return "no"
}

func (a updates) history() *cobra.Command {
	header := tabbed("ID", "SERVICE", "PHASE", "BY", "ASKED", "AFTER", "RESULT")
	l := newListing(a.app, "List updates, newest first", "/updates/runs", header, func(u api.Update) string {
		return tabbed(fmt.Sprint(u.ID), clean(u.Service), u.Phase.String(), clean(u.By), a.screen.when(&u.AskedAt),
			cmp.Or(imageLine(u.After), "-"), shorten(value(u.Result), 80))
	})
	l.Use = "history"
	return l.by("environment", "list this environment only").by("service", "list this service only").limit(50)
}
