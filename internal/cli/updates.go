package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) updateCommand() *cobra.Command {
	var environment, to string
	c := &cobra.Command{
		Use: "update SERVICE", Short: "Give a service a newer image; go back if something is worse than before", Args: cobra.ExactArgs(1),
		Long: `The daemon pulls the newest image of the same tag, keeps the old one, recreates the service from its committed compose file, and
watches its probes and those of the services that depend on it. If one is worse than before, the old image comes back. It is about your
services; for Claude Ops itself see "claudeops version" and the upgrade guide. Interrupting this command does not stop the update.`,
		Example: "  claudeops update jellyfin\n  claudeops update jellyfin --to jellyfin/jellyfin:10.11",
		RunE: func(c *cobra.Command, args []string) error {
			return a.update(c.Context(), map[string]any{"environment": environment, "service": args[0], "to": to})
		},
	}
	c.Flags().StringVar(&environment, "environment", "", "environment of the service (default: the first)")
	c.Flags().StringVar(&to, "to", "", "image of the same repository (default: the newest of the same tag)")
	return c
}

// update asks for an update and waits for its end.
func (a *app) update(ctx context.Context, asked map[string]any) error {
	var u api.Update
	err := a.change(ctx, func(s *client) error {
		var err error
		if u, err = post[api.Update](ctx, s, "/updates/runs", asked); err != nil {
			return err
		}
		if err := a.wake(ctx); err != nil {
			return err
		}
		u, err = a.followUpdate(ctx, s, u)
		return err
	})
	if err != nil {
		return err
	}
	if err := a.printOne(u, func(w io.Writer) { printUpdate(w, u) }); err != nil {
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
func (a *app) followUpdate(ctx context.Context, s *client, u api.Update) (api.Update, error) {
	tick := time.NewTicker(actionPoll)
	defer tick.Stop()
	late := time.NewTimer(takenWithin)
	defer late.Stop()
	for last := ops.UpdateAsked; !u.Phase.Ended(); {
		select {
		case <-ctx.Done():
			return u, context.Cause(ctx)
		case <-late.C:
			if u.Phase == ops.UpdateAsked {
				return u, errors.New("no daemon has begun with the update: start it with 'claudeops serve'; a request ends after two minutes")
			}
		case <-tick.C:
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
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-8s %s\n", name+":", text)
		}
	}
	line("update", fmt.Sprintf("%d of %s", u.ID, clean(u.Service)))
	line("phase", u.Phase.String())
	line("by", clean(u.By))
	line("before", imageLine(u.Before))
	line("after", imageLine(u.After))
	line("kept", clean(value(u.Kept)))
	line("asked", stamp(&u.AskedAt))
	line("ended", stamp(u.EndedAt))
	line("result", clean(value(u.Result)))
}

func imageLine(i *api.Image) string {
	if i == nil {
		return ""
	}
	return clean(ops.Image{Ref: i.Reference, Digest: value(i.Digest), ID: i.ID}.String())
}

func (a *app) updatesCommand() *cobra.Command {
	c := &cobra.Command{Use: "updates", Short: "Newer images of services: list, history, show"}
	c.AddCommand(a.updatesList(), a.updatesHistory(),
		show(a, "Show an update: the images before and after, and how it ended", "/updates/runs/%d", printUpdate))
	return c
}

func (a *app) updatesList() *cobra.Command {
	header := tabbed("SERVICE", "CURRENT", "NEWER", "SCHEDULE", "LAST UPDATE")
	short := "List services with their image and whether there is a newer one"
	return newListing(a, "list", short, "/updates", header, func(u api.Updatable) string {
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

func (a *app) updatesHistory() *cobra.Command {
	header := tabbed("ID", "SERVICE", "PHASE", "BY", "ASKED", "AFTER", "RESULT")
	return newListing(a, "history", "List updates, newest first", "/updates/runs", header, func(u api.Update) string {
		return tabbed(fmt.Sprint(u.ID), clean(u.Service), u.Phase.String(), clean(u.By), a.screen.when(&u.AskedAt),
			cmp.Or(imageLine(u.After), "-"), shorten(value(u.Result), 80))
	}).by("environment", "list this environment only").by("service", "list this service only").limit(50)
}
