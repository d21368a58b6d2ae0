package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// completeWithin bounds how long a shell waits for proposals.
const completeWithin = 2 * time.Second

// complete proposes ids, names and values for the arguments and flags of every command below c.
func (a *app) complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.complete(sub)
	}
	for name, values := range map[string][]string{
		"output": outputs(), "level": {"info", "warning", "critical"}, "tier": {"1", "2", "3"}, "state": states(),
		"by": wordsOf(store.CostGroups()), "kind": wordsOf(ops.EventKinds()), "status": statuses(c),
	} {
		if len(values) > 0 && c.LocalNonPersistentFlags().Lookup(name) != nil || name == "output" && !c.HasParent() {
			// It fails only for a flag that does not exist.
			_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	for name, list := range map[string]lister{"environment": a.environmentNames, "service": serviceNames} {
		if c.LocalNonPersistentFlags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, a.proposing(list))
		}
	}
	if c.ValidArgsFunction != nil || len(c.ValidArgs) > 0 || c.HasSubCommands() {
		return
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	if list := arguments(c); list != nil {
		propose := a.proposing(list)
		c.ValidArgsFunction = func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return propose(c, args, start)
		}
	}
	if strings.Contains(c.Use, "FILE") || strings.Contains(c.Use, "DIR") {
		c.ValidArgsFunction = nil // the shell proposes files
	}
}

func wordsOf[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// statuses lists the values of --status of a command.
func statuses(c *cobra.Command) []string {
	if !c.HasParent() {
		return nil
	}
	switch c.Parent().Name() {
	case "sessions":
		return wordsOf(ops.SessionStatuses())
	case "cycles":
		return wordsOf(ops.CycleStatuses())
	case "notify":
		return noticeStatuses()
	}
	return nil
}

// lister lists words, each with a description behind a tab.
type lister func(ctx context.Context, s *client) ([]string, error)

// arguments is what the first argument of a command can be; nil if that is not known.
func arguments(c *cobra.Command) lister {
	switch c.Parent().Name() + " " + strings.TrimSuffix(strings.TrimPrefix(lastWord(c.Use), "["), "]") {
	case "sessions ID":
		return rowsAt("/sessions", func(x api.Session) (any, string) { return x.ID, x.Tier.String() + ", " + string(x.Status) })
	case "cycles ID":
		return rowsAt("/cycles", func(x api.Cycle) (any, string) { return x.ID, x.StatusText() + ", " + x.Title })
	case "incidents ID":
		return rowsAt("/incidents", func(x api.Incident) (any, string) { return x.ID, string(x.Status) + ", " + x.Title })
	case "approvals ID":
		return rowsAt("/approvals", func(x api.Approval) (any, string) { return x.ID, x.Handler + ", " + x.Reason },
			"status", string(ops.ApprovalPending))
	case "silences ID":
		return rowsAt("/silences", func(x api.Silence) (any, string) { return x.ID, matcher(x) })
	case "memory ID":
		return rowsAt("/memories", func(x api.Memory) (any, string) { return x.ID, x.Observation })
	case "actions ID":
		return rowsAt("/actions/runs", func(x api.ActionRun) (any, string) {
			return x.ID, x.Action + " of " + clean(x.Service) + ", " + string(x.Status)
		})
	case "services NAME":
		return serviceNames
	case "hosts HOST":
		return rowsAt("/hosts", func(x api.Host) (any, string) { return clean(x.Name), value(x.Version) })
	}
	return nil
}

func lastWord(s string) string {
	words := strings.Fields(s)
	return words[len(words)-1]
}

// proposing asks the database or the server. Without an answer nothing is proposed: a shell has no place for an error.
func (a *app) proposing(list lister) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeWithin)
		defer cancel()
		a.quiet = true
		var out []string
		if a.chooseServer(c) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		err := a.read(ctx, func(s *client) (err error) {
			out, err = list(ctx, s)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out = slices.DeleteFunc(out, func(word string) bool { return !strings.HasPrefix(word, start) })
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// rowsAt proposes the rows of a list, each by its id or name.
func rowsAt[T any](path string, word func(T) (any, string), filter ...string) lister {
	return func(ctx context.Context, s *client) (out []string, err error) {
		rows, err := items[T](ctx, s, path, query(filter...), proposed)
		for _, r := range rows {
			name, about := word(r)
			out = append(out, fmt.Sprint(name)+"\t"+shorten(about, 60))
		}
		return out, err
	}
}

// proposed is how many rows are proposed.
const proposed = 50

func serviceNames(ctx context.Context, s *client) (out []string, err error) {
	rows, err := s.Services(ctx, "")
	for _, x := range rows {
		out = append(out, clean(x.Name)+"\t"+x.State)
	}
	return out, err
}

// environmentNames lists the environments of the configuration: a server does not list its own.
func (a *app) environmentNames(context.Context, *client) ([]string, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range cfg.Environments() {
		out = append(out, e.Name+"\tenvironment")
	}
	return out, nil
}

// didYouMean proposes the known word that is most like a wrong one, or nothing.
func didYouMean(wrong string, known []string) string {
	best, least := "", max(1, min(3, len(wrong)/2))+1
	for _, word := range known {
		if d := config.EditDistance(strings.ToLower(wrong), strings.ToLower(word)); d < least {
			best, least = word, d
		}
	}
	if best == "" && len(wrong) > 1 {
		if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, wrong) }); i >= 0 {
			best = known[i]
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// commandNames lists the commands below c, with their aliases.
func commandNames(c *cobra.Command) []string {
	var out []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			out = append(append(out, sub.Name()), sub.Aliases...)
		}
	}
	return out
}

// meantCommand proposes a command for a wrong word.
func meantCommand(c *cobra.Command, word string) string {
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, word) {
			word = sub.Name()
		}
	}
	return didYouMean(word, commandNames(c))
}

// flagNames lists the flags of a command.
func flagNames(c *cobra.Command) []string {
	var out []string
	for _, set := range []*pflag.FlagSet{c.Flags(), c.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				out = append(out, "--"+f.Name)
			}
		})
	}
	return out
}

// wrongFlag says in ordinary words what is wrong with a flag.
func wrongFlag(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return usage(fmt.Errorf("--%s is %q: use %s", f.Name, invalid.GetValue(), kindOf(f.Value.Type())))
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		name := "--" + unknown.GetSpecifiedName()
		meant := name
		if name == "--port" && c.Flags().Lookup("listen") != nil {
			meant = "--listen"
		}
		return usage(fmt.Errorf("unknown flag: %s%s\nSee '%s --help'", name, didYouMean(meant, flagNames(c)), c.CommandPath()))
	}
	return usage(err)
}

// kindOf names the values that a flag takes.
func kindOf(flagType string) string {
	switch flagType {
	case "int", "int64":
		return "a whole number"
	case "duration":
		return "a duration such as 30s, 10m or 2h"
	case "float64":
		return "a number"
	case sinceType:
		return "a duration such as 2h or 7d, a date such as 2026-05-01, or a time such as 2026-05-01T15:04:05Z"
	case "bool":
		return "true or false"
	}
	return "another value"
}

// helpCommand is cobra's, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [command]", Short: "Help about any command", Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(found), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at := c.Root()
			for _, word := range args {
				i := slices.IndexFunc(at.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word || sub.HasAlias(word) })
				if i < 0 {
					return usage(fmt.Errorf("unknown help topic %q%s\nSee '%s --help'", word, didYouMean(word, commandNames(at)), at.CommandPath()))
				}
				at = at.Commands()[i]
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}
