package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func (a *app) silencesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "silences", Aliases: []string{"silence"}, SuggestFor: []string{"mute", "maintenance", "pause"},
		Short: "Mute a failing service: list, add, rm",
	}
	c.AddCommand(a.silencesList(), a.silencesAdd(), a.silencesRemove())
	return c
}

// matcher shows what a silence matches, as it is given on the command line.
func matcher(q api.Silence) string {
	var parts []string
	for _, p := range []struct {
		name    string
		pattern *string
	}{{"service", q.Service}, {"group", q.Group}, {"probe", q.Probe}} {
		if p.pattern != nil {
			parts = append(parts, p.name+"="+*p.pattern)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Labels)) {
		parts = append(parts, "label "+name+"="+q.Labels[name])
	}
	return strings.Join(parts, " ")
}

func (a *app) silencesList() *cobra.Command {
	header := tabbed("ID", "ENVIRONMENT", "MATCHES", "FROM", "UNTIL", "BY", "REASON")
	l := newListing(a, "list", "List silences that have not ended", "/silences", header, func(q api.Silence) string {
		return tabbed(fmt.Sprint(q.ID), or(value(q.Environment), "all"), clean(matcher(q)), a.screen.when(&q.From), a.screen.when(&q.Until),
			clean(q.Author), shorten(q.Reason, 60))
	})
	l.most = ops.Ptr(mostSilences)
	return l.all("include silences that have ended", "all", "", "true").
		by("environment", "list silences that apply to this environment only").Command
}

func (a *app) silencesAdd() *cobra.Command {
	var q ops.Silence
	var span time.Duration
	var from, until string
	var labels []string
	c := &cobra.Command{
		Use: "add [SERVICE]", Short: "Mute a service, group, probe or alert: no cycle starts for it, and nothing escalates",
		Args: cobra.MaximumNArgs(1),
		Example: `  claudeops silences add jellyfin --for 2h --reason "disk is replaced"
  claudeops silences add --label alertname=HighLoad --label severity=warn* --for 24h --reason "known, see the notes"`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if q.Service != "" {
					return usage(fmt.Errorf("the service is given twice, as %q and with --service", clean(args[0])))
				}
				q.Service = args[0]
			}
			var err error
			if q.Labels, err = pairs(labels); err != nil {
				return usage(err)
			}
			if q.From, err = at("from", from); err != nil {
				return err
			}
			if q.Until, err = at("until", until); err != nil {
				return err
			}
			return a.change(c.Context(), func(s *client) error {
				added, err := s.AddSilence(c.Context(), q, span)
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "silence %d lasts until %s\n", added.ID, stamp(&added.Until))
				a.unheard(c.Context(), s, q.Service)
				return a.wake(c.Context())
			})
		},
	}
	f := c.Flags()
	f.StringVar(&q.Environment, "environment", "", "environment (default: all)")
	f.StringVar(&q.Service, "service", "", "service name, * matches any text")
	f.StringVar(&q.Group, "group", "", "group of services")
	f.StringVar(&q.Probe, "probe", "", "name of a probe")
	f.StringArrayVar(&labels, "label", nil, "label of an alert, as name=pattern; can be repeated")
	f.StringVar(&q.Reason, "reason", "", "why, for the record (required)")
	f.DurationVar(&span, "for", 0, "duration, such as 2h")
	f.StringVar(&from, "from", "", "start time, such as 2026-03-14T22:00:00Z (default: now)")
	f.StringVar(&until, "until", "", "end time, instead of --for")
	return c
}

// unheard says that nothing on record has the name that was silenced. It may come, in an alert for example.
func (a *app) unheard(ctx context.Context, s *client, service string) {
	if service == "" || strings.Contains(service, "*") {
		return
	}
	known, err := s.Services(ctx, "")
	if err != nil || slices.ContainsFunc(known, func(x api.ServiceState) bool { return x.Name == service }) {
		return
	}
	var names []string
	for _, x := range known {
		names = append(names, x.Name)
	}
	fmt.Fprintf(a.Stderr, "note: no service is called %q%s\n", clean(service), didYouMean(service, names))
}

// pairs reads name=pattern.
func pairs(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil //nolint:nilnil // no labels is a valid result
	}
	out := map[string]string{}
	for _, w := range words {
		name, pattern, ok := strings.Cut(w, "=")
		if !ok || name == "" || pattern == "" {
			return nil, fmt.Errorf("--label is %q: give name=pattern", w)
		}
		out[name] = pattern
	}
	return out, nil
}

// at reads the time of a flag; none is zero.
func at(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, usage(fmt.Errorf("--%s is %q: give a time such as 2026-03-14T22:00:00Z", flag, text))
	}
	return t, nil
}

func (a *app) silencesRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Short: "End a silence now", Args: cobra.ExactArgs(1),
		RunE: changeOne(a, func(ctx context.Context, s *client, id int64) error {
			q, err := post[api.Silence](ctx, s, "/silences/"+digits(id)+"/end", nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "silence %d has ended\n", q.ID)
			return a.wake(ctx)
		}),
	}
}
