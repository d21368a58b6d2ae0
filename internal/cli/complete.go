package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/config"
	"claudeops/internal/ops"
)

// complete proposes no files after commands that take none.
func complete(c *cobra.Command) {
	for _, sub := range c.Commands() {
		complete(sub)
	}
	if c.ValidArgsFunction == nil && len(c.ValidArgs) == 0 && !c.HasSubCommands() && !strings.Contains(c.Use, "FILE") &&
		!strings.Contains(c.Use, "DIR") {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// choice is the value of a flag that takes one of a few words: with another one, a list would only be empty.
type choice struct {
	flag  string
	words []string
	to    *string
}

// choose adds such a flag, whose words a shell proposes.
func choose(c *cobra.Command, to *string, flag, doc string, words []string) {
	c.Flags().Var(&choice{flag, words, to}, flag, doc)
	proposing(c, flag, words)
}

func proposing(c *cobra.Command, flag string, words []string) {
	// It fails only for a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// String is the default that help shows.
func (f *choice) String() string { return value(f.to) }

// Type names the value in help.
func (*choice) Type() string { return "string" }

// Set checks the word.
func (f *choice) Set(text string) error {
	if text != "" && !slices.Contains(f.words, text) {
		last := len(f.words) - 1
		return usage(fmt.Errorf("--%s is %q%s: use %s or %s",
			f.flag, text, didYouMean(text, f.words), strings.Join(f.words[:last], ", "), f.words[last]))
	}
	*f.to = text
	return nil
}

func wordsOf[T ~string](values []T) []string {
	return ops.Map(values, func(v T) string { return string(v) })
}

// didYouMean proposes the known word that is most like a wrong one, or nothing.
func didYouMean(wrong string, known []string) string {
	best := config.Suggest(wrong, known)
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
	var wrong *codeError
	switch {
	case errors.As(err, &wrong):
		return wrong
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
