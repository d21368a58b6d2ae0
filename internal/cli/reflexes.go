package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) reflexesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "reflexes", Aliases: []string{"reflex"}, Short: "Repairs that helped three times: list, show, enable, disable",
	}
	c.AddCommand(a.reflexesList(),
		show(a, "Show an earned reflex: when it is done, what it runs, where it comes from", "/reflexes/%d", printReflex),
		a.reflexesSwitch("enable", "Let the supervisor do it without an agent from now on"),
		a.reflexesSwitch("disable", "Switch it off, or say no to it"))
	return c
}

func (a *app) reflexesList() *cobra.Command {
	header := tabbed("ID", "STATE", "SERVICE", "PROBE", "FAILURE", "DOES", "DONE", "HELPED", "WHY")
	return newListing(a, "list", "List earned reflexes", "/reflexes", header, func(r api.EarnedReflex) string {
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
	var out []string
	for _, id := range ids {
		out = append(out, fmt.Sprintf("C-%d", id))
	}
	return strings.Join(out, ", ")
}

func (a *app) reflexesSwitch(verb, short string) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " ID", Short: short, Args: cobra.ExactArgs(1),
		RunE: changeOne(a, func(ctx context.Context, s *client, id int64) error {
			r, err := post[api.EarnedReflex](ctx, s, fmt.Sprintf("/reflexes/%d/%s", id, verb), map[string]any{"reason": reason})
			if err == nil {
				fmt.Fprintf(a.Stderr, "reflex %d of %s is %s\n", r.ID, clean(r.Service), r.State)
			}
			return err
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return c
}
