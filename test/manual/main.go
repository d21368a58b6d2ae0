// Command manual writes a manual page for every command of the program into a folder. The packages contain them.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"claudeops/internal/cli"
)

// systemConfig is the configuration of the packaged service.
const systemConfig = "/etc/claudeops/claudeops.yaml"

func main() {
	version := flag.String("version", "dev", "the version that the pages show")
	date := flag.String("date", "", "the date that the pages show")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: manual [-version VERSION] [-date DATE] DIR")
		os.Exit(2)
	}
	var errs []error
	for _, page := range manPages(cli.Commands(cli.Process{Version: *version})) {
		file := filepath.Join(flag.Arg(0), manName(page)+".1")
		errs = append(errs, os.WriteFile(file, manPage(page, *version, *date), 0o644)) //nolint:gosec // everyone may read it
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "write manual pages:", err)
		os.Exit(1)
	}
}

// manPages lists a command and all below it that people may use.
func manPages(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, manPages(sub)...)
		}
	}
	return out
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roffLines protects text from the formatter, line by line.
func roffLines(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, `\`, `\e`), "\n")
	for i, line := range lines {
		line = strings.NewReplacer("-", `\-`, "'", `\(aq`, "`", `\(ga`, "…", "...", "→", `\->`).Replace(line)
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

func manPage(c *cobra.Command, version, date string) []byte {
	var b bytes.Buffer
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	fmt.Fprintf(&b, ".TH %q 1 %q %q %q\n", strings.ToUpper(manName(c)), date, "claudeops "+version, "Claude Ops")
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roffLines(manName(c)), roffLines(c.Short))
	section("SYNOPSIS")
	c.InitDefaultHelpFlag()
	fmt.Fprintf(&b, "\\fB%s\\fR\n", roffLines(c.UseLine()))
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, ".br\n\\fB%s\\fR \\fICOMMAND\\fR\n", roffLines(c.CommandPath()))
	}
	section("DESCRIPTION")
	for i, paragraph := range strings.Split(cmp.Or(c.Long, c.Short+"."), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(&b, roffLines(strings.TrimSpace(paragraph)))
	}
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roffLines(c.Example))
	}
	if !c.HasParent() {
		section("FILES")
		for _, file := range [][2]string{
			{systemConfig, "The configuration of the packaged service, used if there is no other one."},
			{"/etc/claudeops/secrets", "Keys and tokens of the packaged service, one NAME=value per line."},
			{"/var/lib/claudeops", "The state folder of the packaged service: database, backups, token."},
		} {
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", roffLines(file[0]), roffLines(file[1]))
		}
		section("EXIT STATUS")
		fmt.Fprintln(&b, roffLines("0 success, 1 error, 2 wrong usage, 3 invalid configuration, 4 not found, "+
			"5 conflict or pending migration, 6 needs a human, 7 blocked by policy, budget or rate limit, 8 session failed, "+
			"124 timeout, 130 interrupted."))
	}
	if related := manRelated(c); len(related) > 0 {
		section("SEE ALSO")
		fmt.Fprintln(&b, strings.Join(related, ",\n"))
	}
	return b.Bytes()
}

func manFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, about := pflag.UnquoteUsage(f)
		text := "--" + f.Name
		if f.Shorthand != "" {
			text = "-" + f.Shorthand + ", " + text
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roffLines(text))
		if name != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roffLines(name))
		}
		fmt.Fprintf(b, "\n%s\n", roffLines(about))
	})
}

func manRelated(c *cobra.Command) []string {
	var out []string
	add := func(other *cobra.Command) { out = append(out, fmt.Sprintf("\\fB%s\\fR(1)", roffLines(manName(other)))) }
	if c.HasParent() {
		add(c.Parent())
	}
	subs := slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return !sub.IsAvailableCommand() })
	for _, sub := range subs {
		add(sub)
	}
	return out
}
