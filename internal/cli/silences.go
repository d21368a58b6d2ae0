package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a *app) silencesCommand() *cobra.Command {
	c := &cobra.Command{Use: "silences", Aliases: []string{"silence"}, Short: "Keep what fails from starting anything for a while: list, add, rm"}
	c.AddCommand(a.silencesList(), a.silencesAdd(), a.silencesRemove())
	return c
}

// silenceRow is a silence as it is printed.
type silenceRow struct {
	ID          int64             `json:"id"`
	Environment string            `json:"environment,omitempty"`
	Service     string            `json:"service,omitempty"`
	Group       string            `json:"group,omitempty"`
	Probe       string            `json:"probe,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Reason      string            `json:"reason"`
	Author      string            `json:"author"`
	From        time.Time         `json:"from"`
	Until       time.Time         `json:"until"`
	Active      bool              `json:"active"`
}

func silenceRowOf(q ops.Silence, now time.Time) silenceRow {
	return silenceRow{q.ID, q.Environment, q.Service, q.Group, q.Probe, q.Labels, q.Reason, q.Author, q.From, q.Until, q.Active(now)}
}

// matcher shows what a silence is about, as it is given on the command line.
func (r silenceRow) matcher() string {
	var parts []string
	for _, p := range []struct{ name, pattern string }{{"service", r.Service}, {"group", r.Group}, {"probe", r.Probe}} {
		if p.pattern != "" {
			parts = append(parts, p.name+"="+p.pattern)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, "label "+name+"="+r.Labels[name])
	}
	return strings.Join(parts, " ")
}

func (a *app) silencesList() *cobra.Command {
	var all bool
	var environment string
	c := &cobra.Command{
		Use: "list", Short: "List silences that have not ended",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.looking(c.Context(), func(s journal) error {
				now := time.Now()
				f := store.SilenceFilter{Environment: environment, Active: now, Limit: 200}
				if all {
					f.Active = time.Time{}
				}
				found, err := s.Silences(c.Context(), f)
				if err != nil {
					return fmt.Errorf("list silences: %w", err)
				}
				var rows []any
				for _, q := range found {
					rows = append(rows, silenceRowOf(q, now))
				}
				return a.print(rows, tabbed("ID", "ENVIRONMENT", "MATCHES", "FROM", "UNTIL", "BY", "REASON"), func(i int) string {
					q := silenceRowOf(found[i], now)
					return tabbed(fmt.Sprint(q.ID), or(q.Environment, "all"), clean(q.matcher()), stamp(&q.From), stamp(&q.Until), clean(q.Author), shorten(q.Reason, 60))
				})
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that have ended")
	c.Flags().StringVar(&environment, "environment", "", "only what holds in this environment")
	return c
}

func (a *app) silencesAdd() *cobra.Command {
	var q ops.Silence
	var span time.Duration
	var from, until string
	var labels []string
	c := &cobra.Command{
		Use: "add", Short: "Silence a service, group, probe or alert: no cycle starts for it, and no tier goes up",
		Example: `  claudeops silences add --service jellyfin --for 2h --reason "disk is replaced"
  claudeops silences add --label alertname=HighLoad --label severity=warn* --for 24h --reason "known, see the notes"`,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if q.Labels, err = pairs(labels); err != nil {
				return usage(err)
			}
			if q.Service == "" && q.Group == "" && q.Probe == "" && len(q.Labels) == 0 {
				return usage(errors.New("say what to silence: --service, --group, --probe or --label; * stands for any text"))
			}
			if strings.TrimSpace(q.Reason) == "" {
				return usage(errors.New("--reason is missing: say why, for those who find it"))
			}
			q.CreatedAt, q.Author = time.Now(), person()
			if q.From, q.Until, err = lasting(from, until, span, q.CreatedAt); err != nil {
				return usage(err)
			}
			if a.remote != nil {
				return a.silenced(a.remote.silence(c.Context(), q, from, until, span))
			}
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if q.Environment != "" && !slices.ContainsFunc(cfg.Environments(), func(e ops.Environment) bool { return e.Name == q.Environment }) {
				return usage(fmt.Errorf("no environment is called %q", q.Environment))
			}
			return a.writing(c.Context(), func(s *store.Store) error {
				if err := a.silenced(s.AddSilence(c.Context(), q)); err != nil {
					return err
				}
				return a.wake(c.Context())
			})
		},
	}
	f := c.Flags()
	f.StringVar(&q.Environment, "environment", "", "which environment (default: all)")
	f.StringVar(&q.Service, "service", "", "which services")
	f.StringVar(&q.Group, "group", "", "which groups of services")
	f.StringVar(&q.Probe, "probe", "", "which probes, by name")
	f.StringArrayVar(&labels, "label", nil, "alerts with this label, as name=pattern; may be repeated")
	f.StringVar(&q.Reason, "reason", "", "why, for those who find it (required)")
	f.DurationVar(&span, "for", 0, "how long, such as 2h")
	f.StringVar(&from, "from", "", "when it begins, such as 2026-03-14T22:00:00Z (default: now)")
	f.StringVar(&until, "until", "", "when it ends, instead of --for")
	return c
}

// silenced says until when a silence holds that was added.
func (a *app) silenced(added ops.Silence, err error) error {
	if err != nil {
		return fmt.Errorf("silence: %w", err)
	}
	fmt.Fprintf(a.Stderr, "silence %d holds until %s\n", added.ID, stamp(&added.Until))
	return nil
}

// pairs reads name=pattern.
func pairs(words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil //nolint:nilnil // no labels is an answer
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

// lasting reads from when to when something holds.
func lasting(from, until string, span time.Duration, now time.Time) (begin, end time.Time, err error) {
	begin = now
	if from != "" {
		if begin, err = time.Parse(time.RFC3339, from); err != nil {
			return begin, end, fmt.Errorf("--from is %q: give a time such as 2026-03-14T22:00:00Z", from)
		}
	}
	switch {
	case until != "" && span != 0:
		return begin, end, errors.New("give --for or --until, not both")
	case until != "":
		if end, err = time.Parse(time.RFC3339, until); err != nil {
			return begin, end, fmt.Errorf("--until is %q: give a time such as 2026-03-15T04:00:00Z", until)
		}
	case span > 0:
		end = begin.Add(span)
	default:
		return begin, end, errors.New("say how long: --for 2h, or --until with a time")
	}
	if !end.After(now) || !end.After(begin) {
		return begin, end, errors.New("it would end before it begins: give a later end")
	}
	return begin, end, nil
}

func (a *app) silencesRemove() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID", Short: "End a silence now", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			return a.acting(c.Context(), func(s hands) error {
				q, err := s.EndSilence(c.Context(), id, person(), time.Now())
				if err != nil {
					return fmt.Errorf("end silence %d: %w", id, err)
				}
				fmt.Fprintf(a.Stderr, "silence %d has ended\n", q.ID)
				return a.wake(c.Context())
			})
		},
	}
}
